package advice

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report/chart/charttest"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// input is a container in testdata.
type input struct {
	File string `json:"file"`
	advice.Container
	Timescales []trace.Scale `json:"timescales"`
	Node       *advice.Node  `json:"node"`
}

func reportOf(t *testing.T, files []txtar.File) *Report {
	t.Helper()
	r := &Report{}
	must.Do(t, json.Unmarshal(files[0].Data, &r.Goal))
	var all []input
	must.Do(t, json.Unmarshal(files[1].Data, &all))
	for _, g := range all {
		g.Container.Timescales = g.Timescales
		r.Containers = append(r.Containers, Container{File: g.File, Container: g.Container, Node: g.Node})
	}
	return r
}

// TestReports renders the containers of testdata/reports in all formats.
func TestReports(t *testing.T) {
	golden.Archives(t, "testdata/reports/*.txtar", "want", func(t *testing.T, a *txtar.Archive) string {
		r := reportOf(t, a.Files)
		var out strings.Builder
		for _, width := range []int{0, 20} {
			for _, verbose := range []bool{false, true} {
				fmt.Fprintf(&out, "# text, %d wide, verbose %v\n", width, verbose)
				must.Do(t, r.Text(&out, width, verbose))
			}
		}
		out.WriteString("# patches\n")
		pods, left, err := r.Patches(&out)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "# %d pods; left out:\n# %s\n# page, without its style and drawings\n", pods, strings.Join(left, "\n# "))
		var page strings.Builder
		must.Do(t, r.HTML(&page))
		charttest.Alone(t, page.String())
		out.WriteString(outline(page.String()))
		return out.String()
	})
}

// outline removes style and charts, which have their own tests.
func outline(page string) string {
	for from, to := range map[string]string{
		`(?s)<style>.*?</style>`: "<style></style>",
		`(?s)<svg .*?</svg>`:     "<svg></svg>",
	} {
		page = regexp.MustCompile(from).ReplaceAllString(page, to)
	}
	return page
}

// TestFailingWriter: an error of the writer is returned.
func TestFailingWriter(t *testing.T) {
	r := &Report{Containers: []Container{{}}}
	w := failing{errors.New("disk full")}
	_, _, patches := r.Patches(w)
	for what, err := range map[string]error{"text": r.Text(w, 0, false), "page": r.HTML(w), "patches": patches} {
		if !errors.Is(err, w.err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
