package session_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/report/session"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestDraw draws two commands. The picture is XML, whatever they print.
func TestDraw(t *testing.T) {
	var out strings.Builder
	must.Do(t, session.Draw(&out, `two <commands> & "more"`, []session.Step{
		{Command: "pinfold top", Output: "CONTAINER LIMIT\nweb        0.30\npinfold why web   # throttled\n", Reads: 3 * time.Second},
		{Command: `echo '<&>' "ü"`, Output: "<&> ü\n", Reads: time.Second},
	}))
	golden.Compare(t, "testdata/two.svg", out.String())
	for decoder := xml.NewDecoder(strings.NewReader(out.String())); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
