package findings

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/report/chart/charttest"
)

// TestAnyRun: any run is reported in all formats or rejected by all, and no text gets out of its
// place.
func TestAnyRun(t *testing.T) {
	bad := regexp.MustCompile(`\b(NaN|Inf)\b|[^\\]<i>`) // Markdown has \<i>
	given := newMaker(t).burst(1)
	rapid.Check(t, func(t *rapid.T) {
		r, odd := anyRun(t, given)
		var page, markdown strings.Builder
		err := Page(&page, []Run{r, r}[:rapid.IntRange(1, 2).Draw(t, "runs")], "<i>program</i>")
		for format, other := range map[string]error{"Markdown": Markdown(&markdown, []Run{r}), "summary": Summary(io.Discard, r)} {
			if (other == nil) != (err == nil) {
				t.Fatalf("page: %v, %s: %v", err, format, other)
			}
		}
		if (err == nil) == odd {
			t.Fatalf("%v, although values are odd: %v", err, odd)
		}
		charttest.Alone(t, page.String())
		for _, out := range []string{page.String(), markdown.String()} {
			if at := bad.FindStringIndex(out); at != nil {
				t.Fatalf("…%s…", out[max(0, at[0]-300):min(len(out), at[1]+100)])
			}
		}
	})
}

// anyRun returns a run with the structure of another, and whether it has to be rejected.
func anyRun(t *rapid.T, like Run) (r Run, odd bool) {
	r = Run{Result: experiment.Result{Config: like.Result.Config, Environment: like.Result.Environment, Complete: rapid.Bool().Draw(t, "complete"), Ended: anyName(t)}}
	c := &r.Result.Config
	rename(t, c)
	c.Question, c.Source, c.Notes = "q"+anyName(t), anyName(t), []string{anyName(t)}
	conditions, loads := []string{"unknown"}, []string{"unknown", ""}
	for _, condition := range c.Conditions {
		conditions = append(conditions, condition.Name)
	}
	for _, load := range c.Loads {
		loads = append(loads, load.Name)
	}
	value := func() float64 {
		x := rapid.OneOf(rapid.Just(0.), rapid.Float64Range(minValue, maxValue), rapid.Float64Range(.1, 10), rapid.SampledFrom([]float64{
			1, 1, 1, minValue, maxValue, math.NaN(), math.Inf(1), -1, math.MaxFloat64, 5e-324})).Draw(t, "value")
		odd = odd || !plausible(x)
		return x
	}
	c.Published = slices.Clone(c.Published)
	for i := range c.Published {
		p := &c.Published[i]
		p.Value, p.Of, p.Text, p.Note = value(), value(), rapid.SampledFrom([]string{"", "<i>"}).Draw(t, "text"), anyName(t)
	}
	for range rapid.IntRange(0, 20).Draw(t, "windows") {
		w := experiment.Window{Round: rapid.IntRange(0, 8).Draw(t, "round"), Condition: rapid.SampledFrom(conditions).Draw(t, "condition"),
			Load: rapid.SampledFrom(loads).Draw(t, "load"), Disturbed: rapid.SampledFrom([]string{"", "", "<i>1%</i>", "2%"}).Draw(t, "disturbed"),
			From: anyTime(t), To: anyTime(t), Latencies: anyHistogram(t), Figures: map[experiment.Figure]float64{}}
		for _, f := range rapid.SliceOfNDistinct(rapid.SampledFrom(append(slices.Clone(c.Figures), experiment.Cost, "unknown")), 0, 3, rapid.ID).Draw(t, "figures") {
			w.Figures[f] = value()
		}
		r.Result.Windows = append(r.Result.Windows, w)
	}
	r.Usage = anyRecording(t, r)
	for range rapid.IntRange(0, 3).Draw(t, "explained") {
		r.Result.Explained = append(r.Result.Explained, experiment.Explanation{Condition: anyName(t), Load: rapid.SampledFrom(loads).Draw(t, "load"), Window: anyTime(t),
			Parts: blame.Parts{Running: anyTime(t), Throttled: anyTime(t), Others: anyTime(t), Own: anyTime(t), Stolen: anyTime(t)}})
	}
	return r, odd
}

func anyName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"quota", "a, b", "", `<i>"x'</i>`, "</style><script>", "{{.}}", "-->", "\x00\x1b[31m", "ä漢\xff", "| * _ `"}).Draw(t, "name")
}

// rename gives hostile names to conditions and loads.
func rename(t *rapid.T, c *experiment.Config) {
	name := func(kind string, i int) string {
		return strings.ReplaceAll(fmt.Sprint(anyName(t), kind, i), "/", "")
	}
	renamed := map[string]string{}
	c.Conditions, c.Loads = slices.Clone(c.Conditions), slices.Clone(c.Loads)
	for i := range c.Conditions {
		renamed[c.Conditions[i].Name] = name("condition", i)
	}
	for i, condition := range c.Conditions {
		c.Conditions[i].Name, c.Conditions[i].Baseline = renamed[condition.Name], renamed[condition.Baseline]
	}
	for i, load := range c.Loads {
		renamed[load.Name] = name("load", i)
		c.Loads[i].Name = renamed[load.Name]
	}
	c.Answers, c.Published = slices.Clone(c.Answers), slices.Clone(c.Published)
	for i, a := range c.Answers {
		c.Answers[i].Condition, c.Answers[i].Load = renamed[a.Condition], renamed[a.Load]
	}
	for i, p := range c.Published {
		c.Published[i].Condition, c.Published[i].Load = renamed[p.Condition], renamed[p.Load]
	}
}

func anyTime(t *rapid.T) time.Duration {
	return rapid.OneOf(rapid.SampledFrom([]time.Duration{0, -1, time.Second, 10 * time.Second, math.MaxInt64, math.MinInt64}),
		rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.IntRange(0, 20e9).Draw(t, "ns")) })).Draw(t, "time")
}

// anyHistogram returns a histogram that may be empty, damaged or have very long latencies.
func anyHistogram(t *rapid.T) []byte {
	if rapid.IntRange(0, 3).Draw(t, "any") == 0 {
		return rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "bytes")
	}
	h := hdr.New(1, 1e11, 1)
	for range rapid.IntRange(0, 5).Draw(t, "latencies") {
		_ = h.RecordValues(rapid.Int64Range(0, 1e11).Draw(t, "latency"), rapid.SampledFrom([]int64{1, 7, -3, 1e18}).Draw(t, "number")) // all are in its range
	}
	encoded, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil
	}
	if n := rapid.IntRange(0, len(encoded)*4).Draw(t, "damage"); n < len(encoded) {
		encoded[n] = "A0/=-"[n%5]
	}
	return encoded
}

// anyRecording returns a recording that may have invalid samples, in any order.
func anyRecording(t *rapid.T, r Run) *trace.Recording {
	if len(r.Result.Windows) == 0 || rapid.Bool().Draw(t, "no recording") {
		return nil
	}
	recording := &trace.Recording{Interval: rapid.SampledFrom([]time.Duration{10 * time.Millisecond, 0, -1, math.MaxInt64}).Draw(t, "interval")}
	for _, w := range r.Result.Windows {
		s := trace.Series{Group: "/" + w.Condition + "/" + w.Load + "/web"}
		at := w.From
		for range rapid.IntRange(0, 30).Draw(t, "samples") {
			sample := trace.Sample{At: at, Interval: 10 * time.Millisecond, Usage: 5 * time.Millisecond, Limits: bandwidth.Limits{Quota: bandwidth.Unlimited}}
			if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
				sample.At, sample.Interval, sample.Usage, sample.Throttled = anyTime(t), anyTime(t), anyTime(t), rapid.Uint32().Draw(t, "throttled")
			}
			at += 10 * time.Millisecond
			s.Samples = append(s.Samples, sample)
		}
		recording.Series = append(recording.Series, s)
	}
	return recording
}
