package counters

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
)

const (
	day    = 24 * time.Hour
	period = 100 * time.Millisecond
)

// web returns a container that was there all the time. It used an amount of CPUs on average, and was
// throttled in a share of the periods of each day.
func web(limit, request, used float64, throttled ...float64) Container {
	c := Container{Limit: limit, Request: request, Period: period}
	for _, share := range throttled {
		n := share * float64(day/period)
		s := Slice{Seen: day, Mean: used, High: 1.5 * used, Periods: float64(day/period) / 4, Throttled: n, ThrottledSeconds: .08 * n}
		if limit == 0 && n == 0 { // the kernel counts no periods
			s.Periods = 0
		}
		c.Slices = append(c.Slices, s)
	}
	return c
}

func TestJudge(t *testing.T) {
	unseen := Slice{Mean: math.NaN(), High: math.NaN(), Periods: math.NaN(), Throttled: math.NaN(), ThrottledSeconds: math.NaN()}
	without := func(c Container, days ...int) Container {
		for _, i := range days {
			c.Slices[i] = unseen
		}
		return c
	}
	lately := func(c Container, days ...int) Container { // seen on these days only
		for i := range c.Slices {
			if slices.Contains(days, i) {
				c.Last = float64(1000 * (i + 1))
			} else {
				c.Slices[i] = unseen
			}
		}
		return c
	}
	unmeasured := func(c Container, seen time.Duration) Container {
		for i := range c.Slices {
			c.Slices[i].Seen, c.Slices[i].Mean, c.Slices[i].High = seen, math.NaN(), math.NaN()
		}
		return c
	}
	briefly := func(c Container) Container {
		for i := range c.Slices {
			c.Slices[i].Seen /= 10
		}
		return c
	}
	for name, test := range map[string]struct {
		containers []Container
		want       string
	}{
		"throttled at a third of its limit: two CPUs wanted to run": {[]Container{web(1, 1, .3, .1, .1, .1)},
			"throttled, needless: burst, limit 2.6 sure; 10% (10 to 10%) of all periods, 40% of the timer's; held back 1.8 to 2.6"},
		"throttled at most of its limit": {[]Container{web(1, 1, .9, .1, .1, .1)},
			"throttled: limit 2.6 sure; 10% (10 to 10%) of all periods, 40% of the timer's; held back 1.8 to 2.6"},
		"replicas that differ count together": {[]Container{web(1, 1, .3, .2, .2, .2), web(1, 1, .3, 0, 0, 0)},
			"throttled, needless: burst, limit 2.6 sure; 10% (10 to 10%) of all periods, 40% of the timer's; held back 1.8 to 2.6"},
		"fits, and its request is too large": {[]Container{web(1, 1, .2, .001, .002, .001), web(1, 1, .3, 0, 0, 0)},
			"fits: request 0.45 sure, frees 1.1; 0.067% (0 to 0.138%) of all periods, 0.27% of the timer's"},
		"one of ten is throttled": {append(slices.Repeat([]Container{web(1, .3, .2, 0, 0, 0)}, 9), web(1, .3, .67, .09, .09, .09)),
			"undecided: record; 0.9% (0.9 to 0.9%) of all periods, 3.6% of the timer's"},
		"a request that was lowered": {[]Container{lately(web(2, 2, .3, 0, 0, 0, 0), 0, 1), lately(web(2, .45, .3, 0, 0, 0, 0), 2, 3)},
			"fits"},
		"fits with its request": {[]Container{web(1, .47, .3, 0, 0, 0)},
			"fits"},
		"throttled on one day of three": {[]Container{web(1, .45, .3, 0, 0, .1)},
			"undecided: record; 3.3% (0 to 17.7%) of all periods, 13% of the timer's"},
		"seen on two days": {[]Container{without(web(1, 1, .3, .1, .1, .1), 0)},
			"undecided: record; 10% (0 to 100%) of all periods, 40% of the timer's"},
		"no limit": {[]Container{web(0, 2, .3, 0, 0, 0)}, "unlimited: request 0.45 sure, frees 1.6"},
		"a job that runs for a tenth of the time frees a tenth": {[]Container{briefly(web(0, 2, .3, 0, 0, 0))}, "unlimited: request 0.45 sure, frees 0.16"},
		"no counters":                 {[]Container{without(web(1, 1, .3, 0, 0, 0), 0, 1, 2)}, "unknown"},
		"seen, but without any usage": {[]Container{unmeasured(without(web(1, 1, .3, 0, 0, 0), 0, 1, 2), day)}, "unknown, NaN used"},
		"the usage is not known": {[]Container{unmeasured(web(1, 1, .3, .1, .1, .1), day)},
			"throttled: limit 2.6 sure; 10% (10 to 10%) of all periods, 40% of the timer's; held back 1.8 to 2.6"},
		"the limit is not known": {[]Container{web(0, 1, .3, .1, .1, .1)},
			"throttled: record; 10% (10 to 10%) of all periods, 40% of the timer's"},
		"throttled periods alone are known, for minutes": {[]Container{{Period: period, Slices: []Slice{{5 * time.Minute, math.NaN(), math.NaN(), math.NaN(), 300, math.NaN(), 0}}}},
			"unknown: record; 10% (0 to 100%) of all periods, NaN% of the timer's"},
		"no containers": {nil, "unknown"},
		"pods with the limit before the last change do not count": {[]Container{without(web(.5, 1, .3, .5, .5, .5), 2), without(web(1, .45, .3, 0, 0, 0), 0)},
			"undecided, 1 other; 0% (0 to 100%) of all periods, 0% of the timer's"},
		"whether less than many times the limit would do, a recording shows": {[]Container{web(.1, .1, .03, .1, .1, .1)},
			"throttled, needless: burst, limit 1.7 sure, record; 10% (10 to 10%) of all periods, 40% of the timer's; held back 0.9 to 1.7"},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(test.containers, day, DefaultGoal())
			if got := describe(&v); got != test.want {
				t.Errorf("got  %s\nwant %s\n(%s)", got, test.want, v.Reason)
			}
		})
	}
}

// TestRollout checks whose limit counts after a rollout and after a change, and that containers which
// run for minutes are not judged by averages of minutes.
func TestRollout(t *testing.T) {
	with := func(c Container, change func(*Container)) Container {
		c.Window = 5 * time.Minute
		change(&c)
		return c
	}
	at := func(last float64) func(*Container) { return func(c *Container) { c.Last = last } }
	old, now := web(1, 1, .3, .1, .1, .1), web(4, 1, .3, 0, 0, 0)
	changed := with(web(4, 1, .3, .1, .1, .1), func(c *Container) {
		c.Changed = true
		for i := range c.Slices {
			c.Slices[i].Seen = 0
		}
	})
	short := with(web(1, 1, .3, .1, .1, .1), func(c *Container) {
		for i := range c.Slices {
			c.Slices[i].Runs = 200
		}
	})
	for name, test := range map[string]struct {
		containers []Container
		limit      float64
		finding    Finding
		reason     string
	}{
		"pods that are gone do not count":  {[]Container{with(old, at(1000)), with(old, at(1000)), with(now, at(5000))}, 4, Fits, ""},
		"the limit of most":                {[]Container{with(old, at(5000)), with(now, at(4900)), with(now, at(5000))}, 4, Fits, ""},
		"all have another limit since now": {[]Container{changed}, 4, Unknown, "its limit changed not long ago"},
		"one run in short slices": {[]Container{with(web(1, 1, .3, .1, .1, .1), func(c *Container) {
			for i := range c.Slices {
				c.Slices[i].Seen, c.Slices[i].Runs = 8*time.Minute, 1
			}
		})}, 1, Throttled, ""},
		"runs of seven minutes": {[]Container{short}, 1, Unknown, "it runs for 7m0s at a time, on average: averages of 5m0s do not show that"},
	} {
		length := day
		if strings.Contains(name, "short slices") {
			length = 8 * time.Minute
		}
		v := Judge(test.containers, length, DefaultGoal())
		if v.Limit != test.limit || v.Finding != test.finding || !strings.Contains(v.Reason, test.reason) {
			t.Errorf("%s: limit %v, %s: %s", name, v.Limit, v.Finding, v.Reason)
		}
	}
}

// TestShort checks the verdict on a few minutes: it is about these, and no advice is sure.
func TestShort(t *testing.T) {
	minutes := func(c Container) Container {
		for i := range c.Slices {
			s := &c.Slices[i]
			s.Seen, s.Periods, s.Throttled, s.ThrottledSeconds = time.Minute, s.Periods/1440, s.Throttled/1440, s.ThrottledSeconds/1440
		}
		return c
	}
	for name, test := range map[string]struct {
		container Container
		throttled float64 // the goal
		want      string
	}{
		"throttled":            {web(1, 1, .3, .1, .1, .1), .01, "throttled, needless: burst, limit 2.6; 10% (10 to 10%) of all periods, 40% of the timer's; held back 1.8 to 2.6"},
		"fits":                 {web(1, 1, .3, 0, 0, 0), .01, "fits: request 0.45, frees 0.55"},
		"two minutes":          {web(1, 1, .3, .1, .1), .01, "unknown, 0.3 used: record; 10% (0 to 100%) of all periods, 40% of the timer's"},
		"too short for a goal": {web(1, 1, .3, .1, .1, .1), .001, "unknown, 0.3 used: record; 10% (10 to 10%) of all periods, 40% of the timer's"},
	} {
		goal := DefaultGoal()
		goal.Throttled = test.throttled
		v := Judge([]Container{minutes(test.container)}, time.Minute, goal)
		if got := describe(&v); got != test.want {
			t.Errorf("%s: got  %s\nwant %s\n(%s)", name, got, test.want, v.Reason)
		}
		many := make([]Container, 30) // see as much as one in an hour, but nothing that comes once an hour
		for i := range many {
			many[i] = minutes(web(test.container.Limit, test.container.Request, .3, .1, .1, .1))
		}
		if v := Judge(many, time.Minute, goal); strings.Contains(describe(&v), "sure") {
			t.Errorf("%s, 30 replicas: %s", name, describe(&v))
		}
	}
}

// TestStart checks that what a container uses in its first minutes is not its high usage.
func TestStart(t *testing.T) {
	week := web(4, 2, .2, 0, 0, 0)
	week.Window = 5 * time.Minute
	fresh := Container{Limit: 4, Request: 2, Period: period, Window: week.Window, Slices: make([]Slice, 3)}
	fresh.Slices[2] = Slice{Seen: 30 * time.Minute, Mean: .6, High: 1.58, Periods: 1000}
	if v := Judge([]Container{week, fresh}, day, DefaultGoal()); v.NewRequest == nil || math.Abs(v.NewRequest.To-.3) > .01 {
		t.Errorf("%s", describe(&v))
	}
	if v := Judge([]Container{fresh}, day, DefaultGoal()); v.High != 1.58 {
		t.Errorf("of a container that has just started, high usage is %v", v.High)
	}
}

func describe(v *Verdict) string {
	text := string(v.Finding)
	if v.Finding == Unknown && v.Limit > 0 {
		text += fmt.Sprintf(", %v used", v.Mean)
	}
	if v.Needless {
		text += ", needless"
	}
	if v.Others > 0 {
		text += fmt.Sprintf(", %d other", v.Others)
	}
	colon := ":"
	add := func(format string, args ...any) {
		text += colon + " " + fmt.Sprintf(format, args...)
		colon = ","
	}
	if v.Burst {
		add("burst")
	}
	change := func(name string, c *Change) {
		if c == nil {
			return
		}
		if add("%s %.2g", name, c.To); c.Sure {
			text += " sure"
		}
	}
	change("limit", v.NewLimit)
	change("request", v.NewRequest)
	if v.NewRequest != nil {
		add("frees %.2g", v.FreedCPUs)
	}
	if v.RecordingNeeded {
		add("record")
	}
	if v.OfAll != (Interval{}) {
		text += fmt.Sprintf("; %.2g%% (%.2g to %.3g%%) of all periods, %.2g%% of the timer's", 100*v.OfAll.Value, 100*v.OfAll.Low, 100*v.OfAll.High, 100*v.OfTimer.Value)
	}
	if v.HeldBack[1] > 0 {
		text += fmt.Sprintf("; held back %.2g to %.2g", v.HeldBack[0], v.HeldBack[1])
	}
	return text
}

// TestHeldBack compares the number of CPUs that were held back with a model of the kernel's
// controller, in which bursts of some threads begin at any time. It is right within a tenth, and the
// limit that follows is not throttled.
func TestHeldBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, threads := range []int{1, 2, 4, 8} {
		for _, share := range []float64{.3, .5, .8} { // limit per thread
			for _, length := range []float64{.7, 1.5, 4} { // of a burst, in periods, if nothing throttles it
				limit := share * float64(threads)
				run := func(limit float64) bandwidthtest.Stats {
					g, err := bandwidthtest.NewGroup(bandwidthtest.Kernel(threads), bandwidth.Limits{Quota: time.Duration(limit * float64(period)).Round(time.Microsecond), Period: period})
					if err != nil {
						t.Fatal(err)
					}
					for range 300 {
						for range threads {
							g.Submit(bandwidthtest.Request{Work: time.Duration(length * float64(period)), CPU: bandwidthtest.AnyCPU})
						}
						g.Advance(g.Now() + time.Duration((length/share+3+4*r.Float64())*float64(period)))
					}
					return g.Stats()
				}
				s := run(limit)
				if s.Throttled < 100 { // the bursts fit
					continue
				}
				c := Container{Limit: limit, Period: period}
				for range minSlices {
					c.Slices = append(c.Slices, Slice{Seen: sureSeen, Mean: limit / 10, High: limit / 10, Periods: float64(s.Periods),
						Throttled: float64(s.Throttled), ThrottledSeconds: s.ThrottledTime.Seconds()})
				}
				v := Judge([]Container{c}, sureSeen, Goal{Throttled: 1e-4, Utilisation: .5, Factor: 10})
				if k := float64(threads); v.HeldBack[0] > 1.1*k || v.HeldBack[1] < .9*k {
					t.Errorf("%d threads with a limit of %.2g, bursts of %.1f periods: %.2f to %.2f were held back", threads, limit, length, v.HeldBack[0], v.HeldBack[1])
				}
				if v.NewLimit == nil {
					t.Errorf("%d threads with a limit of %.2g, bursts of %.1f periods: no limit, %+v", threads, limit, length, v)
				} else if s := run(v.NewLimit.To); s.Throttled > s.WallPeriods/100 {
					t.Errorf("%d threads with a limit of %.2g, bursts of %.1f periods: the new limit of %.2g throttles %d of %d periods",
						threads, limit, length, v.NewLimit.To, s.Throttled, s.WallPeriods)
				}
			}
		}
	}
}

// TestRatioCoverage checks that intervals contain the true share nearly as often as they say, for days
// that differ by a third.
func TestRatioCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const share = .05
	for _, days := range []int{3, 7} {
		inside, runs := 0, 4000
		for range runs {
			sums := make([]sum, days)
			for i := range sums {
				sums[i] = sum{throttled: 1000 * share * (1 + r.NormFloat64()/3), periods: 1000}
			}
			if v := ratio(sums, func(s sum) (float64, float64) { return s.throttled, s.periods }); v.Low <= share && share <= v.High {
				inside++
			}
		}
		if got := float64(inside) / float64(runs); got < confidence-.015 || got > confidence+.015 {
			t.Errorf("with %d days, intervals contain the share in %.1f%% of the runs", days, 100*got)
		}
	}
}
