package api

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the words; see the package comment.
const (
	CPUSetSchedulerAnnotation = "pinfold.dev/cpuset-scheduler"
	CPUPolicyAnnotation       = "pinfold.dev/cpu-policy"
	FullCoresAnnotation       = "pinfold.dev/full-cores"
	CPUBurstAnnotation        = "pinfold.dev/cpu-burst"
	CPUPeriodAnnotation       = "pinfold.dev/cpu-period"
	QoSLabel                  = "pinfold.dev/qos"
	AllocationAnnotation      = "pinfold.dev/cpu-allocation"
	// SchedulerAnnotation is on a Binding, and on the pod that was bound by it: the lease of the
	// scheduler, and its holder.
	SchedulerAnnotation = "pinfold.dev/scheduler"
	// WithoutAgentAnnotation is read by containerd: see docs/agent.md.
	WithoutAgentAnnotation = "pinfold.dev/without-agent"
)

// Word is one annotation or label as it stands on a pod.
type Word struct {
	Label      bool // else an annotation
	Key, Value string
}

// String names the word with its value.
func (w Word) String() string { return fmt.Sprintf("%s: %q", w.name(), w.Value) }

func (w Word) name() string {
	if w.Label {
		return "label " + w.Key
	}
	return "annotation " + w.Key
}

// spelling is one key under which a word may stand, and how it is read there.
type spelling[T comparable] struct {
	label bool
	key   string
	parse func(text string) (T, error)
}

// annotation is the spelling of a word that has the same values under all keys.
func annotation[T comparable](parse func(string) (T, error), keys ...string) []spelling[T] {
	spellings := make([]spelling[T], 0, len(keys))
	for _, key := range keys {
		spellings = append(spellings, spelling[T]{key: key, parse: parse})
	}
	return spellings
}

// look reads a word of a pod. It returns the zero Word when it stands under no key, a [*ValueError]
// when it cannot be read under one of them, and a [*ContradictionError] when two keys do not mean
// the same.
func look[T comparable](pod *corev1.Pod, spellings []spelling[T]) (value T, found Word, err error) {
	for _, s := range spellings {
		texts := pod.Annotations
		if s.label {
			texts = pod.Labels
		}
		text, ok := texts[s.key]
		if !ok {
			continue
		}
		word := Word{s.label, s.key, text}
		meaning, err := s.parse(text)
		switch {
		case err != nil:
			return value, word, &ValueError{word, err}
		case found == Word{}:
			value, found = meaning, word
		case meaning != value:
			return value, word, &ContradictionError{A: found, B: word, Advice: "remove one of them or make them agree"}
		}
	}
	return value, found, nil
}

// ValueError is about a word that cannot be read.
type ValueError struct {
	Word
	Err error // what may stand there
}

func (e *ValueError) Error() string {
	// The value of a JSON word is long, and its error names the place.
	if strings.Contains(e.Value, "{") {
		return fmt.Sprintf("%s: %v", e.name(), e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Word, e.Err)
}

// Unwrap returns the cause.
func (e *ValueError) Unwrap() error { return e.Err }

// ContradictionError is about two words that cannot both be meant.
type ContradictionError struct {
	A, B   Word
	Advice string
}

func (e *ContradictionError) Error() string {
	return fmt.Sprintf("%s and %s contradict each other: %s", e.A, e.B, e.Advice)
}

// oneOf makes a parser of the values of a word.
func oneOf[T ~string](values ...T) func(string) (T, error) {
	return func(text string) (T, error) {
		quoted := make([]string, 0, len(values))
		for _, v := range values {
			if string(v) == text {
				return v, nil
			}
			quoted = append(quoted, fmt.Sprintf("%q", v))
		}
		return "", fmt.Errorf("it must be %s", enumerate(quoted))
	}
}

// enumerate writes "a", "a or b", "a, b or c".
func enumerate(items []string) string {
	last := len(items) - 1
	if last < 1 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:last], ", ") + " or " + items[last]
}
