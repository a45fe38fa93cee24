package measure

import (
	"context"
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

// raise raises and lowers the quotas of a service until ctx ends, as the agent does for its
// containers.
func (c controller) raise(ctx context.Context, s *service) error {
	policy := api.BuiltInCeiling().Burst.Policy
	policy.Mode = burst.Quota
	base := s.Limits()
	if base.Burst > 0 {
		policy.Mode = burst.Auto
	}
	controller := burst.New()
	containers := map[string]*burst.Container{}
	stats := map[string]cgroupstat.Stat{}
	for _, group := range s.groups() {
		containers[group] = &burst.Container{ID: group, Base: base, Policy: policy, Present: base, CPUs: c.cpus}
	}
	begun, last := time.Now(), time.Now()
	idle, err := c.machine.idle()
	if err != nil {
		return err
	}
	for sleep.For(ctx, tickEvery) {
		now := time.Now()
		tick := burst.Tick{Now: now.Sub(begun), Interval: now.Sub(last)}
		after, err := c.machine.idle()
		if err != nil {
			return err
		}
		for cpu, since := range after {
			tick.Idle = append(tick.Idle, min(tick.Interval, since-idle[cpu]))
		}
		idle, last = after, now
		for _, group := range s.groups() {
			one := containers[group]
			if one.Sample, err = c.machine.since(group, stats, tick.Interval); err != nil {
				return err
			}
			tick.Containers = append(tick.Containers, *one)
		}
		for i, decision := range controller.Step(&tick, nil) {
			one := containers[tick.Containers[i].ID]
			one.Writes = 0
			if !decision.Write {
				continue
			}
			if err := c.machine.Groups.Apply(map[string]cgroup.Wanted{one.ID: {Quota: &decision.Quota}}).Err(); err != nil {
				return err
			}
			one.Present.Quota, one.Writes = decision.Quota, 1
		}
	}
	return nil
}

// tickEvery is how often quotas are decided, as in the agent.
const tickEvery = 100 * time.Millisecond

// idle returns how long each CPU was idle since the machine started, by CPU number.
func (m machine) idle() ([]time.Duration, error) {
	stat, err := m.Proc.Stat()
	if err != nil {
		return nil, fmt.Errorf("read how long CPUs were idle: %w", err)
	}
	idle := make([]time.Duration, cpuset.MaxCPUs)
	for cpu, times := range stat.CPU {
		idle[cpu] = time.Duration((times.Idle + times.Iowait) * float64(time.Second))
	}
	return idle, nil
}

// since returns what a group did since the last call.
func (m machine) since(group string, stats map[string]cgroupstat.Stat, interval time.Duration) (trace.Sample, error) {
	now, err := cgroupstat.Read(m.Groups, group)
	if err != nil {
		return trace.Sample{}, err
	}
	before, known := stats[group]
	stats[group] = now
	if !known {
		return trace.Sample{}, nil
	}
	return trace.Sample{
		Interval: interval, Usage: now.Usage - before.Usage,
		Periods: uint32(now.Periods - before.Periods), Throttled: uint32(now.Throttled - before.Throttled),
	}, nil
}
