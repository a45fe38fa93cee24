package vm

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/test/must"
)

// TestEventReader reads from a machine that does not start, and from one that starts and falls
// silent.
func TestEventReader(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	defer from.Close()
	r := &eventReader{ReadCloser: from, first: time.Millisecond}
	if _, err := r.Read(make([]byte, 4)); !errors.Is(err, errNotStarted) {
		t.Errorf("before the first event: %v, want %v", err, errNotStarted)
	}
	r.first = time.Minute
	for _, text := range []string{"some", "more"} {
		must.Get(io.WriteString(to, text))(t)
		if _, err := r.Read(make([]byte, 4)); err != nil {
			t.Errorf("an event: %v", err)
		}
	}
	r.next = time.Millisecond
	if _, err := r.Read(make([]byte, 4)); err == nil || errors.Is(err, errNotStarted) || !errors.Is(err, errSilent) || !strings.Contains(err.Error(), "no event for 1ms") {
		t.Errorf("after events: %v", err)
	}
}
