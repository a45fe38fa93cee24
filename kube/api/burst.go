package api

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
)

// BurstMode says by what means a container may exceed its CPU limit for a moment.
type BurstMode string

const (
	// BurstNone lets nobody exceed the limit.
	BurstNone BurstMode = "none"
	// BurstKernel lets the kernel give back quota that was not used before.
	BurstKernel BurstMode = "burst"
	// BurstQuota lets the agent raise the quota for a short while.
	BurstQuota BurstMode = "quota"
	// BurstAuto is both.
	BurstAuto BurstMode = "auto"
)

// Unlimited is the QuotaBurstSeconds of a quota that may stay raised as long as
// unused quota lasts.
const Unlimited = -1

// BurstPolicy is the value of cpu-burst:
//
//	{"policy": "auto", "burstPercent": 100, "quotaPercent": 300, "quotaBurstSeconds": 60}
//
// All fields but policy may be left out; the agent's configuration fills them in.
// The zero value is that of a pod without the word. [Ceilings] use the same fields, and
// may leave out policy, too.
type BurstPolicy struct {
	Mode BurstMode `json:"policy,omitempty"`
	// BurstPercent of the limit is what can be saved up, 1 to 10000; 0 when not
	// given.
	BurstPercent int `json:"burstPercent,omitempty"`
	// QuotaPercent of the limit is the highest quota, 100 to 10000; 0 when not given.
	QuotaPercent int `json:"quotaPercent,omitempty"`
	// QuotaBurstSeconds is how long a quota may stay raised, or Unlimited; 0 when not
	// given.
	QuotaBurstSeconds int `json:"quotaBurstSeconds,omitempty"`
}

func burstSpellings() []spelling[BurstPolicy] {
	return []spelling[BurstPolicy]{
		{false, CPUBurstAnnotation, readBurst},
		{false, "koordinator.sh/cpuBurst", readForeignBurst},
		{false, "alibabacloud.com/cpuBurst", readForeignBurst},
	}
}

// parseBurst reads the burst policy of a pod.
func parseBurst(pod *corev1.Pod) (BurstPolicy, Word, error) { return look(pod, burstSpellings()) }

// readBurst reads the value of cpu-burst. The policy must be given.
func readBurst(text string) (BurstPolicy, error) {
	var p BurstPolicy
	if err := decodeJSON(text, &p); err != nil {
		return BurstPolicy{}, err
	}
	_, err := readMode(string(p.Mode))
	return p, err
}

// UnmarshalJSON implements json.Unmarshaler. It is strict, so that a misspelt field is found.
func (p *BurstPolicy) UnmarshalJSON(text []byte) error {
	var in struct {
		Policy            *string `json:"policy"`
		BurstPercent      *int    `json:"burstPercent"`
		QuotaPercent      *int    `json:"quotaPercent"`
		QuotaBurstSeconds *int    `json:"quotaBurstSeconds"`
	}
	if err := decodeJSON(string(text), &in, json.DisallowUnknownFields, json.DisallowDuplicateFields); err != nil {
		return err
	}
	var read BurstPolicy
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
	*p = read
	return nil
}

func readMode(text string) (BurstMode, error) {
	mode, err := oneOf(BurstNone, BurstKernel, BurstQuota, BurstAuto)(text)
	if err != nil {
		return "", fmt.Errorf("policy %q: %w", text, err)
	}
	return mode, nil
}

// readForeignBurst translates Koordinator's policy, of which ACK's is a copy. It may
// have fields that are not known here.
func readForeignBurst(text string) (BurstPolicy, error) {
	var in struct {
		Policy             string `json:"policy"`
		BurstPercent       *int   `json:"cpuBurstPercent"`
		QuotaPercent       *int   `json:"cfsQuotaBurstPercent"`
		QuotaPeriodSeconds *int   `json:"cfsQuotaBurstPeriodSeconds"`
	}
	if err := decodeJSON(text, &in, json.DisallowDuplicateFields); err != nil {
		return BurstPolicy{}, err
	}
	modes := map[string]BurstMode{"none": BurstNone, "cpuBurstOnly": BurstKernel, "cfsQuotaBurstOnly": BurstQuota, "auto": BurstAuto}
	mode, ok := modes[in.Policy]
	if !ok {
		return BurstPolicy{}, fmt.Errorf(`policy %q: it must be "none", "cpuBurstOnly", "cfsQuotaBurstOnly" or "auto"`, in.Policy)
	}
	if in.BurstPercent != nil && *in.BurstPercent == 0 { // no burst of the kernel
		in.BurstPercent = nil
		mode = map[BurstMode]BurstMode{BurstKernel: BurstNone, BurstAuto: BurstQuota, BurstNone: BurstNone, BurstQuota: BurstQuota}[mode]
	}
	p := BurstPolicy{Mode: mode}
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
	if *value != Unlimited && *value < 1 {
		return fmt.Errorf("%s %d: it must be 1 or more, or %d for no end", name, *value, Unlimited)
	}
	*to = *value
	return nil
}
