package counters

import (
	"fmt"
	"math"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/quantity"
)

// Container is what is known of one container of a pod.
type Container struct {
	Pod            string
	Limit, Request float64       // in CPUs; 0: none, or not known
	Period         time.Duration // in which the limit is enforced
	// Slices are consecutive times of equal length, the same for all containers of a workload. Of
	// those with another limit nothing is seen: Changed says that there are some.
	Slices  []Slice
	Changed bool
	Last    float64       // when it was last seen, in seconds; 0 if that is not known
	Window  time.Duration // over which usage was averaged; 0 if it is not known
	// Demand is what the agent has counted, and Sampled the number of its samples, most of which are
	// periods with a known demand. They are empty without an agent.
	Demand  Histogram
	Sampled float64
}

// Slice is what was counted in a time. What is not known is NaN.
type Slice struct {
	Seen       time.Duration // for how long the container was seen; 0 if it was not
	Mean, High float64       // CPUs used: the mean, and a high quantile over windows of minutes
	// Periods are those in which the kernel's timer ran, Throttled those of them in which the container
	// was throttled, and ThrottledSeconds for how long, summed over CPUs.
	Periods, Throttled, ThrottledSeconds float64
	Runs                                 float64 // how many times the container ran; 0 if that is not known
}

// Goal is what a workload should have.
type Goal struct {
	Throttled   float64 // the share of all periods that may be throttled
	Utilisation float64 // of the limit; a container that is throttled below it is so needlessly
	// Factor is how many times the present limit an advised one may be without a recording, which may
	// show that a lower one will do.
	Factor float64
}

// DefaultGoal returns the goal of the commands.
func DefaultGoal() Goal { return Goal{Throttled: .01, Utilisation: .5, Factor: 3} }

// Validate returns an error for a goal that makes no sense.
func (g Goal) Validate() error {
	if !(g.Throttled > 0 && g.Throttled < 1 && g.Utilisation > 0 && g.Utilisation <= 1 && g.Factor > 1) {
		return fmt.Errorf("goal %+v: shares are between 0 and 1, and the factor above 1", g)
	}
	return nil
}

// Finding is the result for the present limit.
type Finding string

// The findings.
const (
	Throttled Finding = "throttled" // more than the goal allows, whatever the interval says
	Undecided Finding = "undecided" // the interval contains the goal, or one container was throttled in more
	Fits      Finding = "fits"      // less than the goal allows
	Unlimited Finding = "unlimited" // there is no limit, and no periods are counted
	Unknown   Finding = "unknown"   // there are no counters, or for too short a time
)

// Interval is an estimate with its 95% confidence interval.
type Interval struct{ Value, Low, High float64 }

// Verdict is what counters say about the containers of one name in the pods of a workload.
type Verdict struct {
	Finding Finding
	Reason  string // a sentence
	// Needless is set if it is throttled although it uses little of its limit.
	Needless bool
	// Containers had the Limit and Request of the last ones, and Others others, which do not count.
	Containers, Others int
	Replicas           float64       // that ran at a time in the last slice, on average
	Seen               time.Duration // of all containers
	Limit, Request     float64       // in CPUs; 0: none
	Mean, High         float64       // CPUs used by one container: the mean (NaN: not measured), and the high quantile of the busiest
	// Shares of throttled periods, known from the time in which they were Counted. OfTimer is NaN if
	// the periods of the timer are not known.
	OfAll, OfTimer Interval
	Worst          float64 // the largest share of all periods in which one container was throttled
	Counted        time.Duration
	// HeldBack is how many CPUs a throttled container wanted to use at once: the least and the most.
	HeldBack        [2]float64
	NewLimit        *Change // nil: keep it
	NewRequest      *Change
	Burst           bool // let the container use later what it did not use: the first step, which reserves nothing
	FreedCPUs       float64
	RecordingNeeded bool // to know a limit, or whether a much lower one than NewLimit will do
	// Demand has what one container wanted in a period, in CPUs, at [DemandShares], and Effects what
	// the limit and the new one do. They are nil where agents do not know the demand.
	Demand  []float64
	Effects []Effect
	Slices  []Part
}

// DemandShares are the shares of the periods in which the demand is at most that of [Verdict.Demand].
func DemandShares() []float64 { return []float64{.5, .9, .99, .999} }

// Effect is what a limit does to independent periods of the demand.
type Effect struct {
	Limit              float64 // in CPUs
	Throttled, Bursted float64 // shares of throttled periods, without burst and with one of a quota
}

// Part is what all containers did in a slice; NaN if that is not known.
type Part struct {
	OfAll float64 // share of throttled periods, of all
	Mean  float64 // CPUs used by one container
}

// Change is advice to change an amount.
type Change struct {
	To     float64
	Sure   bool
	Reason string
}

// minWindows is how many windows a container must run at a time, on average: those at its beginning
// and its end are not full, and count as if they were.
const minWindows = 6

// minSlices is the least number of slices for an interval.
const minSlices = 3

// sureSeen is how long a workload must be seen for advice that is sure: what it did in less time may
// be rare.
const sureSeen = time.Hour

// minSeen returns how long a workload must be seen for a verdict: for an hour. If the slices are
// short, because only a few minutes were asked about, it is three slices, and at least the time in
// which the goal permits ten throttled periods.
func minSeen(slice, period time.Duration, goal Goal) time.Duration {
	tenOfGoal := time.Duration(10 / goal.Throttled * float64(period))
	return min(sureSeen, max(minSlices*slice, tenOfGoal))
}

// Judge returns the verdict on the containers of a workload. length is that of a slice.
func Judge(containers []Container, length time.Duration, goal Goal) Verdict {
	v := Verdict{Finding: Unknown, Mean: math.NaN()}
	chosen := lastOnes(containers)
	if len(chosen) == 0 {
		v.Reason = "nothing was measured"
		return v
	}
	v.Containers, v.Others = len(chosen), len(containers)-len(chosen)
	v.Limit, v.Request = chosen[0].Limit, request(chosen)
	sums := add(chosen)
	v.Replicas = float64(sums[len(sums)-1].seen) / float64(length)
	var used, runs float64
	var measured time.Duration
	for _, s := range sums {
		v.Seen += s.seen
		runs += s.runs
		measured += s.measured
		used += s.used
		v.High = max(v.High, s.high)
	}
	window := chosen[0].Window
	switch at := time.Duration(float64(v.Seen) / runs); {
	case v.Seen == 0 && slices.ContainsFunc(chosen, func(c Container) bool { return c.Changed }):
		v.Reason = "its limit changed not long ago: ask about the time since then, with --since"
		return v
	case runs > 0 && at < min(minWindows*window, length/2): // what runs all the time counts in each slice
		v.Reason = fmt.Sprintf("it runs for %v at a time, on average: averages of %v do not show that", at.Round(time.Minute), window)
		return v
	}
	v.Mean = used / measured.Seconds()
	period := chosen[0].Period.Seconds()
	for _, s := range sums { // 0/0 is NaN
		v.Slices = append(v.Slices, Part{s.throttled / (s.counted.Seconds() / period), s.used / s.measured.Seconds()})
	}
	least := minSeen(length, chosen[0].Period, goal)
	long := time.Duration(len(sums))*length >= sureSeen
	enough := long && v.Seen >= sureSeen && seenSlices(sums) >= minSlices
	v.Worst = worst(chosen, least)
	v.judgeLimit(sums, period, least, long, goal)
	v.judgeDemand(chosen, enough, goal)
	v.judgeRequest(least, enough, goal)
	return v
}

// judgeLimit sets what is about the limit, if periods were counted for at least a time. A new one is
// sure only if the time that was asked about is long.
func (v *Verdict) judgeLimit(sums []sum, period float64, least time.Duration, long bool, goal Goal) {
	var total sum
	for _, s := range sums {
		total.counted += s.counted
		total.periods += s.periods
		total.throttled += s.throttled
		total.throttledFor += s.throttledFor
	}
	if v.Limit == 0 && total.periods+total.throttled == 0 {
		v.Finding, v.Reason = Unlimited, "there is no limit"
		return
	}
	v.Counted = total.counted
	if total.counted == 0 {
		v.Reason = "its periods were not counted"
		return
	}
	v.OfAll = ratio(sums, func(s sum) (float64, float64) { return s.throttled, s.counted.Seconds() / period })
	v.OfTimer = ratio(sums, func(s sum) (float64, float64) { return s.throttled, s.periods })
	if total.periods == 0 && total.throttled > 0 {
		v.OfTimer.Value = math.NaN()
	}
	v.Reason = v.shares()
	if total.counted < least {
		v.Reason += fmt.Sprintf("; but these were counted for %v only, and a verdict needs %v", total.counted.Round(time.Minute), least)
		v.RecordingNeeded = v.OfAll.Value > goal.Throttled
		return
	}
	switch {
	case v.OfAll.High <= goal.Throttled && v.Worst <= goal.Throttled:
		v.Finding = Fits
		return
	case v.OfAll.High <= goal.Throttled:
		v.Finding, v.RecordingNeeded = Undecided, true
		v.Reason += fmt.Sprintf("; but one container in %s of all periods", quantity.Share(v.Worst))
		return
	case v.OfAll.Low <= goal.Throttled:
		v.Finding, v.RecordingNeeded = Undecided, v.OfAll.Value > goal.Throttled
		return
	}
	v.Finding = Throttled
	v.Needless = v.Mean < goal.Utilisation*v.Limit
	v.Burst = v.Needless
	v.raise(total, period, long && total.counted >= sureSeen, goal)
}

// shares is a sentence on the shares of throttled periods.
func (v *Verdict) shares() string {
	text := fmt.Sprintf("throttled in %s of all periods (%s to %s)", quantity.Share(v.OfAll.Value), quantity.Share(v.OfAll.Low), quantity.Share(v.OfAll.High))
	if !math.IsNaN(v.OfTimer.Value) {
		text += fmt.Sprintf(" and %s of those of the kernel's timer", quantity.Share(v.OfTimer.Value))
	}
	switch {
	case v.Limit == 0:
		return text + "; its limit is not known"
	case math.IsNaN(v.Mean):
		return text + fmt.Sprintf(", with a limit of %s; its usage is not known", quantity.CPUs(v.Limit))
	}
	return text + fmt.Sprintf(", at %s of its limit of %s", quantity.Share(v.Mean/v.Limit), quantity.CPUs(v.Limit))
}

// raise advises a higher limit.
func (v *Verdict) raise(total sum, period float64, sure bool, goal Goal) {
	quota, each := v.Limit*period, total.throttledFor/total.throttled
	v.HeldBack = [2]float64{(each + quota) / period, (2*each + quota) / period}
	// The limit or throttled time is not known, or less than the kernel's clock shows.
	if !(each > 0) || math.IsInf(each, 0) || v.Limit == 0 {
		v.HeldBack, v.RecordingNeeded = [2]float64{}, true
		return
	}
	to := math.Ceil(v.HeldBack[1]*10-1e-9) / 10
	v.RecordingNeeded = to > goal.Factor*v.Limit
	v.NewLimit = &Change{To: to, Sure: sure,
		Reason: fmt.Sprintf("while it was throttled, %s to %s wanted to run; with a limit of %s no more than that are held back",
			quantity.Number(v.HeldBack[0], 1), quantity.CPUs(v.HeldBack[1]), quantity.CPUs(to))}
}

// minKnown is the least share of periods whose demand must be known to trust it, and maxThrottled the
// largest share of throttled ones: what threads want while they are always late is hard to tell.
const minKnown, maxThrottled = .9, .5

// leastLimit is the least limit that is advised, in CPUs: what was idle must be able to answer and to
// start anew.
const leastLimit = .1

// judgeDemand sets the limit that goes with the demand that agents have counted, in place of that
// from counters. It is sure if the demand was seen for long enough.
func (v *Verdict) judgeDemand(containers []Container, enough bool, goal Goal) {
	var demand Histogram
	sampled := 0.
	for _, c := range containers {
		demand = demand.Add(c.Demand)
		sampled += c.Sampled
	}
	n := demand.Periods()
	if v.Limit == 0 || v.Finding == Unknown || n < 10/goal.Throttled || n < minKnown*sampled || !(demand.Mean() > 0) || v.OfAll.Value > maxThrottled {
		return
	}
	// Demand that comes in waves is throttled more often than independent demand.
	present := demand.effect(v.Limit)
	if v.OfAll.Low > 2*present.Throttled+goal.Throttled {
		return
	}
	for _, share := range DemandShares() {
		v.Demand = append(v.Demand, demand.Quantile(share))
	}
	v.Effects = []Effect{present}
	smallest := demand.smallestLimit(goal.Throttled)
	if v.Finding == Throttled || smallest < v.Limit/2 { // all together hide one that wants more
		for _, c := range containers {
			if c.Demand.Periods() >= 10/goal.Throttled && c.Demand.throttled(smallest, 0)[0] > goal.Throttled {
				smallest = c.Demand.smallestLimit(goal.Throttled)
			}
		}
	}
	to := max(leastLimit, math.Ceil(max(smallest, v.High)*100-1e-9)/100)
	reason := fmt.Sprintf("the agent knows what threads wanted in %s of the periods: a limit of %s throttles at most %s of them, if they are independent",
		quantity.Share(min(1, n/sampled)), quantity.CPUs(to), quantity.Share(goal.Throttled))
	switch {
	case v.Finding == Throttled && to > v.Limit, v.Finding == Fits && to < v.Limit/2:
		v.NewLimit, v.RecordingNeeded = &Change{To: to, Sure: enough, Reason: reason}, false
		v.Effects = append(v.Effects, demand.effect(to))
	}
}

// seenSlices returns the number of slices in which a container was seen.
func seenSlices(sums []sum) (n int) {
	for _, s := range sums {
		if s.seen > 0 {
			n++
		}
	}
	return n
}

// judgeRequest sets what is about the request, if usage was seen for at least a time.
func (v *Verdict) judgeRequest(least time.Duration, enough bool, goal Goal) {
	if v.Seen < least || math.IsNaN(v.Mean) || v.Finding == Throttled || max(v.OfAll.Value, v.Worst) > goal.Throttled {
		return
	}
	to := max(math.Ceil(v.High*100-1e-9)/100, .01)
	if v.Limit > 0 {
		to = min(to, v.Limit)
	}
	if math.Abs(to-v.Request) <= .1*v.Request {
		return
	}
	v.NewRequest = &Change{To: to, Sure: enough && v.Finding != Undecided,
		Reason: fmt.Sprintf("in minutes of high usage it used %s", quantity.CPUs(v.High))}
	v.FreedCPUs = (v.Request - to) * v.Replicas
}
