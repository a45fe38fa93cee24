package throttling

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"pinfold.dev/pinfold/core/quantity"
)

// WriteTable writes rows as a text table, followed by failures and by batches that were sent late.
func WriteTable(w io.Writer, rows []Row) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tREQUESTS\tMEAN\tP50\tP99\tLONGEST\tTHROTTLED PERIODS\tOF ALL\tBURSTS\tUSAGE/LIMIT")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Load.Sent,
			r.ifAnswered(r.Load.Mean()), r.ifAnswered(r.Load.Quantile(0.5)), r.ifAnswered(r.Load.Quantile(0.99)), r.ifAnswered(r.Load.Quantile(1)),
			r.throttled(), r.unlessUnlimited(quantity.Share(r.OfWallPeriods()).Whole()), r.bursts(), r.unlessUnlimited(quantity.Share(r.Used()).Whole()))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if err := r.writeRemarks(w); err != nil {
			return err
		}
	}
	return nil
}

// lateness is the longest delay of batches on a machine that is not busy.
const lateness = 5 * time.Millisecond

func (r Row) writeRemarks(w io.Writer) error {
	name := r.Name
	if name != "" {
		name += ": "
	}
	for _, failure := range slices.Sorted(maps.Keys(r.Load.Failures)) {
		if _, err := fmt.Fprintf(w, "%s%d requests failed: %s\n", name, r.Load.Failures[failure], failure); err != nil {
			return err
		}
	}
	if r.Load.Lateness <= lateness {
		return nil
	}
	_, err := fmt.Fprintf(w, "%sa batch was sent %v late, and the latencies include that: the machine is busy\n", name, r.Load.Lateness.Round(time.Millisecond))
	return err
}

// throttled formats the share of throttled timer periods, and both counts.
func (r Row) throttled() string {
	return r.unlessUnlimited(fmt.Sprintf("%s (%d of %d)", quantity.Share(r.OfTimerPeriods()).Whole(), r.Counted.Throttled, r.Counted.Periods))
}

func (r Row) bursts() string {
	if r.Counted.NoBursts {
		return "-"
	}
	return r.unlessUnlimited(fmt.Sprint(r.Counted.Bursts))
}

// unlessUnlimited returns text, or "-" without a limit.
func (r Row) unlessUnlimited(text string) string {
	if r.Limit.Quota <= 0 {
		return "-"
	}
	return text
}

// ifAnswered formats a latency, or returns "-" if no request was answered.
func (r Row) ifAnswered(d time.Duration) string {
	if len(r.Load.Latencies) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fms", d.Seconds()*1000)
}
