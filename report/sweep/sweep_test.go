package sweep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/report/chart/charttest"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// read parses a sweep of testdata: its command and distributions, and its points.
func read(t *testing.T, files []txtar.File) *Sweep {
	t.Helper()
	s := parse(t, string(files[1].Data))
	s.Program = "pinfold v1.2.3"
	must.Do(t, json.Unmarshal(files[0].Data, s))
	return s
}

// TestSweeps compares the CSV file and the page without charts and style.
func TestSweeps(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "files", func(t *testing.T, archive *txtar.Archive) string {
		s := read(t, archive.Files)
		var out strings.Builder
		for _, f := range files(t, s) {
			fmt.Fprintf(&out, "== %s\n", f.Name)
			switch f.Name {
			case "sweep.csv":
				out.Write(f.Content)
			case "index.html":
				out.WriteString(brief(string(f.Content)))
			}
		}
		return out.String()
	})
}

func files(t *testing.T, s *Sweep) []File {
	t.Helper()
	return must.Get(s.Files())(t)
}

// brief removes parts that have their own tests.
func brief(page string) string {
	page = regexp.MustCompile(`(?s)<svg .*?</svg>`).ReplaceAllString(page, "[chart]")
	return regexp.MustCompile(`(?s)<style>.*</style>`).ReplaceAllString(page, "[style]")
}

// small is the sweep of testdata/small.txtar.
func small(t *testing.T) *Sweep {
	t.Helper()
	archive := must.Get(txtar.ParseFile("testdata/small.txtar"))(t)
	return read(t, archive.Files)
}

// TestCharts compares charts with colours for groups, dashes for bursts and uncertain points. After
// an update, look at the files.
func TestCharts(t *testing.T) {
	s := small(t)
	for _, m := range measures() {
		var b bytes.Buffer
		must.Do(t, s.chart(s.Distributions[0], m).SVG(&b))
		golden.Compare(t, "testdata/"+m.name+".svg", b.String())
	}
}

// TestPageIsAlone: the page has all charts, is well-formed and loads nothing.
func TestPageIsAlone(t *testing.T) {
	s := small(t)
	page := string(files(t, s)[0].Content)
	charttest.Alone(t, page)
	if n := strings.Count(page, `role="img"`); n != len(s.Distributions)*len(measures()) {
		t.Errorf("the page has %d charts", n)
	}
}

// TestOrder: the order of the points does not matter.
func TestOrder(t *testing.T) {
	s := small(t)
	want := files(t, s)
	r := rand.New(rand.NewPCG(1, 2))
	for range 2 {
		r.Shuffle(len(s.Points), func(i, j int) { s.Points[i], s.Points[j] = s.Points[j], s.Points[i] })
		for i, f := range files(t, s) {
			if !bytes.Equal(f.Content, want[i].Content) {
				t.Fatalf("%s is not the same with the points in another order", f.Name)
			}
		}
	}
}

// TestChartFiles: ChartFiles returns the names of the charts that Files returns.
func TestChartFiles(t *testing.T) {
	s := small(t)
	want := []string{"index.html", "sweep.csv"}
	for _, d := range s.Distributions {
		want = append(want, ChartFiles(d.Name)...)
	}
	var got []string
	for _, f := range files(t, s) {
		got = append(got, f.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-ChartFiles +made):\n%s", diff)
	}
}

// TestNothing: a distribution without points has no charts.
func TestNothing(t *testing.T) {
	s := small(t)
	s.Points = nil
	if made, err := s.Files(); err == nil || made != nil {
		t.Errorf("files %v, error %v", made, err)
	}
}
