package advice

import (
	"encoding/json"
	"time"

	"pinfold.dev/pinfold/core/trace"
)

// Container is the advice for one container, or any other group.
type Container struct {
	Group string `json:"group"`
	Name  string `json:"name,omitempty"`

	Recorded Recorded `json:"recorded"`
	// Warnings are sentences on the recording that concern all that follows.
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

// Recorded is what the advice rests on.
type Recorded struct {
	Time    Seconds `json:"seconds"`
	Period  Seconds `json:"periodSeconds"` // of the demand: the kernel's enforcement period
	Periods int     `json:"periods"`
	// AverageCPUs, P99CPUs and PeakCPUs are of the demand per period.
	AverageCPUs float64 `json:"averageCPUs"`
	P99CPUs     float64 `json:"p99CPUs"`
	PeakCPUs    float64 `json:"peakCPUs"`
	// LimitCPUs is the last that was recorded, 0 if there was none; the burst is in percent of
	// the quota.
	LimitCPUs    float64 `json:"limitCPUs,omitempty"`
	BurstPercent float64 `json:"burstPercent,omitempty"`
	LimitChanges int     `json:"limitChanges"`
	// ThrottleRatio is what the kernel counted, over wall periods.
	ThrottleRatio float64 `json:"throttleRatio"`
	// Moved, Averaged and OpenShare are those of trace.Demand.
	Moved     float64 `json:"movedShare"`
	Averaged  float64 `json:"averagedShare"`
	OpenShare float64 `json:"openShare"`
}

// Finding states whether there was enough data, and the reason for the advice.
type Finding struct {
	// Enough is false when the recording cannot tell; then the numbers beside it mean nothing.
	Enough bool `json:"enoughData"`
	// Reason is one sentence: why, or what is missing and what to do.
	Reason string `json:"reason"`
}

// Limit is the smallest limit that reaches the goal.
type Limit struct {
	Finding
	LimitCPUs    float64 `json:"limitCPUs"` // a multiple of .01
	LowCPUs      float64 `json:"lowCPUs"`   // confidence interval
	HighCPUs     float64 `json:"highCPUs"`
	BurstPercent float64 `json:"burstPercent"` // of the quota, with which it is the smallest
	// ThrottleRatio is that of the recording with this limit.
	ThrottleRatio float64 `json:"throttleRatio"`
	HeldOut       HeldOut `json:"heldOut"`
}

// HeldOut is a limit fitted to the first half of the recording and judged on the second.
type HeldOut struct {
	LimitCPUs           float64 `json:"limitCPUs"`
	FittedThrottleRatio float64 `json:"fittedThrottleRatio"` // first half
	JudgedThrottleRatio float64 `json:"judgedThrottleRatio"` // second half
}

// Burst is the smallest burst worth having at a limit.
type Burst struct {
	Finding
	AtLimitCPUs  float64 `json:"atLimitCPUs"`
	BurstPercent float64 `json:"burstPercent"` // of the quota, a whole number, 0 to 100
	LowPercent   float64 `json:"lowPercent"`   // confidence interval
	HighPercent  float64 `json:"highPercent"`
	// ReachesGoal is false when not even a burst of 100% does.
	ReachesGoal          bool    `json:"reachesGoal"`
	ThrottleRatioWithout float64 `json:"throttleRatioWithout"` // with a burst of 0
	ThrottleRatioWith    float64 `json:"throttleRatioWith"`
}

// Period is the shortest enforcement period that would do without burst.
type Period struct {
	Finding
	AtLimitCPUs float64 `json:"atLimitCPUs"`
	// Period is 0 when not even the kernel's longest would do.
	Period        Seconds `json:"periodSeconds"`
	ThrottleRatio float64 `json:"throttleRatio"`
	// LongestStall is how long all threads may wait in one period when as many run as did at
	// the peak; PresentStall the same with the present period.
	LongestStall Seconds `json:"longestStallSeconds"`
	PresentStall Seconds `json:"presentStallSeconds"`
}

// Binding is what would become of work on as many CPUs as the limit has.
type Binding struct {
	Finding
	Pays bool `json:"pays"`
	CPUs int  `json:"cpus"`
	// WaitingShare is the share of the time in which work waited for a CPU; the others
	// say how long it waited, over all work, and at most.
	WaitingShare float64 `json:"waitingShare"`
	AverageWait  Seconds `json:"averageWaitSeconds"`
	LongestWait  Seconds `json:"longestWaitSeconds"`
	// PeakCPUs is the most that was wanted in one sample.
	PeakCPUs float64 `json:"peakCPUs"`
}

// Parallelism is the recommended number of concurrent threads (for example GOMAXPROCS).
type Parallelism struct {
	Finding
	Threads int `json:"threads"`
}

// ScaleOut states whether more replicas or a higher limit are needed instead of burst.
type ScaleOut struct {
	Finding
	Needed      bool    `json:"needed"`
	AtLimitCPUs float64 `json:"atLimitCPUs"`
	// Utilisation is the average demand over the limit, with its confidence interval.
	Utilisation     float64 `json:"utilisation"`
	LowUtilisation  float64 `json:"lowUtilisation"`
	HighUtilisation float64 `json:"highUtilisation"`
}

// Curve is the throttle ratio over the burst, at one limit.
type Curve struct {
	Finding
	AtLimitCPUs float64      `json:"atLimitCPUs"`
	Points      []CurvePoint `json:"points,omitempty"`
	// Independent says why there are no figures for periods in any order, when there are none.
	IndependentMissing string `json:"independentMissing,omitempty"`
}

// CurvePoint is the throttle ratio at one burst. Kernels accept up to 100%; the agent provides more
// by raising the quota.
type CurvePoint struct {
	BurstPercent  float64 `json:"burstPercent"`
	ThrottleRatio float64 `json:"throttleRatio"` // of the recording, in its order
	// Independent is the probability when periods like these come in any order; nil
	// when it could not be computed.
	Independent *Bounded `json:"independent,omitempty"`
}

// Bounded is a probability with proven bounds.
type Bounded struct {
	Probability float64 `json:"probability"`
	Lower       float64 `json:"lower"`
	Upper       float64 `json:"upper"`
}

// Seconds is a Duration that is a number of seconds in JSON.
type Seconds struct{ time.Duration }

// MarshalJSON writes the number of seconds.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(s.Seconds()) }

// UnmarshalJSON reads it.
func (s *Seconds) UnmarshalJSON(data []byte) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil {
		return err
	}
	s.Duration = time.Duration(seconds * float64(time.Second))
	return nil
}
