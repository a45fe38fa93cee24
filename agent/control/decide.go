package control

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/dra"
)

// Decision is the writes that follow from the inputs. [Decision.Execute] carries them out. What
// else follows is in the [Status], which depends on which writes the kernel accepts.
type Decision struct {
	// Hold is the reason why nothing is changed, or "".
	Hold string
	groups.Writes
	// Foreign are the changes by other writers that these writes undo or leave in force.
	Foreign []Foreign
	// Pending is what would be written, if the agent only observes.
	Pending []Pending
	// InForce is set if settings are written, or may have been that are not given back yet.
	InForce bool
}

// hold returns the reason why nothing can be decided yet, or "".
func (c *Control) hold() string {
	switch {
	case c.round.Index == nil:
		return "the machine's CPUs are not known"
	case c.node.kubelet == nil && c.node.strangeKubelet:
		return "the kubelet's configuration is not known: what answers at its port may be another program, and is not asked; " +
			"the agent's log says why, and --kubelet-ca names the CA of its certificate"
	case c.node.kubelet == nil:
		return "the kubelet's configuration is not known"
	case !c.Pods.Listed:
		return "the pods of this node are not known: the API server has not been reached since the agent started"
	case c.round.First && !c.config.Restore && !c.node.asked && c.Pods.Awaits(): // else static pods would lose their CPUs
		return "the static pods of this node are not known: the kubelet has not been asked since the agent started"
	case c.node.reserved == nil: // else what is to be recovered would be overwritten
		return "the Node object has not been read since the agent started"
	case !c.round.Observed():
		return "the control groups have not been read"
	}
	return ""
}

// Claim allocates to a pod the CPUs that its resource claims ask for. The next Ready has them saved.
func (c *Control) Claim(now time.Time, pod types.UID, request dra.Request) error {
	if hold := c.hold(); hold != "" {
		return fmt.Errorf("%w: %s", ErrNotYet, hold)
	}
	if c.begin(now); !c.round.Binds {
		return errors.New(c.round.BindingOff)
	}
	return c.allocate.Claim(&c.round, pod, request)
}

// Prepared records whether the claims of a pod were served, and why not. It reports whether there is news.
func (c *Control) Prepared(pod types.UID, err error) (changed bool) {
	return !errors.Is(err, ErrNotYet) && c.allocate.Prepared(pod, err)
}

// Unserved returns the pods with resource claims that were given no CPUs for any.
func (c *Control) Unserved() []*corev1.Pod {
	if c.config.Observe || c.hold() != "" || !c.allocate.Recovered() || c.node.kubelet.bindingOff() != "" {
		return nil
	}
	return c.allocate.Unserved(&c.round)
}

// Forfeit decides that one of Unserved never gets CPUs for its claims, and returns why, or nil if it
// may. unreadable is why there is no request.
func (c *Control) Forfeit(pod types.UID, request dra.Request, unreadable error) error {
	if !slices.ContainsFunc(c.Unserved(), func(p *corev1.Pod) bool { return p.UID == pod }) {
		return nil
	}
	return c.allocate.Forfeit(&c.round, pod, request, unreadable)
}

// ErrNotYet is wrapped by errors of Claim and Devices that end when the agent knows more.
var ErrNotYet = errors.New("CPUs cannot be given yet")

// Devices returns the parts of the machine that resource claims get CPUs of.
func (c *Control) Devices(by dra.Grouping) ([]dra.Device, error) {
	if c.last.Machine == nil || c.node.kubelet == nil || c.node.reserved == nil {
		return nil, fmt.Errorf("%w: the machine, the kubelet's configuration or the Node object is not known", ErrNotYet)
	}
	if c.begin(c.round.Now); !c.round.Binds {
		return nil, errors.New(c.round.BindingOff)
	}
	return c.allocate.Devices(&c.round, by), nil
}

// decide returns the decision that follows from the inputs.
func (c *Control) decide(now time.Time) Decision {
	if hold := c.hold(); hold != "" {
		return Decision{Hold: hold, InForce: c.stakes.held()}
	}
	r := &c.round
	c.Pods.ForgetCreated(now, r.ContainerIDs())
	if c.begin(now); c.config.Restore {
		return c.restore()
	}
	waiting := c.quota.Adopt(r)
	r.SetPlan(c.state(), nodeplan.Plan)
	needed := r.Limits() // by pods, not by what their groups happen to contain
	if waiting {
		c.quota.AdoptPaid(r)
		r.SetPlan(c.state(), nodeplan.Plan)
	}
	r.Elsewhere = c.cpus.Elsewhere(r)
	d := Decision{Writes: groups.NewWrites()}
	for _, k := range c.controllers {
		k.Decide(r, &d.Writes)
	}
	r.First = false
	if c.config.Observe {
		return c.observe(d, needed)
	}
	d = c.stakes.keep(d, r, needed)
	d.Foreign = append(c.watch.undone(r, &d), c.watch.left(r, d.Left)...)
	return d
}

// restore returns the decision that restores the settings of the kubelet.
func (c *Control) restore() Decision {
	c.round.SetPlan(c.state(), nodeplan.Kubelet)
	d := Decision{Writes: groups.NewWrites(), InForce: true}
	for _, k := range c.controllers {
		k.Restore(&c.round, &d.Writes)
	}
	return d
}
