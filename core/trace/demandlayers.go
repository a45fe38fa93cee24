package trace

import "time"

const (
	// maxLayers is the largest number of CPUs that Pinfold supports (core/cpuset).
	maxLayers = 1024
	// neverIdle is the occupied share of a segment from which a layer counts as never idle in it.
	neverIdle = .95
)

// recovery estimates demand from samples. These are cut into segments; throttled ones form runs.
// The CPU time used in a run equals the demand in it, but the demand came earlier. So the sum over
// a run is preserved to the nanosecond, and usage moves to earlier segments of the run, within
// these bounds:
//
//   - A CPU that waited would have run for no longer than it waited. So the demand of a segment is
//     at most its usage plus its waiting time, where waiting time is throttled time summed over
//     CPUs.
//   - A CPU that was idle for a moment had no outstanding work. Usage plus waiting time, divided by
//     the length of a segment, is the number of CPUs that ran or waited, say 3.4: three did all the
//     time, and a fourth for two fifths of it. The run is viewed as stacked layers of one CPU each.
//     Usage moves only within its layer, and only within a sequence of segments in which that layer
//     was never idle, plus the segment that follows. There it moves as early as possible. This
//     separates a few long-running threads from many consecutive requests.
//   - Normal load continues: in each layer, the average usage outside of runs is not moved.
type recovery struct {
	sequences [][]Sample  // without gaps
	segments  [][]segment // of each sequence
	runs      [][]run     // of each sequence
	usual     []float64   // average occupation of each layer outside of runs
}

// Recover replaces the usage of samples without gaps by demand, as [Series.Demand] estimates it. nominal is
// the longest interval of them.
func Recover(samples []Sample, nominal time.Duration) {
	newRecovery([][]Sample{samples}, nominal).move()
}

func newRecovery(sequences [][]Sample, nominal time.Duration) *recovery {
	r := &recovery{sequences: sequences}
	for _, samples := range sequences {
		segments := segmentsOf(samples, nominal)
		r.segments = append(r.segments, segments)
		r.runs = append(r.runs, throttledRuns(segments, samples, nominal))
	}
	r.findUsual()
	return r
}

// open returns the number and the total length of the open runs.
func (r *recovery) open() (n int, length time.Duration) {
	for i, runs := range r.runs {
		for _, run := range runs {
			if !run.open {
				continue
			}
			n++
			for _, s := range r.segments[i][run.begin:run.end] {
				length += s.length
			}
		}
	}
	return n, length
}

func (r *recovery) findUsual() {
	var length float64
	for i, segments := range r.segments {
		at := 0
		for _, run := range append(r.runs[i], run{begin: len(segments)}) {
			for ; at < run.begin; at++ {
				length += float64(segments[at].length)
				r.occupy(&segments[at])
			}
			at = run.end
		}
	}
	for j := range r.usual {
		r.usual[j] /= length
	}
}

func (r *recovery) occupy(s *segment) {
	cpus := s.cpus()
	for j := 0; j < maxLayers && float64(j) < cpus; j++ {
		if j == len(r.usual) {
			r.usual = append(r.usual, 0)
		}
		r.usual[j] += occupation(cpus, j) * float64(s.length)
	}
}

// occupation returns the share of the time in which more than j CPUs ran or waited, given the
// average number that did.
func occupation(cpus float64, j int) float64 { return min(max(cpus-float64(j), 0), 1) }

// move moves usage to where the demand was.
func (r *recovery) move() {
	for i, runs := range r.runs {
		for _, run := range runs {
			segments := r.segments[i][run.begin:run.end]
			moveUsage(r.sequences[i], segments, r.outstanding(segments))
		}
	}
}

// outstanding returns the unserved demand at the end of each segment, in nanoseconds.
func (r *recovery) outstanding(segments []segment) []float64 {
	cpus, most := make([]float64, len(segments)), 0.0
	for i := range segments {
		cpus[i] = segments[i].cpus()
		most = max(most, cpus[i])
	}
	sum := make([]float64, len(segments))
	for j := 0; j < maxLayers && float64(j) < most; j++ {
		l := layer{segments: segments, cpus: cpus, number: j}
		if j < len(r.usual) {
			l.usual = r.usual[j]
		}
		l.addOutstanding(sum)
	}
	return sum
}

// layer is the part of a run that one more CPU would have executed.
type layer struct {
	segments []segment
	cpus     []float64 // that ran or waited, by segment
	number   int       // from 0
	usual    float64
}

// occupied returns the share of a segment in which the layer ran or waited. All CPUs that waited
// continue together when throttling ends: then the layers share the usage.
func (l *layer) occupied(i int) float64 {
	if i > 0 && l.segments[i].waited == 0 && l.cpus[i] < l.cpus[i-1] {
		return occupation(l.cpus[i-1], l.number) * l.cpus[i] / l.cpus[i-1]
	}
	return occupation(l.cpus[i], l.number)
}

// maxDemand returns the upper bound of the layer's demand in a segment.
func (l *layer) maxDemand(i int) float64 { return l.occupied(i) * float64(l.segments[i].length) }

// used returns the layer's part of the usage of a segment.
func (l *layer) used(i int) float64 {
	if l.cpus[i] == 0 {
		return 0
	}
	return float64(l.segments[i].usage) * l.occupied(i) / l.cpus[i]
}

// floor returns the layer's normal load in a segment, which is not moved.
func (l *layer) floor(i int) float64 {
	return min(l.usual, l.occupied(i)) * float64(l.segments[i].length)
}

// addOutstanding adds the outstanding demand of this layer to sum.
func (l *layer) addOutstanding(sum []float64) {
	for i := 0; i < len(l.segments); {
		if l.occupied(i) == 0 || l.segments[i].waited == 0 {
			i++
			continue
		}
		end := l.endOfSequence(i)
		l.moveEarlier(i, end, sum)
		i = end
	}
}

// endOfSequence returns the end of the sequence of segments that begins at a segment. The last is
// one in which the layer was idle for a time, or in which no CPU waited.
func (l *layer) endOfSequence(begin int) int {
	for i := begin + 1; i < len(l.segments); i++ {
		o := l.occupied(i)
		if o == 0 {
			return i
		}
		if o < neverIdle || l.segments[i].waited == 0 {
			return i + 1
		}
	}
	return len(l.segments)
}

// moveEarlier moves the usage of a sequence as early as possible, except for the normal load.
func (l *layer) moveEarlier(begin, end int, sum []float64) {
	var remaining, reserved, outstanding float64
	for i := begin; i < end; i++ {
		remaining += l.used(i)
		reserved += l.floor(i)
	}
	for i := begin; i < end; i++ {
		used := l.used(i)
		reserved -= l.floor(i)
		// Usage beyond what was outstanding is demand of this segment.
		wanted := min(l.maxDemand(i), max(remaining-reserved, used-outstanding))
		remaining -= wanted
		outstanding += wanted - used
		sum[i] += outstanding
	}
}

// moveUsage moves usage between segments so that the given amounts are outstanding at their ends,
// and nothing at the end of the last.
func moveUsage(samples []Sample, segments []segment, outstanding []float64) {
	outstanding[len(segments)-1] = 0
	before := time.Duration(0)
	for i := range segments {
		s := &segments[i]
		after := max(time.Duration(outstanding[i]), before-s.usage)
		if more := after - before; more > 0 {
			raise(samples[s.begin:s.end], more)
		} else {
			lower(samples[s.begin:s.end], -more)
		}
		before = after
	}
}

// lower removes usage from the earliest samples, because outstanding work ran first.
func lower(samples []Sample, less time.Duration) {
	for i := range samples {
		part := min(less, samples[i].Usage)
		samples[i].Usage -= part
		less -= part
	}
}

// raise adds usage to the latest samples, because CPUs wait at the end of a period. It fills
// samples up to the highest number of CPUs in any of them, at least one, and distributes the rest
// evenly.
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
