package findings

import (
	"math"
	"slices"
	"strings"
	"testing"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/test/must"
)

// TestTail compares the curve with sorted latencies: at a share of requests, all but that share
// have been answered, and without the last of these they have not.
func TestTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Latencies below 2 ms have a bucket for each microsecond.
		latencies := rapid.SliceOfN(rapid.Int64Range(1, 1999), 1, 300).Draw(t, "latencies")
		h := experiment.NewHistogram()
		for _, l := range latencies {
			must.Do(t, h.RecordValue(l))
		}
		slices.Sort(latencies)
		points := tail(h)
		n := float64(len(latencies))
		for i, p := range points {
			if i > 0 && (p.X < points[i-1].X || p.Y > points[i-1].Y) {
				t.Fatalf("point %d is left of or below the one before: %v", i, points)
			}
			at := int64(math.Round(p.X * 1000))
			over := len(latencies) - upTo(latencies, at)
			least := len(latencies) - upTo(latencies, at-1)
			if i > 0 && (float64(over) > p.Y*n*(1+1e-9) || float64(least) < p.Y*n*(1-1e-9)) {
				t.Fatalf("%d of %v are over %d us, and %d are at it or over, want a share of %v", over, n, at, least, p.Y)
			}
		}
		if first, last := points[0], points[len(points)-1]; first.Y != 1 || math.Abs(last.Y*n-1) > 1e-9 || math.Abs(last.X*1000-float64(latencies[len(latencies)-1])) > 1e-6 {
			t.Fatalf("from %v to %v", first, last)
		}
	})
}

// upTo returns the number of values up to a limit.
func upTo(sorted []int64, limit int64) int {
	n, _ := slices.BinarySearch(sorted, limit+1)
	return n
}

// TestDamagedHistograms: what cannot be read is left out with a remark.
func TestDamagedHistograms(t *testing.T) {
	long := hdr.New(1, 1e11, 1)
	must.Do(t, long.RecordValue(1e11))
	tooLong := must.Get(long.Encode(hdr.V2CompressedEncodingCookieBase))(t)
	for damage, want := range map[string]string{
		"!!!!": "illegal base64", "AAAA": "the histogram is damaged", "AAAAAAAAAAAAAAAA": "only V2", string(tooLong): "latencies of more than 1h0m0s",
	} {
		r := newMaker(t).burst(1)
		i := slices.IndexFunc(r.Result.Windows, func(w experiment.Window) bool { return w.Disturbed == "" })
		r.Result.Windows[i].Latencies = []byte(damage)
		_, remarks := r.latencies()
		if len(remarks) != 1 || !strings.Contains(remarks[0], want) {
			t.Errorf("%q: remarks %q, want %q", damage, remarks, want)
		}
		if page := pageOf(t, []Run{r}); !strings.Contains(page, "The latencies of window") {
			t.Errorf("%q: the page has no remark", damage)
		}
	}
}

func TestQuantileLabels(t *testing.T) {
	for slower, want := range map[float64]string{1: "0%", .5: "50%", .1: "90%", .01: "99%", .001: "99.9%", .0001: "99.99%"} {
		if got := quantile(slower); got != want {
			t.Errorf("%g: %q, want %q", slower, got, want)
		}
	}
}

// TestManyConditions: a chart has at most as many lines as there are colours, the first of which is that of the first
// condition, and all have the same axis.
func TestManyConditions(t *testing.T) {
	r := newMaker(t).burst(1)
	c := &r.Result.Config
	for _, name := range []string{"c", "d", "e", "f", "g"} {
		c.Conditions = append(c.Conditions, experiment.Condition{Name: name})
		for _, w := range r.Result.Windows {
			if w.Condition == "quota" {
				w.Condition = name
				r.Result.Windows = append(r.Result.Windows, w)
			}
		}
	}
	charts, remarks := r.latencies()
	var lines []int
	for _, c := range charts {
		lines = append(lines, len(c.Series))
		if first := charts[0]; c.Series[0].Name != first.Series[0].Name || c.Title == first.Title && !slices.Equal(c.X.Shown, first.X.Shown) {
			t.Errorf("%s begins with %s, and shows %v", c.Title, c.Series[0].Name, c.X.Shown)
		}
	}
	if len(remarks) > 0 || !slices.Equal(lines, []int{5, 4, 5, 4}) {
		t.Errorf("lines %v, remarks %q", lines, remarks)
	}
}

// TestPictures checks the names of files, and that the Markdown refers to each.
func TestPictures(t *testing.T) {
	runs := []Run{newMaker(t).burst(6), newMaker(t).burst(6), newMaker(t).burst(6)}
	runs[2].Result.Config.Name = "my experiment"
	var text strings.Builder
	must.Do(t, Markdown(&text, runs))
	var names []string
	for _, p := range Pictures(runs) {
		names = append(names, p.File)
		var svg strings.Builder
		if err := p.SVG(&svg); err != nil || !strings.HasPrefix(svg.String(), "<?xml") {
			t.Errorf("%s: %.20q, error %v", p.File, svg.String(), err)
		}
		if !strings.Contains(text.String(), "]("+p.File+")") {
			t.Errorf("the Markdown does not refer to %s", p.File)
		}
	}
	want := []string{"burst-latency.svg", "burst-latency-2.svg", "burst-latency-3.svg", "burst-latency-4.svg", "my-experiment-latency.svg", "my-experiment-latency-2.svg"}
	if !slices.Equal(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
}

// TestSeveralRuns: runs of one experiment are told apart by their dates, on the page and in the text. Those
// with control groups of version 2 say so, and come first.
func TestSeveralRuns(t *testing.T) {
	runs := []Run{newMaker(t).burst(6), newMaker(t).burst(6), newMaker(t).burst(6)}
	runs[1].Result.Environment.Started = runs[0].Result.Environment.Started.AddDate(0, 0, 5)
	runs[0].Result.Environment.Cgroup = 1
	runs[2].Result.Config.Name = "my experiment"
	var text strings.Builder
	must.Do(t, Markdown(&text, runs))
	page := pageOf(t, runs)
	for _, want := range []string{"burst, 2026-11-20", "burst, 2026-11-25, cgroup version 2", "? (2026-11-20, Example CPU 2.5 GHz)", "? (2026-11-25, cgroup version 2, Linux 6.18.5)"} {
		if !strings.Contains(text.String(), want) || !strings.Contains(page, want) {
			t.Errorf("%q is not in the text or not on the page", want)
		}
	}
	if one, two := strings.Index(text.String(), "burst, 2026-11-20"), strings.Index(text.String(), "burst, 2026-11-25"); one < two {
		t.Error("version 2 is not first")
	}
	if strings.Contains(text.String(), "my experiment, ") {
		t.Error("the only run of an experiment has a date in its name")
	}
}
