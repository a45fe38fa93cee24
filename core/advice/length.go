package advice

import (
	"fmt"
	"math"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/quantity"
)

const (
	// minThrottled is the number of periods that the wanted share must amount to.
	minThrottled = 10
	// lost is the part of its periods that a recording may lack: it begins and ends within some, and
	// late samples leave gaps.
	lost = .01
	// longestAdvised is the longest recording that a message asks for.
	longestAdvised = 366 * 24 * time.Hour
)

// SampleInterval returns the interval of samples that show when in a period demand comes: advice is
// averaged over the phases that periods may have.
func SampleInterval(period time.Duration) time.Duration { return max(period/5, bandwidth.MinPeriod) }

// neededPeriods returns how long a recording is, in periods, that is enough for advice about a share
// of throttled periods.
func neededPeriods(share float64) float64 {
	return max(demand.MinSamples*(1+2*lost), math.Ceil(minThrottled/share))
}

// suffices reports whether a recording of n periods is enough for advice about a share.
func suffices(n int, share float64) bool {
	return n >= demand.MinSamples && float64(n) >= minThrottled/share*(1-lost)
}

// smallestShare returns the smallest share for which n periods suffice, rounded up to one digit,
// and false if there is none.
func smallestShare(n int) (share quantity.Share, ok bool) {
	exact := minThrottled / float64(n) * (1 - lost)
	digit := math.Pow10(int(math.Floor(math.Log10(exact))))
	rounded := math.Ceil(exact/digit-1e-9) * digit
	return quantity.Share(rounded), suffices(n, rounded)
}

// RecordFor returns how long to record for advice about a share of throttled periods, and false if
// that is too long.
func RecordFor(period time.Duration, share float64) (time.Duration, bool) {
	need := neededPeriods(share) * float64(period)
	return time.Duration(math.Ceil(min(need, math.MaxInt64/2)/1e9)) * time.Second, need <= float64(longestAdvised)
}

// Reach says which share of throttled periods a recording of n periods allows advice about and, if
// that is more than the wanted share, how long to record for that one.
func Reach(n int, period time.Duration, wanted float64) string {
	text := "too short for advice"
	if share, ok := smallestShare(n); ok {
		text = fmt.Sprintf("enough for advice about %s throttled periods", share)
	}
	if length, ok := RecordFor(period, wanted); ok && !suffices(n, wanted) {
		text += fmt.Sprintf("; for %s record %v", quantity.Share(wanted), length)
	}
	return text
}

// tooFew says that n periods are too few for advice about a share, and what to do.
func tooFew(n int, period time.Duration, wanted float64) string {
	text := fmt.Sprintf("not enough data: %s of %v are too few for advice about %s of them", quantity.Count(n, "period"), period, quantity.Share(wanted))
	if length, ok := RecordFor(period, wanted); ok {
		text += fmt.Sprintf("; record for %v or longer", length)
	} else {
		text += ", and no recording is long enough"
	}
	if share, ok := smallestShare(n); ok {
		text += fmt.Sprintf(", or advise with --throttled %s", share)
	}
	return text
}
