package scheduler

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestShorten(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 10, ""},
		{"0123456789", 10, "0123456789"},
		{"0123456789a", 10, "012345 ..."},
		{"01234ö6789a", 10, "01234 ..."}, // the cut would be within the letter
		{"0123ö56789a", 10, "0123ö ..."},
	} {
		if got := shorten(test.text, test.limit); got != test.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}

// Whatever users write, the API server takes the event about it.
func TestLongWordsFitIntoEvents(t *testing.T) {
	s := &scenario{fakeCluster: newFakeCluster(t, DefaultConfiguration), seen: map[string]string{}}
	for _, command := range []string{"node n1 cores=4", "pod plain request=1 cpu-policy=" + strings.Repeat("ö", 1000)} {
		s.run(strings.Fields(command))
		s.awaitIdle()
	}
	events := 0
	for _, line := range s.changes() {
		if _, note, ok := strings.Cut(line, "event on plain: "+EventIgnored+": "); ok {
			events++
			if len(note) > 1024 || !utf8.ValidString(note) {
				t.Errorf("the event has %d bytes, and more than 1024 are refused: %s", len(note), note)
			}
		}
	}
	if events != 1 {
		t.Errorf("%d events, want 1", events)
	}
}
