package cpuset

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// genSet draws a set and the same set as a map, which is the reference.
func genSet(t *rapid.T, label string) (Set, map[CPU]bool) {
	ids := rapid.SliceOf(rapid.IntRange(0, MaxCPUs-1)).Draw(t, label)
	ref := map[CPU]bool{}
	var s Set
	for _, id := range ids {
		s.Add(CPU(id))
		ref[CPU(id)] = true
	}
	return s, ref
}

func TestOperationsAgreeWithMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, ra := genSet(t, "a")
		b, rb := genSet(t, "b")
		subset, intersects := true, false
		for c := CPU(0); c < MaxCPUs; c++ {
			check := func(op string, got Set, want bool) {
				if got.Contains(c) != want {
					t.Fatalf("%s: CPU %d: got %v, want %v", op, c, got.Contains(c), want)
				}
			}
			check("union", a.Union(b), ra[c] || rb[c])
			check("intersection", a.Intersection(b), ra[c] && rb[c])
			check("difference", a.Difference(b), ra[c] && !rb[c])
			subset = subset && (!ra[c] || rb[c])
			intersects = intersects || ra[c] && rb[c]
		}
		if a.IsSubsetOf(b) != subset || a.Intersects(b) != intersects {
			t.Fatalf("IsSubsetOf %v want %v, Intersects %v want %v", a.IsSubsetOf(b), subset, a.Intersects(b), intersects)
		}
		if a.Len() != len(ra) || a.IsEmpty() != (len(ra) == 0) {
			t.Fatalf("Len %d, want %d", a.Len(), len(ra))
		}
	})
}

func TestCompareOrdersLikeLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, _ := genSet(t, "a")
		b, _ := genSet(t, "b")
		if rapid.Bool().Draw(t, "related") {
			b = a.Union(b)
		}
		want := slices.Compare(slices.Collect(a.All()), slices.Collect(b.All()))
		if got := a.Compare(b); got != want {
			t.Fatalf("Compare(%v, %v) = %d, want %d", a, b, got, want)
		}
	})
}

func TestRemoveAndFirst(t *testing.T) {
	s := Range(3, 5)
	s.Remove(3)
	if s != Of(4, 5) || s.First() != 4 || (Set{}).First() != -1 {
		t.Fatalf("got %v, first %d", s, s.First())
	}
}

func TestInvalidIDs(t *testing.T) {
	if s := Range(0, MaxCPUs-1); s.Contains(-1) || s.Contains(MaxCPUs) || s.Len() != MaxCPUs {
		t.Fatal("ids outside 0..MaxCPUs-1 must never be members")
	}
	defer func() {
		if recover() == nil {
			t.Fatal("Add of an invalid id must panic")
		}
	}()
	Of(MaxCPUs)
}

func TestOperationsDoNotAllocate(t *testing.T) {
	a, b := Range(0, 511), Range(256, 1023)
	var sink Set
	n := testing.AllocsPerRun(100, func() {
		sink = a.Union(b).Intersection(a).Difference(b)
		for c := range sink.All() {
			sink.Remove(c)
		}
	})
	if n != 0 {
		t.Fatalf("%v allocations, want none", n)
	}
}
