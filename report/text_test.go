package report_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/report"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"/kubepods/pod1":         "/kubepods/pod1",
		"é 日本":                   "é 日本",
		"a\x1b[2Jb":              "a?[2Jb",
		"a\rb\nc\td\x7f\u009b0m": "a?b?c?d??0m",
		"\u202egnp.exe":          "?gnp.exe", // would be shown from right to left
		"bad \xff\xfe":           "bad ??",
	} {
		if got := report.Printable(text); got != want {
			t.Errorf("Printable(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestWrap: no line is too long, none has room for the next word, and no letter is lost.
func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab é日 \t"))).Draw(t, "text")
		width := rapid.IntRange(1, 12).Draw(t, "width")
		lines := report.Wrap(text, width)
		letters := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if got := letters(strings.Join(lines, " ")); got != letters(text) {
			t.Fatalf("%q has become %q", text, lines)
		}
		for i, line := range lines {
			if utf8.RuneCountInString(line) > width {
				t.Fatalf("line %q of %q is longer than %d", line, lines, width)
			}
			if i+1 == len(lines) || i+1 == len(lines)-1 && lines[i+1] == "" {
				continue
			}
			next := strings.Fields(lines[i+1])[0]
			if utf8.RuneCountInString(line+" "+next) <= width {
				t.Fatalf("line %q of %q has room for %q", line, lines, next)
			}
		}
	})
}
