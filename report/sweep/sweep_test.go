package sweep

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/report/chart/charttest"
	"pinfold.dev/pinfold/test/golden"
)

// read parses a sweep of testdata. A point is [distribution, mean, cgroups, burst, E[WCET], its
// error, P(WCET = 1), its error, warnings...]; burst -1 is unlimited.
func read(t *testing.T, text []byte) *Sweep {
	t.Helper()
	var given struct {
		Command, Rule string
		Seed          uint64
		Distributions []Distribution
		Points        [][]any
	}
	if err := json.Unmarshal(text, &given); err != nil {
		t.Fatal(err)
	}
	rule, err := interference.ParseRule(given.Rule)
	if err != nil {
		t.Fatal(err)
	}
	s := &Sweep{Command: given.Command, Program: "pinfold v1.2.3", Rule: rule, Seed: given.Seed, Distributions: given.Distributions}
	for _, p := range given.Points {
		number := func(i int) float64 { return p[i].(float64) }
		r := &interference.Result{Rule: rule, Periods: 1_000_000, Groups: make([]interference.GroupResult, 1),
			ExpectedWCET:     interference.Estimate{Value: number(4), StandardError: number(5)},
			ProbabilityWCET1: interference.Estimate{Value: number(6), StandardError: number(7)}}
		r.Groups[0].ThrottleRatio = interference.Estimate{Value: 0.25, StandardError: 0.125}
		for _, w := range p[8:] {
			r.Warnings = append(r.Warnings, w.(string))
		}
		point := Point{Distribution: p[0].(string), Mean: number(1), Cgroups: int(number(2)), Burst: number(3), Result: r}
		if point.Burst < 0 {
			point.Burst = math.Inf(1)
		}
		s.Points = append(s.Points, point)
	}
	return s
}

// TestSweeps compares the CSV file and the page without charts and style.
func TestSweeps(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "files", func(t *testing.T, given *txtar.Archive) string {
		s := read(t, given.Files[0].Data)
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
	files, err := s.Files()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// brief removes parts that have their own tests.
func brief(page string) string {
	page = regexp.MustCompile(`(?s)<svg .*?</svg>`).ReplaceAllString(page, "[chart]")
	return regexp.MustCompile(`(?s)<style>.*</style>`).ReplaceAllString(page, "[style]")
}

// small is the sweep of testdata/small.txtar.
func small(t *testing.T) *Sweep {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/small.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return read(t, archive.Files[0].Data)
}

// TestCharts compares charts with colours for groups, dashes for bursts and uncertain points. After
// an update, look at the files.
func TestCharts(t *testing.T) {
	s := small(t)
	for _, m := range measures() {
		var b bytes.Buffer
		if err := s.chart(s.Distributions[0], m).SVG(&b); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "testdata/"+m.name+".svg", b.String())
	}
}

// TestPageIsAlone: the page has all charts, is well-formed and loads nothing.
func TestPageIsAlone(t *testing.T) {
	s := small(t)
	page := string(files(t, s)[0].Content)
	charttest.Alone(t, page)
	if n := strings.Count(page, "<svg "); n != len(s.Distributions)*len(measures()) {
		t.Errorf("the page has %d charts", n)
	}
}

// TestOrder: the order of the points does not matter.
func TestOrder(t *testing.T) {
	s := small(t)
	want := files(t, s)
	r := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		r.Shuffle(len(s.Points), func(i, j int) { s.Points[i], s.Points[j] = s.Points[j], s.Points[i] })
		for i, f := range files(t, s) {
			if !bytes.Equal(f.Content, want[i].Content) {
				t.Fatalf("%s is not the same with the points in another order", f.Name)
			}
		}
	}
}

// TestCSVKeepsDigits: the numbers of the file parse as the same values.
func TestCSVKeepsDigits(t *testing.T) {
	s := small(t)
	s.Points = s.Points[:1]
	s.Points[0].Mean = 1.0 / 3
	s.Points[0].Result.ExpectedWCET = interference.Estimate{Value: math.Pi, StandardError: 1e-17}
	var b bytes.Buffer
	if err := s.CSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for column, want := range map[int]float64{1: 1.0 / 3, 7: math.Pi, 8: 1e-17} {
		if got, err := strconv.ParseFloat(rows[1][column], 64); got != want || err != nil {
			t.Errorf("%s is %v (%v), want %v", rows[0][column], got, err, want)
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
