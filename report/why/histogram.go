package why

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/blame"
)

const (
	maxRows  = 20 // of a histogram; what is shorter is counted in the first
	barWidth = 16
)

// histogram prints how long each wait of a thread for a CPU, and each throttling, was. The times of
// a row are twice those of the row before, as runqlat of bcc prints them.
func histogram(w io.Writer, sum *blame.Sum) {
	waits, throttlings := sum.Waits, sum.Throttlings
	first, last := len(waits), -1
	for i := range waits {
		if waits[i]+throttlings[i] > 0 {
			first, last = min(first, i), i
		}
	}
	if last < 0 {
		return
	}
	shortest := blame.Bucket(first)
	for ; first <= last-maxRows; first++ {
		waits[first+1] += waits[first]
		throttlings[first+1] += throttlings[first]
	}
	header := fmt.Sprintf("\n  %10s    %-10s %8s  %-*s", "from", "to (us)", "waits", barWidth+1, "for a CPU")
	if sum.Throttled > 0 {
		header += "throttled"
	}
	fmt.Fprintln(w, strings.TrimRight(header, " "))
	for i := first; i <= last; i++ {
		row := fmt.Sprintf("  %10d -> %-10d%s", shortest.Microseconds(), blame.Bucket(i+1).Microseconds()-1, bar(&waits, i))
		if sum.Throttled > 0 {
			row += bar(&throttlings, i)
		}
		fmt.Fprintln(w, row)
		shortest = blame.Bucket(i + 1)
	}
}

// bar draws one count of a histogram.
func bar(h *blame.Histogram, i int) string {
	stars := uint64(barWidth) * h[i] / max(1, slices.Max(h[:]))
	return fmt.Sprintf(" %8d |%-*s|", h[i], barWidth, strings.Repeat("*", int(stars)))
}
