package schedtrace

import (
	"testing"

	"pinfold.dev/pinfold/test/bpf"
)

// TestObject: the compiled programs are those of the source.
func TestObject(t *testing.T) { bpf.Compare(t, "schedtrace", object) }
