package api

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Keys of the settings; the package comment has their aliases and values.
const (
	CPUSetSchedulerAnnotation = "pinfold.dev/cpuset-scheduler"
	CPUPolicyAnnotation       = "pinfold.dev/cpu-policy"
	FullCoresAnnotation       = "pinfold.dev/full-cores"
	CPUBurstAnnotation        = "pinfold.dev/cpu-burst"
	CPUPeriodAnnotation       = "pinfold.dev/cpu-period"
	MoveAnnotation            = "pinfold.dev/move"
	QoSLabel                  = "pinfold.dev/qos"
	// BatchCPU is the extended resource that batch pods request, in thousandths of a CPU.
	BatchCPU corev1.ResourceName = "pinfold.dev/batch-cpu"
	// BatchStarved is the type of the node condition that is True while the batch pods of a node
	// have had next to no CPU time for a minute. The agent writes it, where batch pods are bounded.
	BatchStarved corev1.NodeConditionType = "PinfoldBatchStarved"
	// WithoutAgentAnnotation is read by containerd: see docs/agent.md.
	WithoutAgentAnnotation = "pinfold.dev/without-agent"
	// PoolLabel names the pool of an agent's pod, and of its node unless the pool has other labels.
	PoolLabel = "pinfold.dev/pool"
)

// setting is one annotation or label of a pod.
type setting struct {
	Label      bool // otherwise an annotation
	Key, Value string
}

// String returns the key and the value.
func (s setting) String() string {
	return fmt.Sprintf("%s: %q", s.name(), Shorten(s.Value, longestValue))
}

func (s setting) name() string {
	if s.Label {
		return "label " + s.Key
	}
	return "annotation " + s.Key
}

// alias is one key of a setting, with the parser of its values.
type alias[T comparable] struct {
	label bool
	key   string
	parse func(text string) (T, error)
}

// annotation returns the aliases of an annotation that has the same values under all keys.
func annotation[T comparable](parse func(string) (T, error), keys ...string) []alias[T] {
	aliases := make([]alias[T], 0, len(keys))
	for _, key := range keys {
		aliases = append(aliases, alias[T]{key: key, parse: parse})
	}
	return aliases
}

// lookUp parses a setting of a pod. It returns the zero setting if the pod has none of its keys,
// and an error if a value is invalid or two keys have different meanings.
func lookUp[T comparable](pod *corev1.Pod, aliases []alias[T]) (value T, found setting, err error) {
	for _, s := range aliases {
		texts := pod.Annotations
		if s.label {
			texts = pod.Labels
		}
		text, ok := texts[s.key]
		if !ok {
			continue
		}
		here := setting{s.label, s.key, text}
		meaning, err := s.parse(text)
		switch {
		case err != nil:
			return value, here, here.invalid(err)
		case found == setting{}:
			value, found = meaning, here
		case meaning != value:
			return value, here, contradiction(found, here, "remove one of them or make them agree")
		}
	}
	return value, found, nil
}

// invalid returns the error about the setting's value. err names the valid values.
func (s setting) invalid(err error) error {
	cause := Shorten(err.Error(), longestCause)
	// JSON values are long, and their errors name the field.
	if strings.Contains(s.Value, "{") {
		return fmt.Errorf("%s: %s", s.name(), cause)
	}
	return fmt.Errorf("%s: %s", s, cause)
}

func contradiction(a, b setting, advice string) error {
	return fmt.Errorf("%s and %s contradict each other: %s", a, b, advice)
}

// oneOf returns a parser that accepts the given values.
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

// enumerate returns "a", "a or b", "a, b or c".
func enumerate(items []string) string {
	last := len(items) - 1
	if last < 1 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:last], ", ") + " or " + items[last]
}

// DecodeYAML parses YAML or JSON. It rejects duplicate and unknown fields.
func DecodeYAML(text []byte, into any) error {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return fmt.Errorf("it is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return decodeJSON(string(asJSON), into)
}

// decodeJSON parses one JSON value. Names of fields are case-sensitive.
func decodeJSON(text string, into any, strict ...json.StrictOption) error {
	strictErrors, err := json.UnmarshalStrict([]byte(text), into, strict...)
	var mistyped *stdjson.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped) && mistyped.Field != "":
		return fmt.Errorf("%s: it must not be a JSON %s", mistyped.Field, mistyped.Value)
	case errors.As(err, &mistyped):
		return fmt.Errorf("it must not be a JSON %s", mistyped.Value)
	case err != nil:
		if syntax, _ := json.SyntaxErrorOffset(err); syntax {
			return fmt.Errorf("it is not JSON, or was cut short: %w", err)
		}
		return errors.New(strings.TrimPrefix(err.Error(), "time: ")) // of a duration
	}
	return joined(strictErrors...)
}

// What messages quote of users' annotations, in bytes: an annotation may have 256 KiB, and messages
// are stored in conditions and events.
const (
	longestValue = 100
	longestCause = 500
)

// Shorten cuts a text to a number of bytes.
func Shorten(text string, limit int) string {
	const mark = " ..."
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}

// joined joins errors on one line.
func joined(errs ...error) error {
	var texts []string
	for _, err := range errs {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if texts == nil {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}
