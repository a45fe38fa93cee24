package control

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control/cpus"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Decision is the writes that follow from the inputs. [Decision.Execute] carries them out. What
// else follows is in the [Status], which depends on which writes the kernel accepts.
type Decision struct {
	// Hold is the reason why nothing is changed, or "".
	Hold string
	cpus.Changes
	// Bandwidth is the writes of quota, period, burst, cpu.idle and cpu.bvt_warp_ns, by path. They
	// follow the moves and precede the making of partitions; package cpus describes the order.
	Bandwidth map[string]cgroup.Wanted
	// Foreign are the changes by other writers that these writes undo or leave in force.
	Foreign []Foreign
	// Raised are the paths of the containers whose quota is raised.
	Raised []string
	// Pending is what would be written, if the agent only observes.
	Pending []Pending
	// InForce is set if settings are written, or may have been that are not given back yet; see
	// [Control.SetInForce].
	InForce bool
}

// hold returns the reason why nothing can be decided yet, or "".
func (c *Control) hold() string {
	switch {
	case c.node.index == nil:
		return "the machine's CPUs are not known"
	case c.node.kubelet == nil && c.node.strangeKubelet:
		return "the kubelet's configuration is not known: what answers at its port may be another program, and is not asked; " +
			"the agent's log says why, and --kubelet-ca names the CA of its certificate"
	case c.node.kubelet == nil:
		return "the kubelet's configuration is not known"
	case !c.Listed:
		return "the pods of this node are not known: the API server has not been reached since the agent started"
	case c.config.Allocates && c.node.reserved == nil: // else what is to be recovered would be overwritten
		return "the Node object has not been read since the agent started"
	case !c.round.Observed():
		return "the control groups have not been read"
	}
	return ""
}

// Allocate gives CPUs to pods that ask, if the agent allocates. If it reports that something has
// changed, save what Control.Given returns, and pass the result to Control.Allocated before the
// next decision.
func (c *Control) Allocate(now time.Time) (changed bool) {
	idle := !c.config.Allocates && len(c.allocate.Given().Pods) == 0
	if idle {
		return false
	}
	if err := c.cannotAllocate(now); err != nil {
		if !errors.Is(err, ErrNotYet) {
			c.allocate.Refuse(c.Pods, err)
		}
		return false
	}
	return c.allocate.Decide(&c.round, c.Pods, c.node.index, c.books()) && !c.config.Observe
}

// cannotAllocate begins a round, and returns why nothing can be given in it, or nil.
func (c *Control) cannotAllocate(now time.Time) error {
	if hold := c.hold(); hold != "" {
		return fmt.Errorf("%w: %s", ErrNotYet, hold)
	}
	if c.node.reserved == nil {
		return fmt.Errorf("%w: the Node object has not been read", ErrNotYet)
	}
	c.round.Now = now
	c.begin()
	if off := c.node.kubelet.bindingOff(); off != "" {
		return errors.New(off)
	}
	return nil
}

// Claim gives a pod the CPUs that its resource claims ask for. Then save what Control.Given
// returns, and pass the result to Control.Allocated before the next decision.
func (c *Control) Claim(now time.Time, pod types.UID, request dra.Request) error {
	if err := c.cannotAllocate(now); err != nil {
		return err
	}
	return c.allocate.Claim(&c.round, c.Pods, c.node.index, c.books(), pod, request)
}

// Unserved returns the pods with resource claims that were given no CPUs for any.
func (c *Control) Unserved() []*corev1.Pod {
	if c.config.Observe || c.hold() != "" || !c.allocate.Recovered() || c.node.kubelet.bindingOff() != "" {
		return nil
	}
	return c.allocate.Unserved(&c.round, c.Pods)
}

// Forfeit decides that one of Unserved never gets CPUs for its claims, and returns why, or nil if it
// may. unreadable is why there is no request.
func (c *Control) Forfeit(pod types.UID, request dra.Request, unreadable error) error {
	if !slices.ContainsFunc(c.Unserved(), func(p *corev1.Pod) bool { return p.UID == pod }) {
		return nil
	}
	return c.allocate.Forfeit(c.Pods, pod, request, unreadable)
}

// ErrNotYet is wrapped by errors of Claim and Devices that end when the agent knows more.
var ErrNotYet = errors.New("CPUs cannot be given yet")

// Devices returns the parts of the machine that resource claims get CPUs of.
func (c *Control) Devices(by dra.Grouping) ([]dra.Device, error) {
	if c.node.index == nil || c.node.kubelet == nil || c.node.reserved == nil {
		return nil, fmt.Errorf("%w: the machine, the kubelet's configuration or the Node object is not known", ErrNotYet)
	}
	if off := c.node.kubelet.bindingOff(); off != "" {
		return nil, errors.New(off)
	}
	return c.allocate.Devices(c.Pods, c.node.index.Machine(), c.books(), by), nil
}

// Unclaim takes back what was given for claims. It reports whether there is something to save, as
// Control.Allocate does.
func (c *Control) Unclaim(claims ...types.UID) (changed bool) {
	return c.allocate.Unclaim(c.Pods, claims...)
}

// Allocated records that what was given is saved. If err is not nil, the pods lose what the last
// Allocate gave them.
func (c *Control) Allocated(err error) { c.allocate.Saved(c.Pods, err) }

// Decide returns the decision that follows from the inputs.
func (c *Control) Decide(now time.Time) Decision {
	if hold := c.hold(); hold != "" {
		return Decision{Hold: hold}
	}
	r := &c.round
	r.Now = now
	c.ForgetCreated(now, r.ContainerIDs())
	c.begin()
	waiting := c.quota.Adopt(r)
	r.SetPlan(c.state(requested), nodeplan.Plan)
	needed := r.Limits() // by pods, not by what their groups happen to contain
	if waiting {
		c.quota.AdoptPaid(r)
		r.SetPlan(c.state(c.quota.Adopted), nodeplan.Plan)
	}
	bandwidth, left := c.quota.Decide(r, c.watch.limits())
	d := merge(c.cpus.Decide(r), bandwidth, c.batch.Decide(r))
	r.First = false
	if c.config.Observe {
		return c.observe(d, needed)
	}
	d = c.stakes.keep(d, r, needed)
	d.Foreign = append(c.watch.undone(&d), c.watch.left(r, left)...)
	d.Raised = c.quota.Raised()
	return d
}

// Restore returns the decision that restores the settings of the kubelet with the CPU manager
// policy none: all CPUs for every cgroup, including those of unknown containers, and every limit as
// a quota.
func (c *Control) Restore() Decision {
	if hold := c.hold(); hold != "" {
		return Decision{Hold: hold}
	}
	c.begin()
	c.round.SetPlan(c.state(c.quota.Adopted), nodeplan.Kubelet)
	d := merge(c.cpus.Restore(&c.round), c.quota.Restore(&c.round), c.batch.Restore(&c.round))
	d.InForce = true
	return d
}

// merge makes a decision of what the controllers want. Of the bandwidth, quota, period and burst of
// pods and containers are decided by package quota, and the rest by package batch.
func merge(changes cpus.Changes, quota, batch map[string]cgroup.Wanted) Decision {
	bandwidth := maps.Clone(quota)
	for path, w := range batch {
		if q, ok := quota[path]; ok {
			w.Quota, w.Period, w.Burst = q.Quota, q.Period, q.Burst
		}
		bandwidth[path] = w
	}
	return Decision{Changes: changes, Bandwidth: bandwidth}
}
