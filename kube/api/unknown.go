package api

import (
	"fmt"
	"maps"
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

// mostKeys bounds the work for a pod, which may have tens of thousands of annotations: with more of them,
// or of labels, it gets no sentences about any.
const mostKeys = 256

// Unknown returns a sentence for each annotation and label of a pod that is ignored but probably
// misspelled: one in Pinfold's domain or a similar one, whatever its case, one similar to the accepted keys of
// others, or a label that is to be an annotation, or the reverse. Each sentence names the nearest known
// key. There are at most MostUnknown sentences.
func Unknown(pod *corev1.Pod) []string {
	all := append(unknownIn(pod.Annotations, false), unknownIn(pod.Labels, true)...)
	return all[:min(len(all), MostUnknown)]
}

func unknownIn(texts map[string]string, labels bool) (sentences []string) {
	if len(texts) > mostKeys {
		return nil
	}
	known, elsewhere, kind := append(PodAnnotations(), "cpu-policy", WithoutAgentAnnotation), QoSKeys(), "a label"
	if labels {
		known, elsewhere, kind = append(QoSKeys(), PoolLabel), PodAnnotations(), "an annotation"
	}
	meant := map[string]string{} // what is to be written instead, by key
	for key := range texts {
		switch nearest := nearestKey(key, labels); {
		case slices.Contains(known, key):
		case slices.Contains(elsewhere, key):
			meant[key] = "has no effect: write it as " + kind
		case key == domain+"keep-requests" || key == domain+"unprotected":
			meant[key] = "has no effect: write it as a label of the namespace"
		case nearest != "":
			meant[key] = fmt.Sprintf("is not known and has no effect: is the %s meant?", setting{Label: slices.Contains(QoSKeys(), nearest), Key: nearest}.name())
		}
	}
	for _, key := range slices.Sorted(maps.Keys(meant))[:min(len(meant), MostUnknown)] {
		sentences = append(sentences, setting{labels, key, ""}.name()+" "+meant[key])
	}
	return sentences
}

// annotationKeys returns the annotations that users write, without those of the burst policy of others.
func annotationKeys() []string {
	return slices.Concat(CPUSetSchedulerKeys(), CPUPolicyKeys(), []string{FullCoresAnnotation, CPUBurstAnnotation, CPUPeriodAnnotation, MoveAnnotation})
}

// PodAnnotations returns the annotations that users write on pods, without the one that may be other
// software's.
func PodAnnotations() []string {
	all := append(annotationKeys(), burstKeys()[1:]...)
	return slices.DeleteFunc(all, func(key string) bool { return key == "cpu-policy" })
}

// nearestKey returns the known key that another one is probably to be, whatever its case, or "". In
// Pinfold's domain, or a similar one, that is the nearest. In the domains whose keys are accepted, too, and
// in none, it must be nearly one of these, or of Pinfold's own: others may be other software's.
func nearestKey(key string, label bool) (nearest string) {
	prefix, name := cutKey(strings.ToLower(key))
	own := prefix == "pinfold" || strings.HasSuffix(prefix, ".pinfold.dev") || len(prefix) < 2*len(domain) && distance(prefix+"/", domain) <= 3
	foreign := prefix == "koordinator.sh" || prefix == "alibabacloud.com"
	if !own && !foreign && (prefix != "" || label) {
		return ""
	}
	edits := math.MaxInt
	for _, known := range slices.Concat(annotationKeys(), burstKeys()[1:], QoSKeys()) {
		of, end := cutKey(known)
		most := 1
		switch isOwn := of+"/" == domain; {
		case own && isOwn:
			most = math.MaxInt
		case own, of != prefix && !isOwn, prefix == "" && (end == "move" || end == "qos"):
			continue
		case of == "":
			most = 2
		}
		if max(len(end)-len(name), len(name)-len(end)) > most {
			continue
		}
		if n := distance(name, strings.ToLower(end)); n <= most && n < edits {
			nearest, edits = known, n
		}
	}
	return nearest
}

// cutKey returns the domain of a key, which may be "", and its name.
func cutKey(key string) (prefix, name string) {
	at := strings.Index(key, "/")
	return key[:max(at, 0)], key[at+1:]
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
