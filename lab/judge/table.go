package judge

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/quantity"
)

// Markdown writes the table and the verdict.
func (r Results) Markdown(w io.Writer) error {
	if len(r.Sessions) == 0 {
		return nil
	}
	var b strings.Builder
	r.head(&b)
	fmt.Fprintln(&b, "| program | recorded | throttled, waited | advice (burst) | predicted | idle: measured | latency | busy: measured | latency |")
	fmt.Fprintln(&b, "|---|---|---|---|---|---|---|---|---|")
	var notes []string
	for _, one := range r.sorted() {
		cells := append([]string{one.Program, one.how(), one.hindered()}, r.outcome(one, &notes)...)
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	fmt.Fprintln(&b)
	for i, note := range notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, note)
	}
	r.foot(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// sorted returns the recordings in the order of rows.
func (r Results) sorted() (all []Recording) {
	var names []string
	for _, p := range r.Programs {
		names = append(names, p.Name)
	}
	for _, row := range rows(names) {
		if one := r.recording(row); one != nil {
			all = append(all, *one)
		}
	}
	return all
}

// head says where, when and how it was measured.
func (r Results) head(b *strings.Builder) {
	s, last := r.Sessions[0], r.Sessions[len(r.Sessions)-1]
	date := s.Started.Format("2006-01-02")
	if end := last.Started.Format("2006-01-02"); end != date {
		date += " to " + end
	}
	fmt.Fprintf(b, "%s, %s (%s), Linux %s, control groups of version %d, %s, commit %s:\n`%s`\n\n", date,
		quantity.Count(s.CPUs, "CPU"), cmp.Or(s.Model, "unknown model"), s.Kernel, s.Cgroup, version(last), last.Commit, strings.Join(last.Command, " "))
	fmt.Fprintf(b, "Recordings of %v with and without a limit of %v, and %s of %v under each advised limit in each condition. Advice is for %s throttled periods, and programs use %v CPUs on average.\n",
		s.Size.Record, RecordedLimit, quantity.Count(s.Size.Runs, "run"), s.Size.Apply, quantity.Share(s.Size.Throttled), Use)
	for _, p := range r.Programs {
		if p.Missing != "" {
			fmt.Fprintf(b, "%s was left out: %s.\n", p.Name, p.Missing)
		}
	}
	lowest, highest := math.Inf(1), 0.0
	for _, m := range r.all() {
		lowest, highest = min(lowest, m.Before.Used), max(highest, m.Before.Used)
	}
	if len(r.all()) > 0 {
		fmt.Fprintf(b, "Before each of them the machine used %.1f%% to %.1f%% of its CPUs.\n", 100*lowest, 100*highest)
	}
	fmt.Fprintln(b)
}

func version(s Session) string { return "Pinfold " + s.Pinfold }

// all returns what was measured in all trials.
func (r Results) all() (all []Measured) {
	for _, one := range r.Recordings {
		all = append(all, one.Measured)
	}
	for _, one := range r.Runs {
		all = append(all, one.Measured)
	}
	return all
}

// how says how a recording was made.
func (r Recording) how() string {
	text := "no limit"
	if r.Limited {
		text = fmt.Sprintf("limit %v", RecordedLimit)
	}
	text += map[Beside]string{Idle: ", idle", One: ", one neighbour", Crowd: ", crowd"}[r.Beside]
	if r.Disturbed != "" {
		text += "; disturbed: " + r.Disturbed
	}
	return text
}

// hindered says what kept a recorded program from running.
func (r Recording) hindered() string {
	share := func(s *float64) string {
		if s == nil {
			return "unknown"
		}
		return percent(*s)
	}
	return share(r.Advice.Recorded.ThrottleRatio) + ", " + share(r.Advice.Recorded.Waited)
}

// outcome returns the cells about advice and runs.
func (r Results) outcome(one Recording, notes *[]string) []string {
	a := one.Advice
	if !a.Enough {
		if !slices.Contains(*notes, a.Reason) {
			*notes = append(*notes, a.Reason)
		}
		return []string{fmt.Sprintf("none (%d)", slices.Index(*notes, a.Reason)+1), "", "", "", "", ""}
	}
	advice := fmt.Sprintf("%.2f (%.2f to %.2f), %.0f%%", a.LimitCPUs, a.LowCPUs, a.HighCPUs, a.BurstPercent)
	if r.contradicted(one) {
		advice += ", **below what throttled it**"
	}
	cells := []string{advice, fmt.Sprintf("%s (%s to %s)", percent(a.ThrottleRatio), percent(a.LowThrottleRatio), percent(a.HighThrottleRatio))}
	for _, on := range tried() {
		t := r.tried(one, on)
		cells = append(cells, t.measured(), t.latency())
	}
	return cells
}

// measured says what runs measured: each unit, and the least and the largest share of a run.
func (t Tried) measured() string {
	parts := t.shares()
	lowest, highest := math.Inf(1), 0.0
	for _, run := range t.shown() {
		share := float64(run.Throttled) / run.Periods()
		lowest, highest = min(lowest, share), max(highest, share)
	}
	if len(t.shown()) > 0 {
		parts = append(parts, fmt.Sprintf("(runs %s to %s)", percent(lowest), percent(highest)))
	}
	text := strings.Join(parts, " ")
	if n := len(t.Another); n > 0 {
		text += fmt.Sprintf("; %d of %d another load", n, n+len(t.Good))
	}
	if n := len(t.Disturbed); n > 0 {
		text += fmt.Sprintf("; %d of %d disturbed", n, n+len(t.Good))
	}
	return text
}

// shares returns the share of each unit.
func (t Tried) shares() (parts []string) {
	for _, u := range t.Units {
		part := percent(u.Share())
		if !u.Inside {
			part = "**" + part + " outside**"
		}
		parts = append(parts, part)
	}
	return parts
}

// shown returns the runs whose figures are shown: disturbed ones if there are no others.
func (t Tried) shown() []Run {
	if len(t.Good) == 0 {
		return t.Disturbed
	}
	return t.Good
}

// latency returns the highest quantile of all latencies that there are enough observations for.
func (t Tried) latency() string {
	var sorted []float64
	for _, run := range t.shown() {
		sorted = append(sorted, run.Latencies...)
	}
	slices.Sort(sorted)
	n := float64(len(sorted))
	for _, q := range []float64{.99, .95, .9, .5} {
		if n*(1-q) >= beyond {
			return fmt.Sprintf("p%.0f %.0f ms", 100*q, sorted[int(math.Ceil(q*n-1e-9))-1])
		}
	}
	return ""
}

// beyond is how many observations must be beyond a quantile.
const beyond = 10

func percent(share float64) string { return quantity.Share(share).String() }

// foot writes the verdict.
func (r Results) foot(b *strings.Builder) {
	v := r.Verdict()
	verdict := "this does not hold"
	switch {
	case v.Judged == 0:
		verdict = "nothing was judged"
	case v.Good():
		verdict = "this holds"
	}
	fmt.Fprintf(b, "\n- Measured shares inside of the interval: %s; wanted: 95%%.\n", of(v.Inside, v.Judged))
	fmt.Fprintf(b, "- Runs with another load, not judged: %s; for the same requests, the program used at least a quarter more or less CPU time than in the recording. With them, %s are inside.\n",
		of(v.Another, v.All), of(v.InsideAll, v.JudgedAll))
	fmt.Fprintf(b, "- No advice from recordings on busy machines: %s; wanted: at most a third. On idle ones: %s; wanted: none.\n", of(v.AbstainedBusy, v.Busy), of(v.AbstainedIdle, v.Idle))
	fmt.Fprintf(b, "- Limits below the one that throttled a program which waited: %d; wanted: none.\n", v.Contradicted)
	fmt.Fprintf(b, "- Not judged because others disturbed them: %s, %s.\n", quantity.Count(v.DisturbedRecordings, "recording"), quantity.Count(v.Runs, "run"))
	fmt.Fprintf(b, "- All in all, %s.\n", verdict)
}

func of(n, all int) string {
	if all == 0 {
		return "0 of 0"
	}
	return fmt.Sprintf("%d of %d (%s)", n, all, percent(float64(n)/float64(all)))
}
