package advice

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/interference/lindley"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
)

// Container is the advice for one container, or any other group.
type Container struct {
	Group string `json:"group"`
	Name  string `json:"name,omitempty"`

	Recorded Recorded `json:"recorded"`
	// Warnings are sentences about the recording that concern all advice.
	Warnings []string `json:"warnings,omitempty"`

	LimitWithoutBurst Limit       `json:"limitWithoutBurst"`
	LimitWithBurst    Limit       `json:"limitWithBurst"`
	Burst             Burst       `json:"burst"`
	Period            Period      `json:"period"`
	Binding           Binding     `json:"binding"`
	Parallelism       Parallelism `json:"parallelism"`
	ScaleOut          ScaleOut    `json:"scaleOut"`

	Curve Curve `json:"throttleCurve"`
	// Timescales is the CPU time used in windows of every length.
	Timescales []trace.Scale `json:"-"`
}

// Recorded describes the recording that the advice is based on.
type Recorded struct {
	Time    quantity.Seconds `json:"seconds"`
	Period  quantity.Seconds `json:"periodSeconds"` // of the demand: the kernel's enforcement period
	Periods int              `json:"periods"`
	// AverageCPUs, P99CPUs and PeakCPUs are of the demand per period. The latter are nil if there is
	// no period, or if demand is unknown for too long.
	AverageCPUs float64  `json:"averageCPUs"`
	P99CPUs     *float64 `json:"p99CPUs,omitempty"`
	PeakCPUs    *float64 `json:"peakCPUs,omitempty"`
	// LimitCPUs is the last recorded limit, 0 if there was none. BurstPercent is in percent of the
	// quota.
	LimitCPUs    float64 `json:"limitCPUs,omitempty"`
	BurstPercent float64 `json:"burstPercent,omitempty"`
	LimitChanges int     `json:"limitChanges"`
	// Unknown are the figures that the recording lacks.
	Unknown trace.Figures `json:"unknown,omitempty"`
	// ThrottleRatio is what the kernel counted, over wall periods; nil if these are unknown.
	// ThrottleRatioOfTimer is over the periods in which the kernel's timer ran, as on most
	// dashboards.
	ThrottleRatio        *float64 `json:"throttleRatio,omitempty"`
	ThrottleRatioOfTimer *float64 `json:"throttleRatioOfTimer,omitempty"`
	// Delay is that of the replay at LimitCPUs; nil without a limit, or with too little data.
	Delay *Delay `json:"delay,omitempty"`
	// Waited is that of trace.Bounds, nil if it is unknown; Moved, Averaged and
	// OpenShare are those of trace.Demand.
	Waited    *float64 `json:"waitedRatio,omitempty"`
	Moved     float64  `json:"movedShare"`
	Averaged  float64  `json:"averagedShare"`
	OpenShare float64  `json:"openShare"`
}

// Finding states whether there was enough data, and the reason for the advice.
type Finding struct {
	// Enough is false if the recording is not sufficient. Then the other fields are meaningless,
	// except Reason.
	Enough bool `json:"enoughData"`
	// Reason is one sentence: why, or what is missing and what to do.
	Reason string `json:"reason"`
}

// Limit is the smallest limit whose throttle ratio is at most the goal's, rounded up to 10m CPUs.
// It is not below the present one if the group was throttled too often and waited for CPUs.
type Limit struct {
	Finding
	LimitCPUs    float64 `json:"limitCPUs"` // a multiple of .01
	LowCPUs      float64 `json:"lowCPUs"`   // confidence interval
	HighCPUs     float64 `json:"highCPUs"`
	BurstPercent float64 `json:"burstPercent"` // that it assumes, of the quota
	// ThrottleRatio is the result of the replay with this limit, on average over the phases of the
	// kernel's periods that the samples show.
	ThrottleRatio float64 `json:"throttleRatio"`
	// Low and HighThrottleRatio are what a limit that was found in this way throttles in another
	// recording of the same load, of this length and any of those phases, in the share Confidence
	// of the cases.
	LowThrottleRatio  float64 `json:"lowThrottleRatio"`
	HighThrottleRatio float64 `json:"highThrottleRatio"`
	Delay             Delay   `json:"delay"`
	HeldOut           HeldOut `json:"heldOut"`
}

// Delay is how late work is in throttled periods, in the replay: what is left to do at the end of
// the period, divided by the limit. Where more threads than the limit has CPUs share that work, it
// was due earlier in the period, and waits that much longer.
type Delay struct {
	Mean    quantity.Seconds `json:"meanSeconds"`
	Longest quantity.Seconds `json:"longestSeconds"`
	// P99 is nil if there are not enough throttled periods for a quantile: ten beyond it.
	P99 *quantity.Seconds `json:"p99Seconds,omitempty"`
}

// HeldOut is a limit fitted to the first half of the recording and judged on the second.
type HeldOut struct {
	LimitCPUs           float64 `json:"limitCPUs"`
	FittedThrottleRatio float64 `json:"fittedThrottleRatio"` // first half
	JudgedThrottleRatio float64 `json:"judgedThrottleRatio"` // second half
}

// Burst is the smallest burst at a limit that reaches the goal, or beyond which the throttle ratio
// hardly falls.
type Burst struct {
	Finding
	AtLimitCPUs  float64 `json:"atLimitCPUs"`
	BurstPercent float64 `json:"burstPercent"` // of the quota, a whole number, 0 to 100
	LowPercent   float64 `json:"lowPercent"`   // confidence interval
	HighPercent  float64 `json:"highPercent"`
	// ReachesGoal is false if not even a burst of 100% does.
	ReachesGoal          bool    `json:"reachesGoal"`
	Delay                Delay   `json:"delay"`                // with the burst
	ThrottleRatioWithout float64 `json:"throttleRatioWithout"` // with a burst of 0
	ThrottleRatioWith    float64 `json:"throttleRatioWith"`
}

// Period is the shortest enforcement period, from the present one to the kernel's maximum of one
// second, that reaches the goal without burst. A longer one has a cost: threads can use up the
// longer quota as fast as before, and then wait for the rest of the period.
type Period struct {
	Finding
	AtLimitCPUs float64 `json:"atLimitCPUs"`
	// Period is 0 if not even the kernel's longest period suffices.
	Period        quantity.Seconds `json:"periodSeconds"`
	ThrottleRatio float64          `json:"throttleRatio"`
	// LongestStall is how long all threads may wait in one period if as many run as at the peak.
	// PresentStall is the same with the present period.
	LongestStall quantity.Seconds `json:"longestStallSeconds"`
	PresentStall quantity.Seconds `json:"presentStallSeconds"`
}

// Binding predicts the effect of binding the container to as many CPUs as its limit: at the
// timescale of the samples, work queues behind that many. If it seldom waits there, binding costs
// little and gains cache and memory locality.
type Binding struct {
	Finding
	Pays bool `json:"pays"`
	CPUs int  `json:"cpus"`
	// WaitingShare is the share of the time in which work waited for a CPU. AverageWait is over all
	// work.
	WaitingShare float64          `json:"waitingShare"`
	AverageWait  quantity.Seconds `json:"averageWaitSeconds"`
	LongestWait  quantity.Seconds `json:"longestWaitSeconds"`
	// PeakCPUs is the largest demand in one sample.
	PeakCPUs float64 `json:"peakCPUs"`
}

// Parallelism is the number of concurrent threads (for example GOMAXPROCS) that quota and burst can
// sustain for a whole period.
type Parallelism struct {
	Finding
	Threads int `json:"threads"`
}

// ScaleOut states whether more replicas or a higher limit are needed instead of burst: when average
// usage exceeds half of a limit, and no burst comes near the goal, little unused time is left to
// save.
type ScaleOut struct {
	Finding
	Needed      bool    `json:"needed"`
	AtLimitCPUs float64 `json:"atLimitCPUs"`
	// Utilisation is the average demand over the limit, with its confidence interval.
	Utilisation     float64 `json:"utilisation"`
	LowUtilisation  float64 `json:"lowUtilisation"`
	HighUtilisation float64 `json:"highUtilisation"`
}

// Curve is the throttle ratio as a function of the burst, at one limit.
type Curve struct {
	Finding
	AtLimitCPUs float64      `json:"atLimitCPUs"`
	Points      []CurvePoint `json:"points,omitempty"`
	// IndependentMissing is why there are no figures for independent periods, if there are none.
	IndependentMissing string `json:"independentMissing,omitempty"`
}

// CurvePoint is the throttle ratio at one burst. If it is far above Independent, periods of high
// demand follow each other, and burst helps less than the distribution of demand suggests. Kernels
// accept up to 100%; the agent provides more by raising the quota.
type CurvePoint struct {
	BurstPercent  float64 `json:"burstPercent"`
	ThrottleRatio float64 `json:"throttleRatio"` // of the recording, in its order
	// Independent is the probability if the same periods come in random order; nil if it could not
	// be computed.
	Independent *lindley.Throttling `json:"independent,omitempty"`
}

// ForContainer returns the advice for one series that was recorded at a nominal interval, for a
// valid goal. Missing data is not an error: the finding reports it. The error is that of ctx.
func ForContainer(ctx context.Context, s *trace.Series, nominal time.Duration, goal Goal, options Options) (Container, error) {
	sub := newSubject(s, nominal, goal)
	c := Container{Group: s.Group, Name: s.Name, Recorded: sub.recorded(), Warnings: sub.warnings(), Timescales: trace.Timescales(s, nominal)}
	c.LimitWithoutBurst = sub.limitFor(0)
	c.LimitWithBurst = sub.limitFor(goal.Burst)
	c.Warnings = append(c.Warnings, c.LimitWithBurst.cautions(sub)...)
	at := sub.limitToAdviseFor(c.LimitWithBurst)
	c.Burst = sub.burstAt(at)
	c.ScaleOut = sub.scaleOutAt(at, c.Burst)
	if err := sub.intervals(ctx, &c, at, options); err != nil {
		return Container{}, fmt.Errorf("advise on %s: %w", s.Group, err)
	}
	if err := sub.widen(ctx, &c, at, options); err != nil {
		return Container{}, fmt.Errorf("advise on %s: %w", s.Group, err)
	}
	c.LimitWithoutBurst.explain(sub)
	c.LimitWithBurst.explain(sub)
	c.Burst.explain(sub, at)
	c.ScaleOut.explain(sub, at, c.Burst)
	c.Curve = sub.curveAt(at)
	c.Period = sub.periodAt(at)
	c.Binding = sub.bindingAt(at)
	c.Parallelism = sub.parallelismAt(at, c.Burst)
	return c, context.Cause(ctx)
}

// intervals computes all confidence intervals from the same resamples.
func (sub *subject) intervals(ctx context.Context, c *Container, at limitAt, options Options) error {
	if sub.pieces == nil || sub.unsure != "" {
		return nil
	}
	ratio, quota := sub.goal.ThrottleRatio, quotaOf(at.cpus, sub.period)
	found, err := sub.wanted.bootstrap(ctx, sub.pieces, options, func(p phases, another amounts) []float64 {
		counts := p.bursts(quota)
		found := []float64{float64(counts.worthHaving(ratio)), p[0].mean() / float64(quota)}
		for _, burst := range []float64{0, sub.goal.Burst} {
			limit := sub.smallestLimit(p, burst)
			quota := quotaOf(limit, sub.period)
			found = append(found, limit, phases{another}.throttleRatio(quota, int64(burst*float64(quota))))
		}
		return found
	})
	if err != nil {
		return err
	}
	without, with := &c.LimitWithoutBurst, &c.LimitWithBurst
	for i, f := range []struct {
		enough    bool
		value     float64
		low, high *float64
	}{
		{c.Burst.Enough, c.Burst.BurstPercent, &c.Burst.LowPercent, &c.Burst.HighPercent},
		{c.ScaleOut.Enough, c.ScaleOut.Utilisation, &c.ScaleOut.LowUtilisation, &c.ScaleOut.HighUtilisation},
		{without.Enough, without.LimitCPUs, &without.LowCPUs, &without.HighCPUs},
		{without.Enough, without.ThrottleRatio, &without.LowThrottleRatio, &without.HighThrottleRatio},
		{with.Enough, with.LimitCPUs, &with.LowCPUs, &with.HighCPUs},
		{with.Enough, with.ThrottleRatio, &with.LowThrottleRatio, &with.HighThrottleRatio},
	} {
		if f.enough {
			// The joints between pieces may break a rhythm of the recording.
			*f.low, *f.high = min(f.value, found[i].low), max(f.value, found[i].high)
		}
	}
	return nil
}

// Goal is the target that the advice must reach.
type Goal struct {
	// ThrottleRatio is the share of wall periods that may be throttled; above 0, below 1.
	ThrottleRatio float64
	// Burst is the kernel burst of LimitWithBurst and of nodes, in multiples of the quota, 0 to 1.
	Burst float64
	// ProbabilityWCET1 is that of [interference.Result] on a node; above 0, below 1.
	ProbabilityWCET1 float64
}

// DefaultGoal returns the default goal: one period in a hundred throttled, a burst of 100%, and one
// deadline in a hundred missed.
func DefaultGoal() Goal {
	return Goal{ThrottleRatio: .01, Burst: 1, ProbabilityWCET1: interference.Safe}
}

// Confidence is the confidence level of the intervals. For recordings of 2000 periods of
// independent demand, the interval contained the right limit in 98% of cases, and so did that of
// another recording (TestLimitOfExponentialDemand). For correlated demand it did in 80% to 100% of
// cases, fewest at a correlation time of 60 periods; read it as a 90% interval there. Intervals
// cover what waiting for CPUs and throttling hide ([trace.Series.Bounds]).
const Confidence = .95

// Validate returns an error if the goal is invalid.
func (g Goal) Validate() error {
	switch {
	case !(g.ThrottleRatio > 0 && g.ThrottleRatio < 1):
		return fmt.Errorf("invalid goal: a share of %v of the periods throttled; take a number above 0 and below 1, because no recording can guarantee 0", g.ThrottleRatio)
	case !(g.Burst >= 0 && g.Burst <= 1):
		return fmt.Errorf("invalid goal: a burst of %v%% of the quota; the kernel accepts 0 to 100%%", 100*g.Burst)
	case !(g.ProbabilityWCET1 > 0 && g.ProbabilityWCET1 < 1):
		return fmt.Errorf("invalid goal: deadlines met with probability %v; take a number above 0 and below 1", g.ProbabilityWCET1)
	}
	return nil
}

// Options are the random numbers and the number of goroutines to use.
type Options struct {
	// Random returns the nth source of random numbers. It may be called from several goroutines.
	// The same sources give the same advice.
	Random  func(n uint64) *rand.Rand
	Workers int // 1 or more; does not change the advice
}
