package measure

import (
	"fmt"
	"slices"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/sysfs"
)

// settings returns the settings of the groups of services, and the CPUs that belong to no service
// alone.
func (l *lab) settings(services []experiment.Service) (wanted []cgroup.Wanted, shared cpuset.Set, err error) {
	cpus, shared, err := assign(services, l.cpus)
	if err != nil {
		return nil, shared, err
	}
	wanted = make([]cgroup.Wanted, len(services))
	identities := slices.ContainsFunc(services, func(s experiment.Service) bool { return s.Priority == experiment.GroupIdentity })
	for i, s := range services {
		limits := s.Limits()
		w := cgroup.Wanted{CPUs: &cpus[i]}
		if limits.Quota != bandwidth.Unlimited {
			w.Quota, w.Period, w.Burst = &limits.Quota, &limits.Period, &limits.Burst
		}
		switch s.Priority {
		case experiment.Idle, experiment.CoreScheduling, experiment.SchedExt:
			w.Idle = new(true)
		case experiment.Least:
			w.Weight = new(leastWeight(l.machine.Groups.Layout().CPU))
		case experiment.GroupIdentity:
			w.BVT = new(colocation.BatchIdentity)
		case "":
			if identities {
				w.BVT = new(colocation.OnlineIdentity)
			}
		}
		wanted[i] = w
	}
	return wanted, shared, nil
}

// leastWeight returns the least weight, which pods of QoS class BestEffort have.
func leastWeight(version cgroup.Version) cgroup.Weight {
	if version == cgroup.V1 {
		return 2
	}
	return 1
}

// mostWeight returns the largest weight.
func (m machine) mostWeight() cgroup.Weight {
	if m.Groups.Layout().CPU == cgroup.V1 {
		return 262144
	}
	return 10000
}

// assign returns the CPUs of each service, and those that are shared. Those of static services
// belong to them alone.
func assign(services []experiment.Service, all cpuset.Set) (cpus []cpuset.Set, shared cpuset.Set, err error) {
	cpus, shared = make([]cpuset.Set, len(services)), all
	for i, s := range services {
		if s.Policy == placement.Static && s.Count() > 0 {
			own, err := cpusFor(shared, placement.Static, s)
			if err != nil {
				return nil, shared, err
			}
			cpus[i], shared = own, shared.Difference(own)
		}
	}
	for i, s := range services {
		switch {
		case s.Policy == placement.Static || s.Count() == 0:
		case shared.IsEmpty():
			err = fmt.Errorf("%w: no CPU is left for service %q", ErrTooSmall, s.Name)
		case s.Policy == placement.StaticBurst:
			cpus[i], err = cpusFor(shared, placement.StaticBurst, s)
		case s.CPUs.Value > 0:
			cpus[i] = last(shared, min(shared.Len(), s.CPUs.Count()))
		default:
			cpus[i] = shared
		}
		if err != nil {
			return nil, shared, err
		}
	}
	return cpus, shared, nil
}

// cpusFor chooses CPUs for a service as the scheduler does.
func cpusFor(free cpuset.Set, policy placement.Policy, s experiment.Service) (cpuset.Set, error) {
	machine, _, err := sysfs.Host(free)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("read the topology: %w", err)
	}
	result, err := placement.NewIndex(machine).Place(free, placement.Request{CPUs: s.Limit.Count(), Policy: policy})
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("service %q: %w", s.Name, err)
	}
	return result.CPUs, nil
}

// last returns the n CPUs with the highest numbers.
func last(cpus cpuset.Set, n int) cpuset.Set {
	all := slices.Collect(cpus.All())
	return cpuset.Of(all[len(all)-n:]...)
}
