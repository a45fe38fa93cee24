package control

import "time"

// giveBackTime is for how long after their last use settings are given back in every round. A
// container that the runtime was creating then may still get what the agent has answered.
const giveBackTime = time.Minute

// stake is what the agent has to do with one kind of settings. While no pod needs them, the agent
// gives back what it has written, and then writes nothing: the node is as without it. A group
// that gets back its CPUs is written as often as if it got all CPUs, so short jobs in a row cost no
// more writes.
type stake struct {
	// held is set if this agent, or an earlier one, may have written settings that are not given
	// back.
	held bool
	used time.Time // when they were last needed, or first seen to be held
}

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
