package trace

import (
	"math"
	"slices"
	"time"
)

// Bounds are the ends of what a group may have wanted; see [Series.Bounds].
type Bounds struct {
	// Least and Most are Phases, as of a [Demand].
	Least, Most [][]float64
	// Waited is the time for which a thread waited for a CPU that others used, as a part of the CPU
	// time of the group; with a trace or without PSI, the sum over its threads.
	Waited float64
}

// Bounds returns what the group wanted at least and at most: it was held back where it was
// throttled or waited for CPUs, and that work was wanted either when it was done, or before.
//
// Least is the usage. Most is the usage as early as it can have been wanted: at the beginning of the
// time without a pause in which threads ran, waited or were throttled. Without waits, the usage.
// More CPUs than the group ever used or waited for at a time are not wanted.
//
// With a trace, Most is the usage earlier by the time for which threads were throttled or waited.
//
// In the model of TestBusyMachine, the limit that throttles 1% of the periods lies between those for
// Least and Most, whatever the group waited.
func (s *Series) Bounds(nominal, period time.Duration) Bounds {
	least, most := Series{Samples: s.Samples}, Series{Samples: slices.Clone(s.Samples)}
	readings := s.readings()
	waited := s.queued(readings)
	if x := s.Exact; x != nil && x.enough() {
		least.Samples = slices.Clone(s.Samples)
		x.served.move(least.Samples)
		x.unhindered.move(most.Samples)
		delay(most.Samples, s.mostCPUs(nil))
		if traced := ratio(float64(x.Waiting), float64(x.Running)); readings == nil || traced < waited {
			waited = traced // both have waits of threads for each other, but not for the same ones
		}
	} else {
		cpus := s.mostCPUs(readings)
		for i := range most.Samples {
			most.Samples[i].Waited = 0
		}
		for i := range readings {
			readings[i].spread(most.Samples, cpus)
		}
		for _, sequence := range most.Contiguous(nominal) {
			hasten(sequence, cpus)
		}
	}
	return Bounds{phasesOf(least.Contiguous(nominal), period, nominal), phasesOf(most.Contiguous(nominal), period, nominal), waited}
}

// MaxWaited is the largest part of the CPU time used for which a group waited for CPUs and is still
// taken to have got them when it wanted them.
const MaxWaited = .1

// Wanted returns the demand that answers about a group are about, and for how long it waited: what
// [Series.Demand] estimates or, if it waited for more than [MaxWaited], the most that it may have
// wanted. The errors are those of Demand.
func (s *Series) Wanted(nominal, period time.Duration) (d Demand, waited float64, err error) {
	if d, err = s.Demand(nominal, period); err != nil {
		return d, 0, err
	}
	b := s.Bounds(nominal, period)
	if b.Waited > MaxWaited {
		d.CPUs, d.Phases = b.Most[0], b.Most
	}
	return d, b.Waited, nil
}

// mostCPUs returns on how many CPUs the group wanted to run at a time: on how many it ran in a sample, was
// throttled between two readings, or ran and waited in a tenth of the readings. Samples may show a
// tick too much, and single readings more waits than there were, since waits are counted when they end.
func (s *Series) mostCPUs(readings []reading) float64 {
	most := 1.
	for i := range s.Samples {
		most = max(most, math.Round(s.Samples[i].CPUs()))
	}
	var wanted []float64
	for _, r := range readings {
		length, used := float64(s.Samples[r.end-1].At-s.Samples[r.begin].Begin()), 0.
		for i := r.begin; i < r.end; i++ {
			used += float64(s.Samples[i].Usage)
		}
		most = max(most, math.Round(ratio(r.throttled, length)))
		wanted = append(wanted, ratio(used+max(r.waited, r.throttled), length))
	}
	if slices.Sort(wanted); len(wanted) > 0 {
		most = max(most, math.Round(wanted[len(wanted)*9/10]))
	}
	return most
}

// reading is the time, in nanoseconds, for which threads were held back in some samples.
type reading struct {
	begin, end int
	throttled  float64 // summed over CPUs; all since the reading before, when begin may be later
	waited     float64 // [Sample.Waited]
	queued     float64 // without throttled time
}

// readings returns all readings of waits, nil if they are unknown. They are not recorded in each
// sample, so a reading is about the samples since the one before, at most as many as between any two
// readings.
//
// [Sample.Waited] has throttled time, too: threads that are throttled stay runnable for the kernel,
// so their run delays and PSI go on. Measured on Linux 6.18: a thread under a limit of 0.4 CPUs,
// beside six others, ran for 38% of the time and waited for 62%, of which 20% was throttled_time.
// What is left without that is less than the wait if several threads were throttled, and PSI counts
// only one. Throttled time is counted when it ends, so a reading's may have been waits of the
// reading before.
func (s *Series) readings() (all []reading) {
	begin, every, throttled := 0, len(s.Samples), 0.
	for i := range s.Samples {
		x := &s.Samples[i]
		throttled += float64(x.ThrottledTime)
		if x.Waited == 0 {
			continue
		}
		if len(all) > 0 {
			every = min(every, i+1-begin)
		}
		all = append(all, reading{begin: begin, end: i + 1, throttled: throttled, waited: float64(x.Waited)})
		begin, throttled = i+1, 0
	}
	later := 0.
	for i := range slices.Backward(all) {
		r := &all[i]
		r.begin = max(r.begin, r.end-every)
		rest := r.waited - r.throttled - later
		r.queued, later = max(0, rest), min(r.throttled, max(0, -rest))
	}
	return all
}

// queued returns for how long a thread waited behind others, as a part of the usage.
func (s *Series) queued(readings []reading) float64 {
	queued, used := 0., 0.
	for i := range s.Samples {
		used += float64(s.Samples[i].Usage)
	}
	for i := range readings {
		queued += readings[i].queued
	}
	return ratio(queued, used)
}

// hasten moves usage to the beginning of the time without a pause in which threads ran (Usage) or
// were held back (Waited), and uses no more than the given CPUs. A sample is a pause if Usage and
// Waited together are less than half of it.
func hasten(samples []Sample, cpus float64) {
	for begin := 0; begin < len(samples); begin++ {
		end, work, held := begin, time.Duration(0), time.Duration(0)
		for ; end < len(samples) && samples[end].Usage+samples[end].Waited >= samples[end].Interval/2; end++ {
			work += samples[end].Usage
			held += samples[end].Waited
		}
		if end == begin || held == 0 {
			begin = max(begin, end-1)
			continue
		}
		if end < len(samples) { // in which it ended
			work += samples[end].Usage
			end++
		}
		for i := begin; i < end; i++ {
			x := &samples[i]
			x.Usage = min(work, time.Duration(cpus*float64(x.Interval)))
			work -= x.Usage
		}
		samples[end-1].Usage += work
		begin = end - 1
	}
}

// spread makes Waited of the samples the time for which they were held back, evenly where less than
// the CPUs were used.
func (r *reading) spread(all []Sample, cpus float64) {
	samples := all[r.begin:r.end]
	room, sum := make([]float64, len(samples)), 0.
	for i := range samples {
		room[i] = min(max(0, cpus*float64(samples[i].Interval)-float64(samples[i].Usage)), float64(MaxTime))
		sum += room[i]
	}
	for i := range samples {
		samples[i].Waited = time.Duration(ratio(min(max(r.waited, r.throttled), sum), sum) * room[i])
	}
}

// delay moves usage of more than most CPUs to the next samples: threads of the group waited for each
// other.
func delay(samples []Sample, most float64) {
	rest := time.Duration(0)
	for i := range samples {
		rest += samples[i].Usage
		samples[i].Usage = min(rest, time.Duration(most*float64(samples[i].Interval)))
		rest -= samples[i].Usage
	}
}
