package placement

import (
	"runtime"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

func TestEqualMachinesShareIndex(t *testing.T) {
	x := NewIndexes()
	amd := x.Of(topology.AMD256().MustBuild())

	larger := topology.AMD256()
	larger.MemoryBytesNUMA *= 2
	if x.Of(larger.MustBuild()) != amd {
		t.Error("machines that differ in memory have two indexes")
	}
	other := topology.AMD256() // the same number of CPUs, numbered differently
	other.Numbering = topology.SiblingsAdjacent
	adjacent := x.Of(other.MustBuild())
	if adjacent == amd || !adjacent.Machine().SameCPUs(other.MustBuild()) {
		t.Error("machines that number their CPUs differently share an index")
	}
	if x.Of(topology.Intel104().MustBuild()) == amd {
		t.Error("two shapes share an index")
	}
	runtime.KeepAlive(amd)
}

func TestUnusedIndexesAreCollected(t *testing.T) {
	x, online := NewIndexes(), cpuset.Range(0, 255)
	amd := x.Of(topology.AMD256().MustBuild())
	other := topology.AMD256()
	other.Numbering = topology.SiblingsAdjacent
	x.Of(other.MustBuild())
	if n := len(x.known[online]); n != 2 {
		t.Fatalf("%d indexes of machines of 256 CPUs, want 2", n)
	}
	runtime.GC()
	if x.Of(topology.AMD256().MustBuild()) != amd {
		t.Error("a used index was collected")
	}
	if n := len(x.known[online]); n != 1 {
		t.Errorf("%d indexes are left, want the used one", n)
	}
	runtime.KeepAlive(amd)
}
