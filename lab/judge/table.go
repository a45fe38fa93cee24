package judge

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/quantity"
)

// wanted is the share of throttled periods that advice is asked for.
func (r Results) wanted() float64 {
	text, percent := strings.CutSuffix(r.Sessions[0].Size.Throttled, "%")
	share, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN() // "pinfold advise" has refused it
	}
	if percent {
		share /= 100
	}
	return share
}

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
	for _, one := range r.Recordings {
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
		s.Size.Record, RecordedLimit, quantity.Count(s.Size.Runs, "run"), s.Size.Apply, s.Size.Throttled, Use)
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
		*notes = append(*notes, a.Reason)
		return []string{fmt.Sprintf("none (%d)", len(*notes)), "", "", "", "", ""}
	}
	advice := fmt.Sprintf("%.2f (%.2f to %.2f), %.0f%%", a.LimitCPUs, a.LowCPUs, a.HighCPUs, a.BurstPercent)
	if r.contradicted(one) {
		advice += ", **below what throttled it**"
	}
	cells := []string{advice, fmt.Sprintf("%s (%s to %s)", percent(a.ThrottleRatio), percent(a.LowThrottleRatio), percent(a.HighThrottleRatio))}
	for _, on := range tried() {
		t := r.tried(one, on)
		cells = append(cells, t.measured(), latency(t.Latencies))
	}
	return cells
}

// measured says what runs measured: each unit, and then the least and the largest share of a run.
func (t Tried) measured() string {
	if len(t.Runs) == 0 {
		return ""
	}
	var parts []string
	for _, u := range t.Units {
		part := percent(u.Share())
		if !u.Inside {
			part = "**" + part + " outside**"
		}
		parts = append(parts, part)
	}
	lowest, highest := math.Inf(1), 0.0
	for _, run := range t.Runs {
		share := float64(run.Throttled) / run.Periods()
		lowest, highest = min(lowest, share), max(highest, share)
	}
	text := fmt.Sprintf("%s (runs %s to %s)", strings.Join(parts, ", "), percent(lowest), percent(highest))
	if t.Disturbed > 0 {
		text += fmt.Sprintf("; %d of %d disturbed", t.Disturbed, len(t.Runs))
	}
	return strings.TrimSpace(text)
}

// beyond is how many observations must be beyond a quantile.
const beyond = 10

// latency returns the highest quantile that there are enough observations for.
func latency(sorted []float64) string {
	n := float64(len(sorted))
	for _, q := range []float64{.99, .95, .9, .5} {
		if n*(1-q) >= beyond {
			return fmt.Sprintf("p%.0f %.0f ms", 100*q, sorted[int(math.Ceil(q*n-1e-9))-1])
		}
	}
	return fmt.Sprintf("%s only", quantity.Count(len(sorted), "request"))
}

func percent(share float64) string { return quantity.Share(share).String() }

// foot writes the verdict.
func (r Results) foot(b *strings.Builder) {
	v := r.Verdict()
	verdict := "does not hold"
	if v.Good() {
		verdict = "holds"
	}
	fmt.Fprintf(b, "\nMeasured shares inside of the interval: %s (wanted: 95%%). No advice: %s of the recordings on busy machines (wanted: at most a third), %s on idle ones (wanted: none). "+
		"Limits below the one that throttled a program which waited: %d (wanted: none). Not judged because others disturbed them: %s and %s. All in all, this %s.\n",
		of(v.Inside, v.Judged), of(v.AbstainedBusy, v.Busy), of(v.AbstainedIdle, v.Idle), v.Contradicted,
		quantity.Count(v.DisturbedRecordings, "recording"), quantity.Count(v.Runs, "run"), verdict)
}

func of(n, all int) string {
	if all == 0 {
		return "0 of 0"
	}
	return fmt.Sprintf("%d of %d (%s)", n, all, percent(float64(n)/float64(all)))
}
