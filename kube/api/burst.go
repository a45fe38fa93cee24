package api

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/json"

	"pinfold.dev/pinfold/core/burst"
)

// BurstCeiling is a burst policy in JSON, as in the value of cpu-burst:
//
//	{"policy": "auto", "burstPercent": 100, "quotaPercent": 300, "quotaBurstSeconds": 60}
//
// In the value of cpu-burst, only policy is required; omitted fields are as in the agent's
// configuration. In [Ceilings], all fields may be omitted.
type BurstCeiling struct{ burst.Policy }

// parseBurst parses the burst policy of a pod.
func parseBurst(pod *corev1.Pod) (burst.Policy, setting, error) {
	return lookUp(pod, []alias[burst.Policy]{
		{false, CPUBurstAnnotation, readBurst},
		{false, burstKeys()[1], readForeignBurst},
		{false, burstKeys()[2], readForeignBurst},
	})
}

// burstKeys returns the annotation keys of the burst policy, including aliases.
func burstKeys() []string {
	return []string{CPUBurstAnnotation, "koordinator.sh/cpuBurst", "alibabacloud.com/cpuBurst"}
}

// readBurst parses the value of cpu-burst, which must have a policy.
func readBurst(text string) (burst.Policy, error) {
	var p BurstCeiling
	if err := decodeBurst(text, &p); err != nil {
		return burst.Policy{}, err
	}
	_, err := readMode(string(p.Mode))
	return p.Policy, err
}

// maxBurst bounds the text of an annotation about burst, in bytes: every version of a pod is read.
const maxBurst = 4 << 10

// decodeBurst decodes the object of an annotation.
func decodeBurst(text string, into any, strict ...json.StrictOption) error {
	if len(text) > maxBurst {
		return fmt.Errorf("it has %d bytes: write at most %d", len(text), maxBurst)
	}
	if !strings.HasPrefix(strings.TrimSpace(text), "{") || !stdjson.Valid([]byte(text)) {
		return errors.New(`it must be JSON such as {"policy": "auto"}`)
	}
	return decodeJSON(text, into, strict...)
}

// UnmarshalJSON implements json.Unmarshaler. It rejects unknown fields, to find misspelt ones.
func (p *BurstCeiling) UnmarshalJSON(text []byte) error {
	var in struct {
		Policy            *string `json:"policy"`
		BurstPercent      *int    `json:"burstPercent"`
		QuotaPercent      *int    `json:"quotaPercent"`
		QuotaBurstSeconds *int    `json:"quotaBurstSeconds"`
	}
	if err := decodeJSON(string(text), &in, json.DisallowUnknownFields, json.DisallowDuplicateFields); err != nil {
		return err
	}
	var read burst.Policy
	var modeErr error
	if in.Policy != nil {
		read.Mode, modeErr = readMode(*in.Policy)
	}
	if err := joined(modeErr,
		percent(&read.BurstPercent, "burstPercent", in.BurstPercent, 1),
		percent(&read.QuotaPercent, "quotaPercent", in.QuotaPercent, 100),
		seconds(&read.QuotaBurstSeconds, "quotaBurstSeconds", in.QuotaBurstSeconds)); err != nil {
		return err
	}
	p.Policy = read
	return nil
}

func readMode(text string) (burst.Mode, error) {
	mode, err := oneOf(burst.Modes()...)(text)
	if err != nil {
		return "", fmt.Errorf("policy %q: %w", text, err)
	}
	return mode, nil
}

// readForeignBurst parses a burst policy of Koordinator or of ACK, which has the same format.
// Unknown fields are ignored.
func readForeignBurst(text string) (burst.Policy, error) {
	var in struct {
		Policy             string `json:"policy"`
		BurstPercent       *int   `json:"cpuBurstPercent"`
		QuotaPercent       *int   `json:"cfsQuotaBurstPercent"`
		QuotaPeriodSeconds *int   `json:"cfsQuotaBurstPeriodSeconds"`
	}
	if err := decodeBurst(text, &in, json.DisallowDuplicateFields); err != nil {
		return burst.Policy{}, err
	}
	p := burst.Policy{}
	var names []string
	for _, d := range burst.Definitions() {
		if d.Koordinator != "" {
			names = append(names, d.Koordinator)
		}
		if d.Koordinator == in.Policy {
			p.Mode = d.Mode
		}
	}
	if _, err := oneOf(names...)(in.Policy); err != nil {
		return p, fmt.Errorf("policy %q: %w", in.Policy, err)
	}
	if in.BurstPercent != nil && *in.BurstPercent == 0 { // no kernel burst
		in.BurstPercent, p = nil, p.WithKernel(0)
	}
	return p, joined(
		percent(&p.BurstPercent, "cpuBurstPercent", in.BurstPercent, 0),
		percent(&p.QuotaPercent, "cfsQuotaBurstPercent", in.QuotaPercent, 100),
		seconds(&p.QuotaBurstSeconds, "cfsQuotaBurstPeriodSeconds", in.QuotaPeriodSeconds))
}

const maxPercent = 10000

func percent(to *int, name string, value *int, least int) error {
	if value == nil {
		return nil
	}
	if *value < least || *value > maxPercent {
		return fmt.Errorf("%s %d: it must be %d to %d", name, *value, least, maxPercent)
	}
	*to = *value
	return nil
}

func seconds(to *int, name string, value *int) error {
	if value == nil {
		return nil
	}
	if *value != burst.NoEnd && *value < 1 {
		return fmt.Errorf("%s %d: it must be 1 or more, or %d for no end", name, *value, burst.NoEnd)
	}
	*to = *value
	return nil
}
