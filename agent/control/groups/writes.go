package groups

import (
	"cmp"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Writes are the settings that the controllers want.
type Writes struct {
	Changes
	// Bandwidth is the writes of quota, period, burst, cpu.idle and cpu.bvt_warp_ns, by path. They
	// follow the moves and precede the making of partitions; package cpus describes the order.
	Bandwidth map[string]cgroup.Wanted
	// Left are the cgroups whose bandwidth is newly left to other programs, and Raised the paths of the
	// containers whose quota is raised.
	Left   []*Planned
	Raised []string
}

// NewWrites returns no writes.
func NewWrites() Writes { return Writes{Bandwidth: map[string]cgroup.Wanted{}} }

// Want adds settings to the bandwidth. Two controllers never want the same setting of a group.
func (w *Writes) Want(bandwidth map[string]cgroup.Wanted) {
	for path, a := range bandwidth {
		b := w.Bandwidth[path]
		w.Bandwidth[path] = cgroup.Wanted{Quota: cmp.Or(a.Quota, b.Quota), Period: cmp.Or(a.Period, b.Period), Burst: cmp.Or(a.Burst, b.Burst),
			Idle: cmp.Or(a.Idle, b.Idle), BVT: cmp.Or(a.BVT, b.BVT), Weight: cmp.Or(a.Weight, b.Weight)}
	}
}

// Changes are the writes of CPUs, in the order of the fields. The keys are paths.
type Changes struct {
	Release    map[string]cgroup.Wanted // partitions that end
	Widen      map[string]cgroup.Wanted
	Moves      []Move
	Narrow     map[string]Narrow
	Partitions map[string]cgroup.Wanted
	// Exclusive is cpuset.cpus.exclusive with all partitions.
	Exclusive map[string]cpuset.Set
	// Held are the CPUs of the containers' cgroups before the writes.
	Held map[string]Holding
	// Recheck are the paths of the containers that did not run on all of their CPUs before the writes.
	Recheck []string
	// Look are the paths of the containers whose threads have not been looked at since they started,
	// or got CPUs of their own.
	Look []string
}

// Move changes the CPUs of a container's cgroup.
type Move struct {
	Path      string
	Pod       ledger.PodID
	CPUs      cpuset.Set
	Exclusive bool // whether the container ends up with exclusive CPUs
}

// Narrow removes CPUs from a pod's cgroup after its children have moved.
type Narrow struct {
	CPUs cpuset.Set
	// Children are the CPUs of the children that have CPUs of their own. The pod keeps the CPUs of
	// children that could not be moved.
	Children map[string]cpuset.Set
}

// Holding is the CPUs of a container's cgroup.
type Holding struct {
	Pod       ledger.PodID
	CPUs      cpuset.Set
	Exclusive bool
}

// IsEmpty reports whether nothing changes.
func (c *Changes) IsEmpty() bool {
	return len(c.Release)+len(c.Widen)+len(c.Moves)+len(c.Narrow)+len(c.Partitions) == 0
}

// WritesCPUs reports whether the CPUs of a cgroup are written.
func (c *Changes) WritesCPUs(path string) bool {
	_, narrows := c.Narrow[path]
	return narrows || c.Widen[path].CPUs != nil || slices.ContainsFunc(c.Moves, func(m Move) bool { return m.Path == path })
}

// Concerns reports whether settings of a cgroup may be written.
func (w *Writes) Concerns(path string) bool {
	for _, all := range []map[string]cgroup.Wanted{w.Release, w.Widen, w.Partitions, w.Bandwidth} {
		if _, is := all[path]; is {
			return true
		}
	}
	return w.WritesCPUs(path)
}

// Outcome is what carrying out the writes has shown.
type Outcome struct {
	Written []cgroup.Write
	Failed  map[string]error // by path
	// Unpartitioned are the containers that could not become partitions, by path.
	Unpartitioned map[string]error
	// Threads are the CPUs that the threads of containers may run on, by path, of those looked at.
	Threads map[string]cpuset.Set
}

// Tick is one observation of containers and CPUs over a short interval.
type Tick struct {
	// Now is monotonic time since an arbitrary origin. Wall is the time of day.
	Now  time.Duration
	Wall time.Time
	// Idle is how long each CPU was idle within Interval, by CPU number. Behind is how much CPU time
	// pods with idle priority used in it.
	Interval time.Duration
	Idle     []time.Duration
	Behind   time.Duration
	// Samples are the containers' usage since the last tick that had a sample of them, by path.
	Samples map[string]trace.Sample
	// Present are the bandwidth settings of the containers whose quota is raised, and of others that
	// may have changed, by path.
	Present map[string]cgroup.Settings
	// Colocation is what batch pods and others have used, if that is bounded.
	Colocation *colocation.Tick
	// Last is set by an agent that ends and can no longer supervise raised quotas.
	Last bool
}

// Ticked is what follows from a tick.
type Ticked struct {
	// Write is set if something must be written. The caller must then decide.
	Write bool
	// Changes are the quotas that are raised or lowered.
	Changes []QuotaChange
}

// QuotaChange is the decision to raise a container's quota, or to lower a raised one.
type QuotaChange struct {
	*Planned
	Raised bool // false: lowered
	Quota  time.Duration
	Reason burst.Reason
}
