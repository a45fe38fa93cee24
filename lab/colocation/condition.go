package colocation

import (
	"errors"
	"fmt"
	"slices"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Condition is what runs beside the service, and how.
type Condition struct {
	Name string `json:"name"`
	// Batch is whether batch work runs.
	Batch bool `json:"batch"`
	// Least is the kernel's least weight, which pods of QoS class BestEffort have. Otherwise batch
	// work has the weight of the service.
	Least bool `json:"least,omitempty"`
	// Idle is idle priority (cpu.idle), which batch pods have.
	Idle bool `json:"idle,omitempty"`
	// Threshold is the share of the CPUs that everything together should use, by a quota on batch
	// work as the agent sets it. There is no quota if it is 0.
	Threshold quantity.Share `json:"threshold,omitempty"`
	// CPUs is the share of the CPUs that batch work may run on, by a cpuset. It may run on all if it
	// is 0.
	CPUs quantity.Share `json:"cpus,omitempty"`
}

// Alone is the name of the condition without batch work.
const Alone = "alone"

// Conditions returns what is compared by default: nothing, batch work without a class, and with one
// mechanism after the other.
func Conditions() []Condition {
	return []Condition{
		{Name: Alone},
		{Name: "equal weight", Batch: true},
		{Name: "BestEffort", Batch: true, Least: true},
		{Name: "idle", Batch: true, Idle: true},
		{Name: "idle, budget 90%", Batch: true, Idle: true, Threshold: 0.9},
		{Name: "idle, budget 75%", Batch: true, Idle: true, Threshold: 0.75},
		{Name: "idle, half of the CPUs", Batch: true, Idle: true, CPUs: 0.5},
	}
}

// checkConditions checks that there is a window alone to compare with.
func checkConditions(conditions []Condition) error {
	names := map[string]bool{}
	for _, c := range conditions {
		switch {
		case names[c.Name]:
			return fmt.Errorf("condition %q is there twice", c.Name)
		case (c.Name == Alone) == c.Batch:
			return fmt.Errorf("condition %q: only %q runs without batch work", c.Name, Alone)
		case c.Threshold < 0 || c.Threshold > 1:
			return fmt.Errorf("condition %q has a threshold of %v: it must be from 0 to 1", c.Name, float64(c.Threshold))
		}
		names[c.Name] = true
	}
	if !names[Alone] || len(names) < 2 {
		return errors.New("there must be a condition besides " + Alone + ", and that itself")
	}
	return nil
}

// wanted returns the settings of the group of batch work on a machine with some CPUs. Its quota is
// removed; that of a budget follows.
func (c Condition) wanted(version cgroup.Version, cpus cpuset.Set) cgroup.Wanted {
	weights := map[cgroup.Version][2]cgroup.Weight{cgroup.V1: {1024, 2}, cgroup.V2: {100, 1}}
	w := cgroup.Wanted{Quota: new(bandwidth.Unlimited), Idle: &c.Idle, CPUs: &cpus}
	if c.CPUs > 0 {
		w.CPUs = new(last(cpus, max(1, int(float64(c.CPUs)*float64(cpus.Len())))))
	}
	if !c.Idle {
		w.Weight = new(weights[version][0])
		if c.Least {
			w.Weight = new(weights[version][1])
		}
	}
	return w
}

// last returns the n CPUs with the highest numbers.
func last(cpus cpuset.Set, n int) cpuset.Set {
	all := slices.Collect(cpus.All())
	return cpuset.Of(all[len(all)-n:]...)
}
