package control

import (
	"time"

	"pinfold.dev/pinfold/agent/control/groups"
)

// giveBackTime is for how long after their last use settings are given back in every round. A
// container that the runtime was creating then may still get what the agent has answered.
const giveBackTime = time.Minute

// stake says whether the agent has settings of one kind in force. While no pod needs any, the agent
// gives back what it has written, and then writes nothing: the node is as without it.
type stake struct {
	// held is set if this agent, or an earlier one, may have written settings that are not given
	// back.
	held bool
	used time.Time // when they were last needed, or first seen to be held
}

// stakes are those of CPUs, and of all other settings.
type stakes struct{ cpusets, limits stake }

// keep removes the writes of settings that no pod needs and that are given back. limits is whether a
// pod needs others than those of CPUs.
func (s *stakes) keep(d Decision, r *groups.Round, limits bool) Decision {
	if !s.cpusets.keep(r.BindsCPUs(), d.IsEmpty() && !r.Partial, r.Now) {
		d.Changes = groups.Changes{}
	}
	if !s.limits.keep(limits, len(d.Bandwidth) == 0 && !r.Limits() && !r.Partial, r.Now) {
		d.Bandwidth = nil
	}
	d.InForce = s.held()
	return d
}

// hold says that settings may be in force.
func (s *stake) hold() {
	if !s.held {
		*s = stake{held: true}
	}
}

func (s *stakes) held() bool { return s.cpusets.held || s.limits.held }

// keep brings the stake up to date, and reports whether settings are to be written. done is whether
// all groups have theirs.
func (s *stake) keep(needed, done bool, now time.Time) bool {
	if needed || s.held && s.used.IsZero() {
		s.held, s.used = true, now
	}
	if done && now.Sub(s.used) > giveBackTime {
		s.held = false
	}
	return s.held
}
