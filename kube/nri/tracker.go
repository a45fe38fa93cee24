package nri

import (
	"slices"
	"sync"

	"github.com/containerd/nri/pkg/api"
)

// tracker follows containers from creation to start, because two plugins that set the same field
// fail the creation, and neither is notified. So a container that got settings is stopped or
// created again without ever being started. It gets none at the next attempt; they are written in
// the handler's Start. If a field has changed by then in a way that was not requested here, another
// plugin is proven, and no container gets settings until the next connection. A container that
// already has CPUs at creation got them from an earlier plugin or from the kubelet's static CPU
// manager; it is not changed either. [Options].OnConflict is called in each case.
type tracker struct {
	mu      sync.Mutex
	records map[string]*record // by container id
	failed  []place            // where an attempt with our settings failed, oldest first
	rival   bool               // another plugin is proven
}

// place identifies a container across several attempts to create it.
type place struct{ pod, container string }

type record struct {
	place    place
	brought  string        // the CPUs that the container had at creation
	expected *api.LinuxCPU // the settings unless a plugin called later changes them
	asked    bool          // settings were requested
	yielded  reason        // why some were withheld
	started  bool          // or present at the connection
}

// reason is why settings were withheld that the handler wants.
type reason int

const (
	never     reason = iota
	hasFailed        // the last attempt with them failed
	hasRival         // another plugin is proven
	hasCPUs          // the container came with other CPUs
)

// maxFailed limits the number of failed places that are remembered: their pods may be gone.
const maxFailed = 256

func newTracker() *tracker { return &tracker{records: map[string]*record{}} }

func placeOf(pod *api.PodSandbox, c *api.Container) place { return place{pod.GetUid(), c.GetName()} }

func cpuOf(c *api.Container) *api.LinuxCPU { return c.GetLinux().GetResources().GetCpu() }

// synchronize replaces the records of containers but keeps those of failures, so that a container
// does not have to fail again after a reconnection.
func (t *tracker) synchronize(pods []*api.PodSandbox, containers []*api.Container) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rival = false
	t.records = map[string]*record{}
	byID := map[string]*api.PodSandbox{}
	for _, pod := range pods {
		byID[pod.GetId()] = pod
	}
	for _, c := range containers {
		t.records[c.GetId()] = &record{place: placeOf(byID[c.GetPodSandboxId()], c), started: true}
	}
}

// create records a container and its settings, and returns the settings that may be requested: all,
// none, or all but the CPUs.
func (t *tracker) create(pod *api.PodSandbox, c *api.Container, cpu *api.LinuxCPU) (allowed *api.LinuxCPU, r record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	made := &record{place: placeOf(pod, c), brought: cpuOf(c).GetCpus()}
	for id, old := range t.records {
		if old.place == made.place && !old.started {
			t.end(id)
		}
	}
	t.records[c.GetId()] = made
	cpu, made.yielded = t.allow(made, cpu)
	made.asked = cpu != nil
	made.expected = overlay(cpuOf(c), cpu)
	return cpu, *made
}

func (t *tracker) allow(r *record, cpu *api.LinuxCPU) (*api.LinuxCPU, reason) {
	switch {
	case cpu == nil:
		return nil, never
	case t.rival:
		return nil, hasRival
	case slices.Contains(t.failed, r.place):
		return nil, hasFailed
	case cpu.Cpus == "" || r.brought == "":
		return cpu, never
	}
	why := hasCPUs
	if cpu.Cpus == r.brought {
		why = never
	}
	if cpu.Quota == nil {
		return nil, why
	}
	return &api.LinuxCPU{Quota: cpu.Quota, Period: cpu.Period}, why
}

// overlay returns under with the fields that cpu sets replaced.
func overlay(under, cpu *api.LinuxCPU) *api.LinuxCPU {
	all := &api.LinuxCPU{Cpus: under.GetCpus(), Quota: under.GetQuota(), Period: under.GetPeriod()}
	if cpu.GetCpus() != "" {
		all.Cpus = cpu.GetCpus()
	}
	if cpu.GetQuota() != nil {
		all.Quota = cpu.GetQuota()
	}
	if cpu.GetPeriod() != nil {
		all.Period = cpu.GetPeriod()
	}
	return all
}

// start records that a container could be created. It returns the record as it was before, and
// false if the container is unknown or was started before.
func (t *tracker) start(c *api.Container) (r record, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := t.records[c.GetId()]
	if found == nil || found.started {
		return record{}, false
	}
	r = *found
	found.started = true
	t.succeeded(r.place)
	if r.yielded != never && r.changed(cpuOf(c)) {
		t.rival = true
	}
	return r, true
}

// changed reports whether a plugin called later has changed something.
func (r record) changed(now *api.LinuxCPU) bool {
	return now.GetCpus() != "" && now.GetCpus() != r.expected.GetCpus() ||
		now.GetQuota() != nil && now.GetQuota().GetValue() != r.expected.GetQuota().GetValue() ||
		now.GetPeriod() != nil && now.GetPeriod().GetValue() != r.expected.GetPeriod().GetValue()
}

// yields reports whether a container was created without some of our settings.
func (t *tracker) yields(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[id]
	return r != nil && r.yielded != never
}

// stop removes a container, and reports whether it was known.
func (t *tracker) stop(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end(id)
}

func (t *tracker) end(id string) bool {
	r := t.records[id]
	if r == nil {
		return false
	}
	delete(t.records, id)
	switch {
	case r.started:
	case r.asked:
		t.succeeded(r.place)
		t.failed = append(t.failed, r.place)
		if len(t.failed) > maxFailed {
			t.failed = slices.Delete(t.failed, 0, 1)
		}
	case r.yielded != never: // it also fails without our settings
		t.succeeded(r.place)
	}
	return true
}

func (t *tracker) succeeded(p place) {
	t.failed = slices.DeleteFunc(t.failed, func(q place) bool { return q == p })
}
