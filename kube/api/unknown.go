package api

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// domain is the prefix of Pinfold's own keys.
const domain = "pinfold.dev/"

// MostUnknown is the largest number of sentences that [Unknown] returns: a pod may have thousands
// of annotations.
const MostUnknown = 3

// mostKeys is how many annotations, or labels, of a pod are compared with those that are known. Nobody
// writes more by hand, and a pod may have tens of thousands.
const mostKeys = 256

// nearMiss is the largest number of edits for which a key without a domain counts as misspelled:
// such a key may also belong to other software.
const nearMiss = 2

// Unknown returns a sentence for each annotation and label of a pod that is ignored but probably
// misspelled: one in Pinfold's domain, one similar to cpuset-scheduler or cpu-policy, or a label that
// is to be an annotation, or the reverse. Each sentence names the nearest known key. There are at most
// MostUnknown sentences.
func Unknown(pod *corev1.Pod) []string {
	all := append(unknownIn(pod.Annotations, false), unknownIn(pod.Labels, true)...)
	return all[:min(len(all), MostUnknown)]
}

func unknownIn(texts map[string]string, labels bool) (sentences []string) {
	if len(texts) > mostKeys {
		return nil
	}
	meant := append(annotationKeys(), QoSLabel)
	known, elsewhere, kind := slices.Concat(annotationKeys(), writtenKeys()), QoSKeys(), "a label"
	if labels {
		known, elsewhere, kind = []string{QoSLabel, PoolLabel}, append(annotationKeys(), burstKeys()...), "an annotation"
		elsewhere = slices.DeleteFunc(elsewhere, func(key string) bool { return key == "cpu-policy" }) // may be other software's
	}
	var suspect []string
	for key := range texts {
		own := strings.HasPrefix(key, domain) || slices.Contains(elsewhere, key)
		if (own || !labels && resembles(key, meant)) && !slices.Contains(known, key) {
			suspect = append(suspect, key)
		}
	}
	slices.Sort(suspect)
	for _, key := range suspect[:min(len(suspect), MostUnknown)] {
		suspected := setting{labels, key, ""}
		if slices.Contains(elsewhere, key) {
			sentences = append(sentences, fmt.Sprintf("%s has no effect: write it as %s", suspected.name(), kind))
			continue
		}
		nearest, _ := nearestKey(key, meant, strings.HasPrefix(key, domain))
		meant := setting{Label: nearest == QoSLabel, Key: nearest}
		sentences = append(sentences, fmt.Sprintf("%s is not known and has no effect: is the %s meant?", suspected.name(), meant.name()))
	}
	return sentences
}

// resembles reports whether a key without a domain counts as one that is misspelled.
func resembles(key string, known []string) bool {
	if strings.Contains(key, "/") {
		return false
	}
	_, edits := nearestKey(key, known, false)
	return edits <= nearMiss
}

// annotationKeys returns the annotations that users write.
func annotationKeys() []string {
	return slices.Concat(CPUSetSchedulerKeys(), CPUPolicyKeys(), []string{FullCoresAnnotation, CPUBurstAnnotation, CPUPeriodAnnotation, MoveAnnotation})
}

// writtenKeys returns the annotations that Pinfold or its manifests set on pods.
func writtenKeys() []string {
	return []string{AllocationAnnotation, SchedulerAnnotation, WithoutAgentAnnotation}
}

// nearestKey returns the known key with the fewest edits, among those in Pinfold's domain (own) or
// the others.
func nearestKey(key string, known []string, own bool) (nearest string, edits int) {
	edits = math.MaxInt
	for _, k := range known {
		if strings.HasPrefix(k, domain) != own || !own && max(len(key)-len(k), len(k)-len(key)) > nearMiss {
			continue
		}
		if n := distance(key, k); n < edits {
			nearest, edits = k, n
		}
	}
	return nearest, edits
}

// distance returns the Levenshtein distance: the number of bytes to insert, remove or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // from the part of a read so far to each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
