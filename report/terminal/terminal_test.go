package terminal_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/terminal"
	"pinfold.dev/pinfold/report/terminal/terminaltest"
	"pinfold.dev/pinfold/test/must"
)

func TestMapOptions(t *testing.T) {
	for _, test := range []struct {
		name        string
		columns     uint16
		environment map[string]string
		want        report.MapOptions
	}{
		{"usual", 100, map[string]string{"TERM": "xterm"}, report.MapOptions{Width: 100, Colour: true}},
		{"dumb", 100, map[string]string{"TERM": "dumb"}, report.MapOptions{Width: 100}},
		{"no colour wanted", 100, map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, report.MapOptions{Width: 100}},
		{"narrow", 5, nil, report.MapOptions{Width: report.MinWidth, Colour: true}},
		{"very wide", 500, nil, report.MapOptions{Width: 160, Colour: true}},
		{"of unknown width", 0, nil, report.MapOptions{Colour: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tty := terminaltest.Open(t, test.columns)
			if !terminal.Is(tty) {
				t.Error("it is not taken for a terminal")
			}
			got := terminal.MapOptions(tty, func(name string) string { return test.environment[name] })
			if diff := cmp.Diff(fmt.Sprintf("%+v", test.want), fmt.Sprintf("%+v", got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestOthersAreNoTerminals(t *testing.T) {
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "file")))(t)
	defer file.Close()
	if terminal.Is(file) || terminal.Is(&bytes.Buffer{}) {
		t.Error("a file or a buffer is taken for a terminal")
	}
	if got := terminal.MapOptions(file, os.Getenv); got.Colour || got.Width != 0 {
		t.Errorf("a file gets maps with %+v, want those without", got)
	}
}
