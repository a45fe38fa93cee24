package why

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
)

const (
	maxBehind = 5 // neighbours that are named
	textWidth = 80
)

// Text prints for each container where its time went, its longest delays, and a conclusion with
// advice.
func (r *Report) Text(w io.Writer) error {
	b := bufio.NewWriter(w)
	for i := range r.Containers {
		if i > 0 {
			fmt.Fprintln(b)
		}
		r.container(b, &r.Containers[i])
	}
	for _, note := range r.notes() {
		fmt.Fprintf(b, "\n%s\n", strings.Join(report.Wrap("Note: "+note, textWidth), "\n"))
	}
	return report.Flush(b, "print the result")
}

func (r *Report) container(w io.Writer, c *Container) {
	sum := r.Groups[c.Group]
	runnable := sum.Runnable()
	fmt.Fprintf(w, "%s: observed for %s, %s, %s\n", c.Name, seconds(r.observed()), quantity.Count(len(sum.Threads), "thread"), limitText(c))
	row := func(what string, d time.Duration, comment string) {
		fmt.Fprintf(w, "%s\n", strings.TrimRight(fmt.Sprintf("  %-44s %10s %5s  %s", what, seconds(d), percent(d, runnable), comment), " "))
	}
	row("wanted to run, all threads together", runnable, "")
	row("ran", sum.Running, fmt.Sprintf("%s on average", quantity.CPUs(sum.Running)/quantity.CPUs(max(1, r.observed()))))
	if sum.Stolen > runnable/1000 {
		row("lost to interrupts or the hypervisor", sum.Stolen, "")
	}
	if sum.Throttled > 0 || c.limit() > 0 {
		row("was throttled", sum.Throttled, r.periodsText(c))
	}
	row("waited for a CPU", sum.Waiting(), "")
	for _, by := range r.behind(&sum.Parts, c.Group, maxBehind) {
		row("  behind "+by.name, by.time, "")
	}
	if sum.Unknown > 0 {
		fmt.Fprintf(w, "  %-44s %10s\n", "unknown", seconds(sum.Unknown))
	}
	r.delays(w, c, sum)
	if r.Histogram {
		histogram(w, sum)
	}
	if c.Requests != nil {
		c.Requests.text(w, r.From)
	}
	fmt.Fprintln(w)
	v := r.verdict(c)
	conclusion, advice, command := r.conclude(c, &v)
	for _, text := range []string{conclusion, advice} {
		fmt.Fprintln(w, strings.Join(report.Wrap(text, textWidth), "\n"))
	}
	if command != "" {
		fmt.Fprintln(w, "  "+command)
	}
}

func limitText(c *Container) string {
	switch {
	case c.Limits.Period == 0:
		return "CPU limit unknown"
	case c.limit() == 0:
		return "no CPU limit"
	}
	return fmt.Sprintf("limit %s in periods of %v", c.limit(), c.Limits.Period)
}

// periodsText says how many periods of a quota were throttled.
func (r *Report) periodsText(c *Container) string {
	throttled, all := r.periods(c)
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("in %d of %d periods", throttled, all)
}

// delays prints the longest delays.
func (r *Report) delays(w io.Writer, c *Container, sum *blame.Sum) {
	if len(sum.Longest) == 0 {
		return
	}
	fmt.Fprintln(w, "\n  longest delays")
	for _, d := range sum.Longest {
		var why []string
		if d.Throttled > 0 {
			why = append(why, "throttled "+milliseconds(d.Throttled))
		}
		for _, by := range r.behind(&d.Parts, c.Group, 2) {
			if by.time > d.Delayed()/50 {
				why = append(why, fmt.Sprintf("%s behind %s", milliseconds(by.time), by.name))
			}
		}
		thread := fmt.Sprintf("thread %d", d.Thread.ID)
		if name := r.Process(d.Thread.Process); name != "" {
			thread += " of " + report.Printable(name)
		}
		fmt.Fprintf(w, "  %9s at %s, %s: %s\n", milliseconds(d.Delayed()), seconds(max(0, d.From-r.From)), thread, strings.Join(why, ", "))
	}
}

// notes say how far the observation can be trusted.
func (r *Report) notes() (notes []string) {
	if r.Ended != "" {
		notes = append(notes, r.Ended)
	}
	if r.Events > 0 {
		notes = append(notes, fmt.Sprintf("%s were lost, because they came faster than they were read. For %s of the time nothing is known.",
			quantity.Count(int(r.Events), "event"), seconds(r.Lost)))
	}
	if r.Missed > 0 {
		notes = append(notes, fmt.Sprintf("A CPU switched to another thread without a report of the kernel %s. The time around that counts as unknown.",
			quantity.Count(r.Missed, "time")))
	}
	return notes
}

func seconds(d time.Duration) string      { return fmt.Sprintf("%.3f s", d.Seconds()) }
func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

func percent(d, whole time.Duration) string {
	if whole == 0 {
		return ""
	}
	return (quantity.Share(d) / quantity.Share(whole)).Whole()
}
