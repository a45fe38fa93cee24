// Package cpuset implements CPU ids ([CPU]) and sets of them ([Set]).
//
//	s, err := cpuset.Parse("0-3,8,10-11")
//	s = s.Union(cpuset.Of(16))
//	fmt.Println(s)                      // 0-3,8,10-11,16
//
// A [Set] is a fixed-size bit mask and a plain value: it is compared with ==, copied by assignment,
// and its operations do not allocate. The capacity, [MaxCPUs], covers every machine used as a
// Kubernetes node today. The parser rejects larger ids, so other code need not check.
//
// The text form is the Linux cpulist that the kernel reads and writes in /sys, /proc and the cpuset
// controller; see [Parse] and [Set.String].
package cpuset

import (
	"iter"
	"math/bits"
)

// MaxCPUs is the number of CPU ids that a Set can hold: 0 to MaxCPUs-1.
const MaxCPUs = 1024

const words = MaxCPUs / 64

// CPU is the operating system's number of one logical CPU (a hardware thread).
type CPU int

// Valid reports whether the id fits in a Set.
func (c CPU) Valid() bool { return c >= 0 && c < MaxCPUs }

// Set is a set of CPUs. The zero value is the empty set. Sets are compared with ==.
type Set struct {
	bits [words]uint64
}

// Words returns the bit mask: bit i%64 of word i/64 stands for CPU i.
func (s Set) Words() [words]uint64 { return s.bits }

// FromWords is the inverse of [Set.Words].
func FromWords(bits [words]uint64) Set { return Set{bits} }

// Of returns the set of the given CPUs. It panics if one of them is not CPU.Valid.
func Of(cpus ...CPU) Set {
	var s Set
	for _, c := range cpus {
		s.Add(c)
	}
	return s
}

// Range returns the set {first, ..., last}; it is empty if last < first.
func Range(first, last CPU) Set {
	var s Set
	for c := first; c <= last; c++ {
		s.Add(c)
	}
	return s
}

// Add adds c to the set. It panics if c is not valid.
func (s *Set) Add(c CPU) { s.bits[uint(c)/64] |= 1 << (uint(c) % 64) }

// Remove removes c from the set. It panics if c is not valid.
func (s *Set) Remove(c CPU) { s.bits[uint(c)/64] &^= 1 << (uint(c) % 64) }

// Contains reports whether c is in the set; an invalid id never is.
func (s Set) Contains(c CPU) bool {
	return c.Valid() && s.bits[uint(c)/64]>>(uint(c)%64)&1 == 1
}

// Len returns the number of CPUs in the set.
func (s Set) Len() int {
	n := 0
	for _, w := range s.bits {
		n += bits.OnesCount64(w)
	}
	return n
}

// IsEmpty reports whether the set has no CPU.
func (s Set) IsEmpty() bool { return s == Set{} }

// Union returns the CPUs that are in s or in t.
func (s Set) Union(t Set) Set {
	for i := range s.bits {
		s.bits[i] |= t.bits[i]
	}
	return s
}

// Intersection returns the CPUs that are in both s and t.
func (s Set) Intersection(t Set) Set {
	for i := range s.bits {
		s.bits[i] &= t.bits[i]
	}
	return s
}

// Difference returns the CPUs of s that are not in t.
func (s Set) Difference(t Set) Set {
	for i := range s.bits {
		s.bits[i] &^= t.bits[i]
	}
	return s
}

// IsSubsetOf reports whether every CPU of s is in t.
func (s Set) IsSubsetOf(t Set) bool {
	for i := range s.bits {
		if s.bits[i]&^t.bits[i] != 0 {
			return false
		}
	}
	return true
}

// Intersects reports whether s and t have a CPU in common.
func (s Set) Intersects(t Set) bool {
	for i := range s.bits {
		if s.bits[i]&t.bits[i] != 0 {
			return true
		}
	}
	return false
}

// First returns the lowest CPU of the set, or -1 if the set is empty.
func (s Set) First() CPU { return s.next(0) }

// FirstN returns the n lowest CPUs of the set, or all if it has fewer.
func (s Set) FirstN(n int) (first Set) {
	for cpu := range s.All() {
		if n--; n < 0 {
			break
		}
		first.Add(cpu)
	}
	return first
}

// All yields the CPUs of the set in ascending order.
func (s Set) All() iter.Seq[CPU] {
	return func(yield func(CPU) bool) {
		for i, w := range s.bits {
			for ; w != 0; w &= w - 1 {
				if !yield(CPU(i*64 + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// next returns the lowest CPU of the set that is at least from, or -1.
func (s Set) next(from CPU) CPU {
	if !from.Valid() {
		return -1
	}
	i := int(from) / 64
	w := s.bits[i] &^ (1<<(uint(from)%64) - 1)
	for w == 0 {
		if i++; i == words {
			return -1
		}
		w = s.bits[i]
	}
	return CPU(i*64 + bits.TrailingZeros64(w))
}

// Compare compares the ascending lists of CPUs of two sets: {0,1} < {0,2} < {1}. A prefix of
// another list comes first. It returns -1, 0 or 1.
func (s Set) Compare(t Set) int {
	for i := range s.bits {
		diff := s.bits[i] ^ t.bits[i]
		if diff == 0 {
			continue
		}
		at := CPU(i*64 + bits.TrailingZeros64(diff))
		// The lists are equal below `at`. The set with `at` comes first, unless the other list ends
		// there.
		other, order := t, -1
		if t.Contains(at) {
			other, order = s, 1
		}
		if other.next(at) == -1 {
			return -order
		}
		return order
	}
	return 0
}
