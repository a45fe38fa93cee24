package scheduler

import (
	"runtime"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

func TestMachinesAlikeHaveOneIndex(t *testing.T) {
	x := newIndexes()
	amd := x.of(topology.AMD256().MustBuild())

	larger := topology.AMD256()
	larger.MemoryBytesNUMA *= 2
	if x.of(larger.MustBuild()) != amd {
		t.Error("more memory makes another index")
	}
	other := topology.AMD256() // as many CPUs, numbered otherwise
	other.Numbering = topology.SiblingsAdjacent
	adjacent := x.of(other.MustBuild())
	if adjacent == amd || !adjacent.Machine().SameCPUs(other.MustBuild()) {
		t.Error("a machine has the index of one that numbers its CPUs otherwise")
	}
	if x.of(topology.Intel104().MustBuild()) == amd {
		t.Error("two shapes have one index")
	}
	runtime.KeepAlive(amd)
}

func TestUnusedIndexesAreCollected(t *testing.T) {
	x, online := newIndexes(), cpuset.Range(0, 255)
	amd := x.of(topology.AMD256().MustBuild())
	other := topology.AMD256()
	other.Numbering = topology.SiblingsAdjacent
	x.of(other.MustBuild())
	if n := len(x.known[online]); n != 2 {
		t.Fatalf("%d indexes of machines of 256 CPUs, want 2", n)
	}
	runtime.GC()
	if x.of(topology.AMD256().MustBuild()) != amd {
		t.Error("an index in use was collected")
	}
	if n := len(x.known[online]); n != 1 {
		t.Errorf("%d indexes are left, want the one in use", n)
	}
	runtime.KeepAlive(amd)
}
