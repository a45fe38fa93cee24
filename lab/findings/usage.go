package findings

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/report/chart"
)

// The timescales of usage, and how much of a window is drawn.
const (
	fast  = 100 * time.Millisecond
	slow  = time.Second
	drawn = 10 * time.Second
)

// usageCharts are those of CPU usage over time, one for each condition, with the same scale.
type usageCharts struct {
	Keys   []chart.Key
	Charts []template.HTML
}

// usage returns the charts of the first service in the first undisturbed window of each condition.
func (r Run) usage() (all usageCharts, remarks []string) {
	if r.Usage == nil {
		return all, nil
	}
	var charts []*chart.Chart
	for _, c := range r.Result.Config.Conditions {
		if w, ok := r.firstWindow(c.Name); ok {
			charts = append(charts, r.usageChart(w, c))
		}
	}
	sameScale(charts)
	for _, c := range charts {
		f, ok, err := c.Figure("")
		switch {
		case err != nil:
			remarks = append(remarks, fmt.Sprintf("The usage of CPUs cannot be drawn: %v.", err))
		case ok:
			all.Keys = append(f.Keys, chart.Shade{Colour: chart.Vermillion}.Key("periods in which it was throttled"))
			all.Charts = append(all.Charts, f.Drawing)
		}
	}
	return all, remarks
}

// sameScale makes both axes of all charts alike: windows can be of different length, and limits
// above all usage.
func sameScale(charts []*chart.Chart) {
	x, y := []float64{0}, []float64{0}
	for _, c := range charts {
		for _, s := range c.Series {
			for _, p := range s.Points {
				if !math.IsNaN(p.Y) {
					x, y = append(x, p.X), append(y, p.Y)
				}
			}
		}
		for _, s := range c.Shades {
			x = append(x, s.To)
		}
		for _, r := range c.References {
			y = append(y, r.Value)
		}
	}
	for _, c := range charts {
		c.X.Shown, c.Y.Shown = []float64{0, slices.Max(x)}, []float64{0, slices.Max(y)}
	}
}

// firstWindow returns the first undisturbed window of a condition.
func (r Run) firstWindow(condition string) (experiment.Window, bool) {
	i := slices.IndexFunc(r.Result.Windows, func(w experiment.Window) bool { return w.Condition == condition && w.Disturbed == "" })
	if i < 0 {
		return experiment.Window{}, false
	}
	return r.Result.Windows[i], true
}

// usageChart returns the chart of a window.
func (r Run) usageChart(w experiment.Window, condition experiment.Condition) *chart.Chart {
	sequences := r.samples(w)
	c := &chart.Chart{
		Title:       plain(condition.Name),
		Description: fmt.Sprintf("The CPUs that the first service used over time (condition: %s), and when it was throttled.", plain(condition.Name)),
		X:           chart.Axis{Label: "time", Unit: "s"},
		Y:           chart.Axis{Label: "CPUs"},
		Series: []chart.Series{
			{Name: "CPUs used in 100 ms", Points: stairs(sequences, fast, r.Usage.Interval, w.From), Style: chart.Style{Colour: chart.Sky}},
			{Name: "CPUs used in 1 s", Points: stairs(sequences, slow, r.Usage.Interval, w.From), Style: chart.Style{Colour: chart.Blue}},
		},
		Shades: throttled(sequences, w.From),
		Height: 240,
	}
	var facts []string
	if w.Load != "" {
		facts = append(facts, "load: "+plain(w.Load))
	}
	service, _ := r.Result.First(condition.Name) // Config.Check has accepted it
	if limit, ok := service.Limits().CPUs(); ok {
		facts = append(facts, fmt.Sprintf("limit (dashed): %s", quantity.CPUs(limit)))
		c.References = []chart.Reference{{Value: limit}}
	}
	c.Subtitle = strings.Join(facts, "; ")
	return c
}

// samples returns the valid samples of the first service at the beginning of a window, in sequences
// without gaps.
func (r Run) samples(w experiment.Window) [][]trace.Sample {
	group := w.Group(r.Result.Config.Services[0].Name)
	i := slices.IndexFunc(r.Usage.Series, func(s trace.Series) bool { return s.Group == group })
	if i < 0 {
		return nil
	}
	var within trace.Series
	for _, s := range r.Usage.Series[i].Samples {
		if s.Validate() == nil && s.Begin() >= w.From-r.Usage.Interval && s.At <= min(w.To, w.From+drawn)+r.Usage.Interval {
			within.Samples = append(within.Samples, s)
		}
	}
	return within.Contiguous(r.Usage.Interval)
}

// stairs returns the usage in consecutive bins of a length, with two points for each bin and an
// unknown point at each gap. Times are in seconds after start.
func stairs(sequences [][]trace.Sample, length, nominal, start time.Duration) []chart.Point {
	var points []chart.Point
	for _, sequence := range sequences {
		if len(points) > 0 {
			points = append(points, chart.Point{X: points[len(points)-1].X, Y: math.NaN()})
		}
		var used, lasted time.Duration
		for _, s := range sequence {
			used, lasted = used+s.Usage, lasted+s.Interval
			if lasted < length-nominal/2 {
				continue
			}
			cpus := float64(used) / float64(lasted)
			points = append(points, chart.Point{X: since(s.At-lasted, start), Y: cpus}, chart.Point{X: since(s.At, start), Y: cpus})
			used, lasted = 0, 0
		}
	}
	return points
}

func since(at, start time.Duration) float64 { return max(0, (at - start).Seconds()) }

// throttled returns the periods in which the service was throttled. The kernel counts them at their
// end.
func throttled(sequences [][]trace.Sample, start time.Duration) []chart.Shade {
	var all []chart.Shade
	for _, s := range slices.Concat(sequences...) {
		if s.Throttled == 0 {
			continue
		}
		period := trace.PeriodOf(s.Limits)
		one := chart.Shade{From: since(s.At-time.Duration(s.Throttled)*period, start), To: since(s.At, start), Colour: chart.Vermillion}
		if last := len(all) - 1; last >= 0 && one.From <= all[last].To {
			all[last].To = max(all[last].To, one.To)
			continue
		}
		all = append(all, one)
	}
	return all
}
