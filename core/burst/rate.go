package burst

import (
	"math/bits"
	"time"
)

// Rate is CPU time per time in billionths of a CPU.
type Rate int64

// OneCPU is the rate of one busy CPU.
const OneCPU Rate = 1e9

// most bounds all amounts so that sums of a few of them do not overflow. It is 73 CPU years.
const most = 1 << 61

// mulDiv returns a x b / c, rounded down and at most most. It returns 0 if any argument is 0 or
// negative.
func mulDiv(a, b, c int64) int64 {
	if a <= 0 || b <= 0 || c <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high >= uint64(c) {
		return most
	}
	quotient, _ := bits.Div64(high, low, uint64(c))
	return int64(min(quotient, most))
}

// rateOf returns an amount of CPU time in an interval as a rate.
func rateOf(amount, interval time.Duration) Rate {
	return Rate(mulDiv(int64(amount), int64(OneCPU), int64(interval)))
}

// in returns the CPU time of the rate in a time.
func (r Rate) in(t time.Duration) time.Duration {
	return time.Duration(mulDiv(int64(r), int64(t), int64(OneCPU)))
}

// scaled returns amount x part / whole.
func scaled(amount, part, whole time.Duration) time.Duration {
	return time.Duration(mulDiv(int64(amount), int64(part), int64(whole)))
}

// bounded limits an amount to what sums can hold.
func bounded(t time.Duration) time.Duration { return max(-most, min(t, most)) }

// toward returns an exponentially smoothed mean: r moved towards value with a time constant, after
// an interval.
func (r Rate) toward(value Rate, interval, constant time.Duration) Rate {
	const whole = 1 << 10
	interval = min(interval, time.Hour)
	weight := mulDiv(int64(interval), whole, int64(interval+constant))
	return r + (value-r)*Rate(weight)/whole
}

// less reports whether a/b < c/d, for b and d above zero. Negative a and c count as zero.
func less(a, b, c, d Rate) bool {
	h1, l1 := bits.Mul64(uint64(max(0, a)), uint64(d))
	h2, l2 := bits.Mul64(uint64(max(0, c)), uint64(b))
	return h1 < h2 || h1 == h2 && l1 < l2
}
