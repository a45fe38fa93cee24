package trace

import "time"

const (
	// mostLayers is more CPUs than any machine has that Pinfold knows.
	mostLayers = 1024
	// always is from which share of a stretch on a layer counts as never idle in it.
	always = .95
)

// recovery puts what was wanted in place of what was used.
type recovery struct {
	segments  [][]Sample
	stretches [][]stretch // of each segment
	runs      [][]run
	usual     []float64 // average occupation of each layer outside of runs
}

func newRecovery(segments [][]Sample, nominal time.Duration) *recovery {
	r := &recovery{segments: segments}
	for _, samples := range segments {
		stretches := stretchesOf(samples, nominal)
		r.stretches = append(r.stretches, stretches)
		r.runs = append(r.runs, throttledRuns(stretches, samples, nominal))
	}
	r.findUsual()
	return r
}

// open returns the number and the length of the runs without an end.
func (r *recovery) open() (n int, length time.Duration) {
	for i, runs := range r.runs {
		for _, run := range runs {
			if !run.open {
				continue
			}
			n++
			for _, s := range r.stretches[i][run.begin:run.end] {
				length += s.length
			}
		}
	}
	return n, length
}

func (r *recovery) findUsual() {
	var length float64
	for i, stretches := range r.stretches {
		at := 0
		for _, run := range append(r.runs[i], run{begin: len(stretches)}) {
			for ; at < run.begin; at++ {
				length += float64(stretches[at].length)
				r.occupy(&stretches[at])
			}
			at = run.end
		}
	}
	for j := range r.usual {
		r.usual[j] /= length
	}
}

func (r *recovery) occupy(s *stretch) {
	cpus := s.cpus()
	for j := 0; j < mostLayers && float64(j) < cpus; j++ {
		if j == len(r.usual) {
			r.usual = append(r.usual, 0)
		}
		r.usual[j] += occupation(cpus, j) * float64(s.length)
	}
}

// occupation returns in which share of the time more than j CPUs ran or waited, where so many
// did on average.
func occupation(cpus float64, j int) float64 { return min(max(cpus-float64(j), 0), 1) }

// move puts usage where it was wanted.
func (r *recovery) move() {
	for i, runs := range r.runs {
		for _, run := range runs {
			stretches := r.stretches[i][run.begin:run.end]
			moveUsage(r.segments[i], stretches, r.outstanding(stretches))
		}
	}
}

// outstanding returns how much was wanted, and not used, by the end of each stretch.
func (r *recovery) outstanding(stretches []stretch) []float64 {
	cpus, most := make([]float64, len(stretches)), 0.0
	for i := range stretches {
		cpus[i] = stretches[i].cpus()
		most = max(most, cpus[i])
	}
	sum := make([]float64, len(stretches))
	for j := 0; j < mostLayers && float64(j) < most; j++ {
		l := layer{stretches: stretches, cpus: cpus, number: j}
		if j < len(r.usual) {
			l.usual = r.usual[j]
		}
		l.addOutstanding(sum)
	}
	return sum
}

// layer is what would run on one more CPU.
type layer struct {
	stretches []stretch
	cpus      []float64 // that ran or waited
	number    int
	usual     float64
}

// occupied returns in which share of a stretch the layer ran or waited. All CPUs that
// waited go on at once when they may: then the layers share what is used.
func (l *layer) occupied(i int) float64 {
	if i > 0 && l.stretches[i].waited == 0 && l.cpus[i] < l.cpus[i-1] {
		return occupation(l.cpus[i-1], l.number) * l.cpus[i] / l.cpus[i-1]
	}
	return occupation(l.cpus[i], l.number)
}

// wantable is the most that can have been wanted of it.
func (l *layer) wantable(i int) float64 { return l.occupied(i) * float64(l.stretches[i].length) }

// used is its part of the usage.
func (l *layer) used(i int) float64 {
	if l.cpus[i] == 0 {
		return 0
	}
	return float64(l.stretches[i].usage) * l.occupied(i) / l.cpus[i]
}

// floor is what is wanted of it all the time.
func (l *layer) floor(i int) float64 {
	return min(l.usual, l.occupied(i)) * float64(l.stretches[i].length)
}

// addOutstanding adds what is outstanding in this layer.
func (l *layer) addOutstanding(sum []float64) {
	for i := 0; i < len(l.stretches); {
		if l.occupied(i) == 0 || l.stretches[i].waited == 0 {
			i++
			continue
		}
		end := l.endOfRow(i)
		l.moveEarlier(i, end, sum)
		i = end
	}
}

// endOfRow returns the end of the row that begins with a stretch: it ends with one in which the
// layer was idle for some time, or in which nobody waited.
func (l *layer) endOfRow(begin int) int {
	for i := begin + 1; i < len(l.stretches); i++ {
		o := l.occupied(i)
		if o == 0 {
			return i
		}
		if o < always || l.stretches[i].waited == 0 {
			return i + 1
		}
	}
	return len(l.stretches)
}

// moveEarlier moves usage of a row to its beginning, except for what is usual everywhere.
func (l *layer) moveEarlier(begin, end int, sum []float64) {
	var left, reserved, outstanding float64
	for i := begin; i < end; i++ {
		left += l.used(i)
		reserved += l.floor(i)
	}
	for i := begin; i < end; i++ {
		used := l.used(i)
		reserved -= l.floor(i)
		// What was used and was not outstanding has been wanted now.
		wanted := min(l.wantable(i), max(left-reserved, used-outstanding))
		left -= wanted
		outstanding += wanted - used
		sum[i] += outstanding
	}
}

// moveUsage moves usage between stretches such that so much is outstanding at the end of
// each; nothing is at the end of the last.
func moveUsage(samples []Sample, stretches []stretch, outstanding []float64) {
	outstanding[len(stretches)-1] = 0
	before := time.Duration(0)
	for i := range stretches {
		s := &stretches[i]
		after := max(time.Duration(outstanding[i]), before-s.usage)
		if more := after - before; more > 0 {
			raise(samples[s.begin:s.end], more)
		} else {
			lower(samples[s.begin:s.end], -more)
		}
		before = after
	}
}

// lower takes usage away where it is earliest, as what was outstanding ran first.
func lower(samples []Sample, less time.Duration) {
	for i := range samples {
		part := min(less, samples[i].Usage)
		samples[i].Usage -= part
		less -= part
	}
}

// raise adds usage where it is latest, since CPUs wait at the end of a period: up to the most CPUs
// that ran in a sample, or one, and then everywhere alike.
func raise(samples []Sample, more time.Duration) {
	peak, length := 1.0, time.Duration(0)
	for i := range samples {
		peak = max(peak, samples[i].CPUs())
		length += samples[i].Interval
	}
	for i := len(samples) - 1; i >= 0; i-- {
		part := min(more, max(0, time.Duration(peak*float64(samples[i].Interval))-samples[i].Usage))
		samples[i].Usage += part
		more -= part
	}
	rest := more
	for i := range samples {
		part := min(more, time.Duration(float64(rest)*float64(samples[i].Interval)/float64(length)))
		samples[i].Usage += part
		more -= part
	}
	samples[len(samples)-1].Usage += more
}
