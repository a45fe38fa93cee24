package advice

// Decision is the limit and the burst to set.
type Decision struct {
	LimitCPUs    float64 `json:"limitCPUs"`
	BurstPercent float64 `json:"burstPercent"`
	// Repairs means that the limit is the present one, under which more periods are throttled than
	// wanted: the burst mends that, and costs no CPUs.
	Repairs bool `json:"repairs"`
	// Keeps means that limit and burst are the present ones, which throttle no more periods than
	// wanted, and that no lower limit does with the burst of the goal.
	Keeps bool `json:"keeps"`
}

// Decide returns what to set, and false if there is not enough data. What repairs comes before what
// saves: a burst at the present limit before another limit. A limit that suffices is not raised.
func (c *Container) Decide(goal Goal) (d Decision, ok bool) {
	if b := &c.Burst; c.reaches() && b.BurstPercent > c.Recorded.BurstPercent && b.BurstPercent <= 100*goal.Burst {
		return Decision{LimitCPUs: c.Recorded.LimitCPUs, BurstPercent: b.BurstPercent, Repairs: true}, true
	}
	if c.Suffices() && !c.Saves() {
		return Decision{LimitCPUs: c.Recorded.LimitCPUs, BurstPercent: c.Recorded.BurstPercent, Keeps: true}, true
	}
	l := &c.LimitWithBurst
	return Decision{LimitCPUs: l.LimitCPUs, BurstPercent: l.BurstPercent}, l.Enough
}

// Suffices reports whether the present limit throttles no more periods than wanted.
func (c *Container) Suffices() bool {
	return c.reaches() && c.Burst.BurstPercent <= c.Recorded.BurstPercent
}

// Saves reports whether the advised limit is below the present one.
func (c *Container) Saves() bool {
	return c.LimitWithBurst.Enough && c.LimitWithBurst.LimitCPUs < c.Recorded.LimitCPUs
}

// reaches reports whether the present limit reaches the goal with a burst.
func (c *Container) reaches() bool {
	return c.Recorded.LimitCPUs > 0 && c.Burst.Enough && c.Burst.ReachesGoal
}
