package findings

import (
	"html/template"
	"math"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/report/chart"
)

// bars are those of a figure, one for each condition.
type bars struct {
	Title string
	Rows  []barRow
}

type barRow struct {
	Name            string
	Bar             template.HTML
	Value, Interval string
}

// bars returns the bars of the figures that answer the question or were published.
func (r Run) bars() []bars {
	var all []bars
	done := map[experiment.Answer]bool{} // of all conditions
	answers := slices.Clone(r.Result.Config.Answers)
	for _, p := range r.Result.Config.Published {
		answers = append(answers, p.Answer)
	}
	for _, a := range answers {
		one := experiment.Answer{Figure: a.Figure, Load: r.compare(a).Load}
		if b := r.barsOf(one.Figure, one.Load); !done[one] && len(b.Rows) > 0 {
			all = append(all, b)
		}
		done[one] = true
	}
	for _, load := range r.Result.Config.LoadNames() {
		if b := r.work(load); len(b.Rows) > 0 {
			all = append(all, b)
		}
	}
	return all
}

// work returns bars with the CPUs that the service used and, behind these, those of the other services. It has
// no rows if there were no others.
func (r Run) work(load string) bars {
	const own, others = chart.Blue, chart.Orange
	b := bars{Title: "CPUs of the service, and of the others" + r.load(load)}
	full := float64(r.Result.Environment.CPUs)
	some := false
	for _, c := range r.Result.Config.Conditions {
		service := r.compare(experiment.Answer{Figure: experiment.Used, Condition: c.Name, Load: load}).Value
		rest := r.compare(experiment.Answer{Figure: experiment.Others, Condition: c.Name, Load: load}).Value
		if service.Rounds == 0 || rest.Rounds == 0 {
			continue
		}
		some = some || rest.Estimate > 0
		bar := chart.Bar{Full: full, Parts: []chart.Part{{Value: service.Estimate, Colour: own}, {Value: rest.Estimate, Colour: others}}}
		b.Rows = append(b.Rows, barRow{Name: plain(c.Name), Bar: bar.HTML(),
			Value: experiment.Used.Format(service.Estimate), Interval: "others " + experiment.Others.Format(rest.Estimate)})
	}
	if !some {
		return bars{}
	}
	return b
}

func (r Run) barsOf(f experiment.Figure, load string) bars {
	b := bars{Title: label(f) + r.load(load)}
	var drawings []chart.Bar
	full := 0.
	for i, c := range r.Result.Config.Conditions {
		v := r.compare(experiment.Answer{Figure: f, Condition: c.Name, Load: load}).Value
		if math.IsNaN(v.Estimate) || v.Rounds == 0 {
			continue
		}
		one := chart.Bar{Parts: []chart.Part{{Value: v.Estimate, Colour: style(i).Colour}}}
		if v.Bounded() {
			one.Low, one.High = v.Low, v.High
		}
		full = max(full, v.Estimate, one.High)
		drawings = append(drawings, one)
		b.Rows = append(b.Rows, barRow{Name: plain(c.Name), Value: f.Format(v.Estimate), Interval: interval(f, v)})
	}
	for i, one := range drawings {
		one.Full = full
		b.Rows[i].Bar = one.HTML()
	}
	return b
}

// timeTable has where the time of the service's threads went.
type timeTable struct {
	Load string // "" for none or several
	Keys []chart.Key
	Rows []timeRow
}

type timeRow struct {
	Name   string
	Bar    template.HTML
	Shares []string
}

// kind is a part of the time of threads.
type kind struct {
	name   string
	colour chart.Colour
	time   time.Duration
}

func kinds(p blame.Parts) []kind {
	return []kind{
		{"running", chart.Blue, p.Running}, {"throttled", chart.Vermillion, p.Throttled}, {"behind others", chart.Orange, p.Others},
		{"behind own threads", chart.Sky, p.Own}, {"other", chart.Purple, p.Stolen + p.Idle + p.Unknown},
	}
}

// times returns where the time of threads went. Bars are in threads: time divided by that of the
// window.
func (r Run) times() (t timeTable) {
	several := slices.ContainsFunc(r.Result.Explained, func(e experiment.Explanation) bool { return e.Load != r.Result.Explained[0].Load })
	full := 0.
	var all []chart.Bar
	for _, e := range r.Result.Explained {
		bar, sum := chart.Bar{}, 0.
		for _, k := range kinds(e.Parts) {
			threads := max(0, k.time.Seconds()/max(e.Window, time.Nanosecond).Seconds())
			bar.Parts = append(bar.Parts, chart.Part{Value: threads, Colour: k.colour})
			sum += threads
		}
		if sum == 0 {
			continue
		}
		row := timeRow{Name: plain(e.Condition)}
		if several {
			row.Name += r.load(e.Load)
		} else {
			t.Load = plain(e.Load)
		}
		for _, p := range bar.Parts {
			row.Shares = append(row.Shares, quantity.Share(p.Value/sum).Whole())
		}
		all, t.Rows, full = append(all, bar), append(t.Rows, row), max(full, sum)
	}
	for i, bar := range all {
		bar.Full = full
		t.Rows[i].Bar = bar.HTML()
	}
	for _, k := range kinds(blame.Parts{}) {
		t.Keys = append(t.Keys, chart.Part{Colour: k.colour}.Key(k.name))
	}
	return t
}
