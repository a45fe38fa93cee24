package bandwidthtest

import (
	"slices"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// slow is the reference implementation of Group: it steps through each nanosecond and checks
// everything in each. Tests use tiny periods.
type slow struct {
	m           Machine
	l           bandwidth.Limits
	now         time.Duration
	runtime     time.Duration
	snap        time.Duration
	timer, idle bool
	expires     time.Duration // when the timer expires, or stopped
	wall        time.Duration // when the wall-clock period ends
	slack       time.Duration // 0 when not set
	cpus        []slowCPU
	throttled   []int
	done        []Done
	nextID      int
	stats       Stats
}

type slowCPU struct {
	queue     []request
	local     time.Duration
	ran       time.Duration
	throttled bool
	since     time.Duration
}

func newSlow(m Machine, l bandwidth.Limits) *slow {
	s := &slow{m: m, l: l, runtime: max(l.Quota, 0) + l.Burst, idle: true, cpus: make([]slowCPU, m.CPUs)}
	s.snap = s.runtime
	s.expires = m.PeriodPhase
	if s.expires == 0 {
		s.expires = l.Period
	}
	s.wall = s.expires
	return s
}

func (s *slow) limited() bool { return s.l.Quota != bandwidth.Unlimited }

func (s *slow) advance(until time.Duration) []Done {
	s.done = nil
	s.look()
	s.dryUp()
	for s.now < until {
		s.runOne()
		s.look()
		s.dryUp()
	}
	return s.done
}

// dryUp throttles the CPUs of a fluid machine for which the bucket has not even a nanosecond.
func (s *slow) dryUp() {
	if s.m.Slice > 0 || !s.limited() {
		return
	}
	left := s.runtime
	for i, c := range s.cpus {
		if c.throttled || len(c.queue) == 0 {
			continue
		}
		s.start()
		if left == 0 {
			s.throttle(i)
		} else {
			left--
		}
	}
}

// runOne lets every CPU run for a nanosecond. In a fluid machine each takes it from the bucket now.
func (s *slow) runOne() {
	for i := range s.cpus {
		c := &s.cpus[i]
		if len(c.queue) == 0 || c.throttled {
			continue
		}
		if s.limited() && s.m.Slice == 0 {
			s.runtime--
			s.idle = false
		}
		if s.limited() && s.m.Slice > 0 {
			c.local--
		}
		c.queue[0].left--
		c.ran++
		s.stats.Usage++
	}
	s.now++
}

func (s *slow) look() {
	for i := range s.cpus {
		c := &s.cpus[i]
		if !c.throttled && len(c.queue) > 0 && c.queue[0].left == 0 {
			s.done = append(s.done, Done{ID: c.queue[0].id, At: s.now})
			c.queue, c.ran = slices.Delete(c.queue, 0, 1), 0
			s.account(i)
			s.balance(i)
			if len(c.queue) == 0 && !c.throttled {
				s.giveBack(c)
			}
		}
	}
	if s.timer && s.expires == s.now {
		s.tick()
	}
	s.countWall()
	if s.slack > 0 && s.slack == s.now {
		s.slack = 0
		if s.expires-s.now >= s.m.Margin && s.limited() && s.runtime > s.m.Slice {
			s.distribute()
		}
	}
	for i := range s.cpus {
		c := &s.cpus[i]
		if c.throttled || len(c.queue) == 0 {
			continue
		}
		if s.m.Tick == 0 || (s.now-s.m.TickPhase)%s.m.Tick == 0 {
			s.account(i)
		}
		if !c.throttled && s.m.Turn > 0 && len(c.queue) > 1 && c.ran >= s.m.Turn {
			c.queue, c.ran = append(slices.Clone(c.queue[1:]), c.queue[0]), 0
			s.account(i)
		}
	}
}

func (s *slow) tick() {
	s.stats.WallPeriods++
	s.expires += s.l.Period
	s.wall = s.expires
	if !s.limited() {
		s.timer = false
		return
	}
	s.stats.Periods++
	s.refill()
	if len(s.throttled) > 0 {
		s.stats.Throttled++
		s.distribute()
		s.idle = false
		return
	}
	s.timer = !s.idle
	s.idle = true
}

func (s *slow) refill() {
	if !s.limited() {
		return
	}
	s.runtime += s.l.Quota
	if s.snap > s.runtime {
		s.stats.Bursts++
		s.stats.BurstTime += s.snap - s.runtime
	}
	s.runtime = min(s.runtime, s.l.Quota+s.l.Burst)
	s.snap = s.runtime
}

func (s *slow) distribute() {
	waiting := s.throttled
	s.throttled = nil
	for _, i := range waiting {
		c := &s.cpus[i]
		for c.local <= 0 && s.runtime > 0 {
			c.local++
			s.runtime--
		}
		if c.local <= 0 {
			s.throttled = append(s.throttled, i)
		} else {
			s.unthrottle(i)
		}
	}
	if s.m.Slice == 0 { // a fluid CPU takes time when it runs
		for i := range s.cpus {
			s.runtime += s.cpus[i].local
			s.cpus[i].local = 0
		}
	}
}

func (s *slow) start() {
	if s.timer {
		return
	}
	s.countWall()
	s.timer = true
	for s.expires <= s.now {
		s.expires += s.l.Period
	}
	s.wall = s.expires
}

func (s *slow) countWall() {
	for !s.timer && s.wall <= s.now {
		s.stats.WallPeriods++
		s.wall += s.l.Period
	}
}

func (s *slow) account(i int) {
	c := &s.cpus[i]
	if s.m.Slice == 0 || !s.limited() || c.throttled || c.local > 0 {
		return
	}
	s.start()
	for c.local < s.m.Slice && s.runtime > 0 {
		c.local++
		s.runtime--
		s.idle = false
	}
	if c.local <= 0 {
		s.throttle(i)
	}
}

func (s *slow) throttle(i int) {
	s.cpus[i].throttled, s.cpus[i].since = true, s.now
	s.throttled = append(s.throttled, i)
}

func (s *slow) unthrottle(i int) {
	c := &s.cpus[i]
	c.throttled, c.ran = false, 0
	if len(c.queue) > 0 {
		s.stats.ThrottledTime += s.now - c.since
	}
	s.balance(i)
}

func (s *slow) giveBack(c *slowCPU) {
	if s.m.Slice == 0 || !s.limited() || c.local <= s.m.Keep {
		return
	}
	s.runtime += c.local - s.m.Keep
	c.local = s.m.Keep
	soon := s.expires-s.now < s.m.Slack+s.m.Margin
	if s.runtime > s.m.Slice && len(s.throttled) > 0 && s.m.Slack > 0 && s.slack == 0 && !soon {
		s.slack = s.now + s.m.Slack
	}
}

func (s *slow) balance(i int) {
	if c := s.cpus[i]; c.throttled || len(c.queue) > 0 {
		return
	}
	longest := -1
	for j, c := range s.cpus {
		if !c.throttled && s.waiting(j) > 0 && (longest < 0 || len(c.queue) > len(s.cpus[longest].queue)) {
			longest = j
		}
	}
	if longest < 0 {
		return
	}
	k := s.waiting(longest)
	r := s.cpus[longest].queue[k]
	s.cpus[longest].queue = slices.Delete(s.cpus[longest].queue, k, k+1)
	s.enqueue(i, r)
}

// waiting returns the index of the first request that may move to another CPU, or 0.
func (s *slow) waiting(i int) int {
	for k, r := range s.cpus[i].queue {
		if k > 0 && !r.pinned {
			return k
		}
	}
	return 0
}

func (s *slow) enqueue(i int, r request) {
	c := &s.cpus[i]
	c.queue = append(c.queue, r)
	if len(c.queue) == 1 {
		c.since = s.now
	}
	s.account(i)
}

func (s *slow) submit(r Request) {
	i := r.CPU
	if i == AnyCPU {
		i = 0
		for j := range s.cpus {
			if len(s.cpus[j].queue) < len(s.cpus[i].queue) {
				i = j
			}
		}
	}
	s.enqueue(i, request{id: s.nextID, left: r.Work, pinned: r.CPU != AnyCPU})
	s.nextID++
	s.dryUp()
}

func (s *slow) write(l bandwidth.Limits) {
	s.countWall()
	s.l = l
	s.refill()
	if s.limited() {
		s.start()
	}
	waiting := s.throttled
	s.throttled = nil
	for i := range s.cpus {
		s.cpus[i].local = min(1, s.m.Slice)
	}
	for _, i := range waiting {
		s.unthrottle(i)
	}
	s.dryUp()
}
