package needed

import (
	"slices"
	"time"

	"pinfold.dev/pinfold/core/trace"
)

// Period is an enforcement period of a container.
type Period struct {
	CPUs float64 // that it wanted on average
	// Limit is the smallest limit in CPUs that would not have throttled it, if all periods had it, with a burst
	// of the same size: up to 9% more, because it is the upper bound of a bucket of [Histogram]. It is 0 if less
	// than a hundredth of a CPU suffices.
	Limit float64
}

const (
	// lowest and highest are the buckets of the limits that are tried, of 0.01 and 1024 CPUs.
	lowest, highest = -53, 80
	limits          = highest - lowest + 1
	// calm is after how many samples without throttling a throttled time has ended: what was left has been done.
	calm = 3
	// mostHeld is how many samples of a throttled time are held at most.
	mostHeld = 600
	// mostPeriods is how many periods a late sample may have. A longer one, or one that is so long by plan, says
	// nothing of single periods.
	mostPeriods = 3
)

// Meter finds the periods of one container. Its zero value is that of one that has been idle.
type Meter struct {
	held  []trace.Sample // the last one, or all since throttling began and the one before
	calm  int            // how many of the last ones were not throttled
	cut   bool           // one of them was throttled
	debts [limits]float64
	// What is known of the period that has begun: its time, and the CPU time in it. Samples are not exactly as long
	// as periods.
	begun, used time.Duration
}

// Add adds the next sample, and calls observe with the periods that are known now, in the order of time.
func (m *Meter) Add(s *trace.Sample, observe func(Period)) {
	if n := len(m.held); n > 0 && (s.Begin()-m.held[n-1].At).Abs() > s.Interval/4 { // samples are missing
		m.end(0, observe)
		m.forget()
	}
	m.held = append(m.held, *s)
	m.calm++
	if s.WasThrottled() {
		m.calm, m.cut = 0, true
	}
	if !m.cut || m.calm >= calm || len(m.held) >= mostHeld {
		m.end(1, observe)
	}
}

// forget forgets what was left to do: it is not known what was done since.
func (m *Meter) forget() { m.debts, m.begun, m.used = [limits]float64{}, 0, 0 }

// end ends what is held but for some samples.
func (m *Meter) end(keep int, observe func(Period)) {
	if m.cut {
		longest := time.Duration(0)
		for i := range m.held {
			longest = max(longest, m.held[i].Interval)
		}
		trace.Recover(m.held, longest)
	}
	n := max(0, len(m.held)-keep)
	for i := range m.held[:n] {
		m.add(&m.held[i], observe)
	}
	m.held = slices.Delete(m.held, 0, n)
	m.calm, m.cut = 0, false
	if cap(m.held) > 4*calm {
		m.held = slices.Clone(m.held)
	}
}

// add divides a sample into periods.
func (m *Meter) add(s *trace.Sample, observe func(Period)) {
	period := trace.PeriodOf(s.Limits)
	if s.Interval > mostPeriods*period || s.Interval > period+period/2 && !s.Late {
		m.forget()
		return
	}
	m.begun = min(m.begun, period-1) // the period may have become shorter
	for left := s.Interval; left > 0; {
		part := min(left, period-m.begun)
		m.begun, left = m.begun+part, left-part
		m.used += time.Duration(s.CPUs() * float64(part))
		if m.begun == period {
			cpus := float64(m.used) / float64(period)
			m.begun, m.used = 0, 0
			observe(Period{cpus, m.next(cpus)})
		}
	}
}

// next returns the limit that a period needs.
func (m *Meter) next(cpus float64) (need float64) {
	for i := range m.debts {
		limit := upper(lowest + i)
		if m.debts[i] == 0 && cpus <= limit { // so do all larger ones
			break
		}
		if m.debts[i] = max(0, m.debts[i]+cpus-limit); m.debts[i] > limit {
			need = upper(min(lowest+i+1, highest))
		}
	}
	return need
}
