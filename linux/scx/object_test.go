package scx

import (
	"testing"

	"pinfold.dev/pinfold/test/bpf"
)

// TestObject: the compiled programs are those of the source.
func TestObject(t *testing.T) { bpf.Compare(t, "scx", object) }

// TestLines: what a CPU writes often shares no cache line with what others use.
func TestLines(t *testing.T) {
	bpf.OwnLines(t, object, map[string]uint32{"cpus": maxCPUs, "pods": maxPods, "tokens": 1, "front": 1, "counters": 1})
}
