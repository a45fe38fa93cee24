package api

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// TestUnknown runs testdata/unknown.txt: pods and the sentences about their unknown keys.
func TestUnknown(t *testing.T) {
	runTranscript(t, "testdata/unknown.txt", func(pod *corev1.Pod) string {
		if all := Unknown(pod); len(all) > 0 {
			return strings.Join(all, "\n")
		}
		return "nothing"
	})
}

// TestDistance compares distance with its recursive definition.
func TestDistance(t *testing.T) {
	var slow func(a, b string) int
	slow = func(a, b string) int {
		switch {
		case a == "" || b == "":
			return len(a) + len(b)
		case a[0] == b[0]:
			return slow(a[1:], b[1:])
		}
		return 1 + min(slow(a[1:], b), slow(a, b[1:]), slow(a[1:], b[1:]))
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ab-]{0,6}`)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if got, want := distance(a, b), slow(a, b); got != want {
			t.Fatalf("from %q to %q: %d edits, want %d", a, b, got, want)
		}
	})
}
