package scheduler

import (
	"slices"
	"sync"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
)

// answer is what Filter and Score need to know of a node. The decision itself is large,
// there are many nodes, and only one of them gets the pod.
type answer struct {
	key     questionKey
	err     error
	quality placement.Quality
	// use is how much of the node is taken with the pod on it, in thousandths.
	use int
}

// maxAnswers bounds the memory of a node that many different pods wait for.
const maxAnswers = 256

// answers are those that have been given in one situation. They are few, so they are
// searched one by one rather than hashed.
type answers struct {
	mu   sync.Mutex    // held during every call
	keys []questionKey // of all, apart from them so that a search reads little
	all  []answer      // never changed, since answers are used without the lock
}

// find returns nil when the question has not been answered.
func (a *answers) find(key questionKey) *answer {
	if i := slices.Index(a.keys, key); i >= 0 {
		return &a.all[i]
	}
	return nil
}

func (a *answers) add(one answer) *answer {
	if len(a.keys) == maxAnswers {
		a.keys, a.all = nil, nil
	}
	a.keys, a.all = append(a.keys, one.key), append(a.all, one)
	return &a.all[len(a.all)-1]
}

// maxSituations bounds the memory of what is known of situations that may come again.
const maxSituations = 4096

// situations are the answers of all nodes, by what they depend on. Nodes of one shape go
// through the same situations as they fill up, and every node is twice in the same one
// for each pod it gets: when the pod is assumed, and when it is bound.
type situations struct {
	mu    sync.Mutex
	known map[ledger.Situation]*answers
}

// of returns the answers that belong to a situation, to be added to.
func (s *situations) of(situation ledger.Situation) *answers {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.known[situation]; a != nil {
		return a
	}
	if s.known == nil || len(s.known) >= maxSituations {
		s.known = map[ledger.Situation]*answers{} // nodes keep theirs
	}
	a := &answers{}
	s.known[situation] = a
	return a
}
