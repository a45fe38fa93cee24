package main

import (
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
)

// answer is what a chooser makes of a question.
type answer struct {
	cpus cpuset.Set
	took time.Duration // CPU time
}

// chooser picks n CPUs out of the free ones. It is called on a locked thread, for
// [threadTime].
type chooser interface {
	choose(free cpuset.Set, n int) (answer, error)
}

// pinfold is the static policy of package placement.
type pinfold struct {
	index *placement.Index
	// repeat is how often a question is asked to time it: the clock takes a large
	// part of the time of one placement.
	repeat int
}

func (p pinfold) choose(free cpuset.Set, n int) (answer, error) {
	var result placement.Result
	var err error
	start := threadTime()
	for range p.repeat {
		result, err = p.index.Place(free, placement.Request{CPUs: n})
	}
	took := (threadTime() - start) / time.Duration(p.repeat)
	if err != nil {
		return answer{}, fmt.Errorf("place %d CPUs of %v: %w", n, free, err)
	}
	return answer{result.CPUs, took}, nil
}

// ask asks a chooser and holds it to the question.
func ask(c chooser, free cpuset.Set, n int) (answer, error) {
	a, err := c.choose(free, n)
	if err != nil {
		return answer{}, err
	}
	if a.cpus.Len() != n || !a.cpus.IsSubsetOf(free) {
		return answer{}, fmt.Errorf("asked for %d CPUs of %v, got %v", n, free, a.cpus)
	}
	return a, nil
}
