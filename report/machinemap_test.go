package report_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestMaps draws the machines of testdata/maps. Every file is a txtar archive of a machine (see
// parseMachine), options (see parseOptions) and the expected map.
func TestMaps(t *testing.T) {
	golden.Archives(t, "testdata/maps/*.txtar", "map", func(t *testing.T, archive *txtar.Archive) string {
		parts := map[string]string{}
		for _, f := range archive.Files {
			parts[f.Name] = string(f.Data)
		}
		opts := parseOptions(t, parts["options"])
		got := draw(t, parseMachine(t, parts["machine"]), opts)
		if !opts.Colour {
			checkWidth(t, got, opts.Width)
		}
		return got
	})
}

// parseOptions reads lines such as
//
//	width 60
//	colour
//	reserved 0-1
//	rest free
//	exclusive default/web 2-5 [note]
//	confined default/batch 6-31 [note]
func parseOptions(t *testing.T, text string) report.MapOptions {
	t.Helper()
	var opts report.MapOptions
	for _, l := range strings.Split(strings.TrimSpace(text), "\n") {
		words := strings.Fields(l)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "width":
			opts.Width = number(t, words[1])
		case "colour":
			opts.Colour = true
		case "reserved":
			opts.Reserved = cpuset.MustParse(words[1])
		case "rest":
			opts.Rest = words[1]
		case "exclusive", "confined":
			opts.Owners = append(opts.Owners, report.Owner{Name: words[1], CPUs: cpuset.MustParse(words[2]),
				Confined: words[0] == "confined", Note: strings.Join(words[3:], " ")})
		default:
			t.Fatalf("unknown option %q", l)
		}
	}
	return opts
}

func draw(t interface {
	Helper()
	Fatal(...any)
}, m *topology.Machine, opts report.MapOptions) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, report.MachineMap(&b, m, opts))
	return b.String()
}

func checkWidth(t interface {
	Helper()
	Errorf(string, ...any)
}, drawn string, width int) {
	t.Helper()
	if width == 0 {
		width = report.DefaultWidth
	}
	for l := range strings.Lines(drawn) {
		l = strings.TrimSuffix(l, "\n")
		if n := utf8.RuneCountInString(l); n > width {
			t.Errorf("line of %d characters, want at most %d: %q", n, width, l)
		}
		if strings.HasSuffix(l, " ") {
			t.Errorf("line ends in blanks: %q", l)
		}
	}
}

func TestTooNarrow(t *testing.T) {
	m := topology.Shape{}.MustBuild()
	err := report.MachineMap(io.Discard, m, report.MapOptions{Width: report.MinWidth - 1})
	if err == nil || !strings.Contains(err.Error(), "use 40 or more") {
		t.Errorf("error %v, want one that names the least width", err)
	}
}

// full fails after some bytes, like a full disk.
type full struct{ left int }

func (w *full) Write(b []byte) (int, error) {
	if len(b) > w.left {
		return 0, io.ErrShortWrite
	}
	w.left -= len(b)
	return len(b), nil
}

func TestWriteError(t *testing.T) {
	m := topology.AMD256().MustBuild()
	if err := report.MachineMap(&full{100}, m, report.MapOptions{}); err == nil {
		t.Error("no error from a writer that fails")
	}
}
