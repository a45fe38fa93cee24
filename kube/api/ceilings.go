package api

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/quantity"
)

// Ceilings limit what pods may get through their annotations. The administrator gives them to the
// scheduler and to the agents:
//
//	default:                        # namespaces that are not named below
//	  exclusiveCPUs: {perPod: 8, perNamespace: 64}
//	  burst: {policy: burst, burstPercent: 100, quotaPercent: 200, quotaBurstSeconds: 60}
//	  period: {min: 10ms, max: 100ms}
//	namespaces:
//	  team-a: {exclusiveCPUs: {perPod: 32}}
//
// Fields that a namespace omits are as in default. The zero value has only the ceilings of
// [BuiltInCeiling].
type Ceilings struct {
	Default    Ceiling            `json:"default"`
	Namespaces map[string]Ceiling `json:"namespaces,omitempty"`
}

// Ceiling limits what the pods of one namespace may get.
type Ceiling struct {
	ExclusiveCPUs CPUCeiling    `json:"exclusiveCPUs"`
	Burst         BurstCeiling  `json:"burst"`
	Period        PeriodCeiling `json:"period"`
}

// CPUCeiling limits the number of exclusive CPUs. A nil field means no limit; 0 permits no
// exclusive CPUs.
type CPUCeiling struct {
	PerPod       *int `json:"perPod,omitempty"`
	PerNamespace *int `json:"perNamespace,omitempty"`
}

// PeriodCeiling limits the CFS period.
type PeriodCeiling struct {
	Min *metav1.Duration `json:"min,omitempty"`
	Max *metav1.Duration `json:"max,omitempty"`
}

// shortestPeriod is the shortest period of [BuiltInCeiling]: the slice in which the kernel
// distributes quota to CPUs (sched_cfs_bandwidth_slice_us). In a shorter period one slice may be
// the whole quota, and each cgroup costs the node one timer per period.
const shortestPeriod = 5 * time.Millisecond

// BuiltInCeiling returns the ceiling that applies where the administrator sets none. It permits a
// quota of up to three times the limit for at most a minute, and the kernel burst of Koordinator's
// defaults. It does not limit exclusive CPUs.
func BuiltInCeiling() Ceiling {
	return Ceiling{
		Burst:  BurstCeiling{burst.Policy{Mode: burst.Auto, BurstPercent: 1000, QuotaPercent: 300, QuotaBurstSeconds: 60}},
		Period: PeriodCeiling{Min: &metav1.Duration{Duration: shortestPeriod}, Max: &metav1.Duration{Duration: bandwidth.MaxPeriod}},
	}
}

// ParseCeilings parses ceilings in YAML or JSON. It rejects duplicate, unknown and malformed
// fields, which would otherwise be ignored.
func ParseCeilings(text []byte) (Ceilings, error) {
	var c Ceilings
	if err := DecodeYAML(text, &c); err != nil {
		return Ceilings{}, err
	}
	return c, c.Validate()
}

// Validate returns an error if the ceilings are inconsistent.
func (c *Ceilings) Validate() error {
	errs := []error{c.Default.validate("default")}
	for _, name := range slices.Sorted(maps.Keys(c.Namespaces)) {
		of := c.For(name)
		errs = append(errs, of.validate("namespaces."+name))
	}
	return joined(errs...)
}

func (c *Ceiling) validate(where string) error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(where+"."+format, args...)) }
	for name, value := range map[string]*int{"perPod": c.ExclusiveCPUs.PerPod, "perNamespace": c.ExclusiveCPUs.PerNamespace} {
		if value != nil && *value < 0 {
			refuse("exclusiveCPUs.%s %d: it must be 0 or more", name, *value)
		}
	}
	for name, value := range map[string]*metav1.Duration{"min": c.Period.Min, "max": c.Period.Max} {
		if value != nil {
			if err := checkPeriod(value.Duration); err != nil {
				refuse("period.%s %v: %w", name, value.Duration, err)
			}
		}
	}
	with := c.or(BuiltInCeiling())
	if shortest, longest := with.Period.Min.Duration, with.Period.Max.Duration; shortest > longest {
		refuse("period: min %v is above max %v", shortest, longest)
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return joined(errs...)
}

// Allowing returns the ceilings for an agent whose flags set the given burst policy. Default burst
// ceilings that the administrator left out are raised to permit at least that policy.
func (c Ceilings) Allowing(policy burst.Policy) Ceilings {
	most := BuiltInCeiling().Burst.Policy
	most.BurstPercent = max(most.BurstPercent, policy.BurstPercent)
	most.QuotaPercent = max(most.QuotaPercent, policy.QuotaPercent)
	if longer(policy.QuotaBurstSeconds, most.QuotaBurstSeconds) {
		most.QuotaBurstSeconds = policy.QuotaBurstSeconds
	}
	c.Default.Burst.Policy = c.Default.Burst.Or(most)
	return c
}

// For returns the ceiling of a namespace. Fields that the administrator left out are as in
// BuiltInCeiling. A nil receiver is equivalent to the zero value.
func (c *Ceilings) For(namespace string) Ceiling {
	if c == nil {
		return BuiltInCeiling()
	}
	named := c.Namespaces[namespace]
	of := named.or(c.Default)
	return of.or(BuiltInCeiling())
}

// or returns the ceiling with unset fields taken from others.
func (c *Ceiling) or(others Ceiling) Ceiling {
	return Ceiling{
		ExclusiveCPUs: CPUCeiling{
			PerPod:       cmp.Or(c.ExclusiveCPUs.PerPod, others.ExclusiveCPUs.PerPod),
			PerNamespace: cmp.Or(c.ExclusiveCPUs.PerNamespace, others.ExclusiveCPUs.PerNamespace),
		},
		Burst: BurstCeiling{c.Burst.Or(others.Burst.Policy)},
		Period: PeriodCeiling{
			Min: cmp.Or(c.Period.Min, others.Period.Min),
			Max: cmp.Or(c.Period.Max, others.Period.Max),
		},
	}
}

// CheckPod returns an error, for the author of the pod, if a pod may not have the given number of
// exclusive CPUs.
func (c *CPUCeiling) CheckPod(cpus int) error {
	if c.PerPod == nil || cpus <= *c.PerPod {
		return nil
	}
	return fmt.Errorf("the pod asks for %s: the administrator allows %d per pod in its namespace",
		quantity.Count(cpus, "exclusive CPU"), *c.PerPod)
}

// CheckNamespace returns an error, for the author of the pod, if a pod with the given number of
// exclusive CPUs would exceed the ceiling of its namespace. inUse is the number of exclusive CPUs
// of the other pods in the namespace.
func (c *CPUCeiling) CheckNamespace(cpus, inUse int) error {
	if c.PerNamespace == nil || cpus <= 0 || cpus+inUse <= *c.PerNamespace {
		return nil
	}
	return fmt.Errorf("the pod asks for %s and its namespace has or wants %d: the administrator allows the namespace %d",
		quantity.Count(cpus, "exclusive CPU"), inUse, *c.PerNamespace)
}

// CapBurst returns the burst policy that a pod gets when it asks for the given one. The returned
// sentence names what was asked for and what is allowed; it is empty if nothing was capped. Fields
// that the policy leaves unset remain unset.
func (c *Ceiling) CapBurst(asked burst.Policy) (burst.Policy, string) {
	got, most := asked, c.Burst.Or(BuiltInCeiling().Burst.Policy)
	got.Mode = asked.Mode.Within(most.Mode)
	var more []string
	note := func(name string, was, is any) {
		if was != is {
			more = append(more, fmt.Sprintf("%s %v (allowed: %v)", name, was, is))
		}
	}
	note("policy", string(asked.Mode), string(got.Mode))
	if got.Mode == burst.None {
		got = burst.Policy{Mode: burst.None} // the figures have no effect
	} else {
		got.BurstPercent = min(asked.BurstPercent, most.BurstPercent)
		got.QuotaPercent = min(asked.QuotaPercent, most.QuotaPercent)
		if longer(asked.QuotaBurstSeconds, most.QuotaBurstSeconds) {
			got.QuotaBurstSeconds = most.QuotaBurstSeconds
		}
		note("burstPercent", asked.BurstPercent, got.BurstPercent)
		note("quotaPercent", asked.QuotaPercent, got.QuotaPercent)
		note("quotaBurstSeconds", asked.QuotaBurstSeconds, got.QuotaBurstSeconds)
	}
	if more == nil {
		return asked, ""
	}
	return got, fmt.Sprintf("cpu-burst asks for more than the administrator allows: %s", strings.Join(more, ", "))
}

// CapPeriod returns the CFS period that a pod gets, and a sentence as CapBurst does. A period of 0
// means none.
func (c *Ceiling) CapPeriod(asked time.Duration) (time.Duration, string) {
	if asked == 0 {
		return 0, ""
	}
	most := c.or(BuiltInCeiling()).Period
	got := min(max(asked, most.Min.Duration), most.Max.Duration)
	if got == asked {
		return asked, ""
	}
	return got, fmt.Sprintf("cpu-period asks for %v, and the administrator allows %v to %v: it is %v", asked, most.Min.Duration, most.Max.Duration, got)
}

// longer reports whether a is longer than b, as QuotaBurstSeconds.
func longer(a, b int) bool {
	return b != burst.NoEnd && (a == burst.NoEnd || a > b)
}
