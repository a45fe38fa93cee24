package scheduler

import (
	"slices"
	"sync"

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

// answers are those that one node has given since it last changed. They are few, and
// are begun anew for some node at every pod that is bound, so they are searched one by
// one rather than hashed.
type answers struct {
	mu   sync.Mutex    // held during every call
	keys []questionKey // of all, apart from them so that a search reads little
	all  []answer      // never changed, since answers are used without the lock
}

// newAnswers has room for as many as there are likely to be.
func newAnswers(likely int) answers {
	return answers{keys: make([]questionKey, 0, likely), all: make([]answer, 0, likely)}
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

func (a *answers) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.keys)
}
