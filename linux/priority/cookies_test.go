package priority

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// TestOpenCookies opens files that an earlier process left. test/vm tests the cookies themselves.
func TestOpenCookies(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cookie")
	for text, want := range map[string]string{
		"1f00\n":                  "",
		"ffffffffffffffff":        "",
		"":                        "not a core-scheduling cookie: remove it",
		"cookie\n":                "not a core-scheduling cookie: remove it",
		"1ffffffffffffffff":       "not a core-scheduling cookie: remove it",
		strings.Repeat("\x00", 9): "not a core-scheduling cookie: remove it",
	} {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		c, err := OpenCookies(nil, file)
		switch {
		case want == "" && (err != nil || !c.Used()):
			t.Errorf("%q: %v, want a cookie", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	must.Do(t, os.Remove(file))
	c, err := OpenCookies(nil, file)
	if err != nil || c.Used() {
		t.Errorf("without a file: %v, %+v", err, c)
	}
	if err := c.Forget(); err != nil {
		t.Errorf("forget a cookie that was never given: %v", err)
	}
}
