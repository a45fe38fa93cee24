package report_test

import (
	"testing"

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
		"bad \xff\xfe":           "bad ��",
	} {
		if got := report.Printable(text); got != want {
			t.Errorf("Printable(%q) = %q, want %q", text, got, want)
		}
	}
}
