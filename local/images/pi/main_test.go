package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// known is pi.
const known = "3.14159265358979323846264338327950288419716939937510"

func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pi.txt")
	var out strings.Builder
	env := map[string]string{"limit": "50", "threadNum": "30"}
	must.Do(t, run(func(name string) string { return env[name] }, path, &out))
	want := regexp.MustCompile(`^computing Pi with 30 Threads\.\.\.computed the first 50 digets of pi in \d+ ms! ` + "\n" +
		"the first digets are: 3.14159265\nwriting to " + regexp.QuoteMeta(path) + "\\.\\.\\.\nfinished!\n$")
	if !want.MatchString(out.String()) {
		t.Errorf("log\n%s\nwant\n%s", out.String(), want)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != known+"\n" {
		t.Errorf("the file has %q (%v)", text, err)
	}
}

func TestBadEnvironment(t *testing.T) {
	for name, value := range map[string]string{"limit": "0", "threadNum": "many"} {
		err := run(func(n string) string {
			if n == name {
				return value
			}
			return ""
		}, "unused", &strings.Builder{})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}
