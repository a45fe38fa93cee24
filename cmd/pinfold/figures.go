package main

import (
	"fmt"
	"time"
)

// limitStats are the figures of what has a limit, as JSON. Times are in seconds.
type limitStats struct {
	Quota            float64     `json:"quotaSeconds"`
	Period           float64     `json:"periodSeconds"`
	Burst            float64     `json:"burstSeconds"`
	TimerPeriods     uint64      `json:"timerPeriods"` // in which the kernel's timer ran
	WallPeriods      float64     `json:"wallPeriods"`  // that went by
	ThrottledPeriods uint64      `json:"throttledPeriods"`
	ThrottledTime    float64     `json:"throttledSeconds"` // summed over CPUs
	Bursts           *burstStats `json:"bursts,omitempty"` // if the kernel counts them
}

type burstStats struct {
	Periods uint64  `json:"periods"`
	Time    float64 `json:"seconds"`
}

// wallPeriods are the periods that went by, of which the kernel's timer ran in some. Its periods
// begin with the group and not with the measurement, so one more may have ended.
func wallPeriods(wall, period time.Duration, timer uint64) float64 {
	return max(share(wall, period), float64(timer))
}

// throttledText are the figures of throttling for people. A throttled period may be counted
// just before the timer's.
func throttledText(throttled, timer uint64, wall float64, waited time.Duration) string {
	percent := func(of float64) float64 { return 100 * min(1, ratio(float64(throttled), of)) }
	return fmt.Sprintf("%d of %d timer periods (%.0f%%), %.0f%% of the %.1f wall periods; %v, all CPUs together",
		throttled, timer, percent(float64(timer)), percent(wall), wall, short(waited))
}

func share(part, whole time.Duration) float64 { return ratio(float64(part), float64(whole)) }

// ratio is 0 where there is nothing to be a part of.
func ratio(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

// short rounds a time to what matters.
func short(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
