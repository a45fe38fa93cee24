package trace_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/golden"
)

// TestDemandScenarios recovers the demand of the series in testdata/demand/*.txtar, which have the
// format of TestScenarios. The section "period" lists the periods.
func TestDemandScenarios(t *testing.T) {
	golden.Archives(t, "testdata/demand/*.txtar", "want", func(t *testing.T, archive *txtar.Archive) string {
		if len(archive.Files) != 2 {
			t.Fatal("want the sections series, period and want")
		}
		s, nominal := parseSeries(t, string(archive.Files[0].Data))
		var b strings.Builder
		for word := range strings.FieldsSeq(string(archive.Files[1].Data)) {
			period := duration(t, word)
			d, err := s.Demand(nominal, period)
			if err != nil {
				fmt.Fprintf(&b, "%v\n", err)
				continue
			}
			fmt.Fprintf(&b, "used per %v:   %s\n", period, figures(s.PerPeriod(nominal, period)))
			fmt.Fprintf(&b, "wanted per %v: %s\n", period, figures(d.CPUs))
			fmt.Fprintf(&b, "averaged %.3g, throttled %.3g, moved %.3g, %d open (%.3g of the time)\n",
				d.Averaged, d.Throttled, d.Moved, d.Open, d.OpenShare)
		}
		return b.String()
	})
}

// figures formats CPUs with two decimal places.
func figures(cpus []float64) string {
	words := make([]string, len(cpus))
	for i, c := range cpus {
		words[i] = fmt.Sprintf("%.4g", float64(int(c*100+.5))/100)
	}
	return strings.Join(words, " ")
}

func TestDemandErrors(t *testing.T) {
	s := &trace.Series{Samples: []trace.Sample{{At: 100 * time.Millisecond, Interval: 100 * time.Millisecond}}}
	late := &trace.Series{}
	for at := time.Duration(0); len(late.Samples) < 2000; {
		at += 99900 * time.Millisecond
		late.Samples = append(late.Samples, trace.Sample{At: at, Interval: 99900 * time.Millisecond, Usage: time.Second, Late: true})
	}
	for name, c := range map[string]struct {
		series          *trace.Series
		nominal, period time.Duration
		want            error
	}{
		"two periods in a sample": {s, 100 * time.Millisecond, 50 * time.Millisecond, trace.ErrTooCoarse},
		"a tenth of a period":     {s, 100 * time.Millisecond, time.Second, trace.ErrTooShort},
		"late samples only":       {late, 100 * time.Millisecond, 100 * time.Millisecond, trace.ErrTooCoarse},
		"no samples":              {&trace.Series{}, time.Millisecond, time.Millisecond, trace.ErrTooShort},
	} {
		if _, err := c.series.Demand(c.nominal, c.period); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestUnthrottledDemandIsUsage: without throttling, demand equals usage.
func TestUnthrottledDemandIsUsage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, nominal := drawSeries(t)
		for i := range s.Samples {
			s.Samples[i].Throttled = 0
		}
		period := nominal * time.Duration(rapid.IntRange(1, 5).Draw(t, "periods"))
		d, err := s.Demand(nominal, period)
		want := s.PerPeriod(nominal, period)
		if len(want) == 0 && errors.Is(err, trace.ErrTooShort) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, d.CPUs); diff != "" {
			t.Errorf("usage and demand differ (-usage +demand):\n%s", diff)
		}
		if d.Moved != 0 || d.Throttled != 0 || d.Open != 0 || d.OpenShare != 0 {
			t.Errorf("%+v although nothing was throttled", d)
		}
	})
}

func TestShellWord(t *testing.T) {
	for archive, want := range map[string]string{
		"a/b-c_1,2=:@%+.": "a/b-c_1,2=:@%+.", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "é": "'é'", "a;b": "'a;b'", "~": "'~'",
	} {
		if got := trace.ShellWord(archive); got != want {
			t.Errorf("%q is quoted as %s, want %s", archive, got, want)
		}
	}
}
