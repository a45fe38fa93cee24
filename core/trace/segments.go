package trace

import "time"

// Begin returns when the sample began, since the recording did.
func (s *Sample) Begin() time.Duration { return s.At - s.Interval }

// WasThrottled reports whether the group was throttled at some time in the sample, so
// that its usage may be less than its demand.
func (s *Sample) WasThrottled() bool { return s.Throttled > 0 || s.ThrottledTime > 0 }

// CPUs returns the sample's usage as a number of CPUs.
func (s *Sample) CPUs() float64 { return float64(s.Usage) / float64(s.Interval) }

// Segments returns the runs of samples without a gap, as parts of the series' own
// samples. Ends and beginnings that differ by less than a hundredth of the nominal interval
// are the same moment: files of others may have rounded them.
func (s *Series) Segments(nominal time.Duration) [][]Sample {
	var runs [][]Sample
	begin := 0
	for i := 1; i < len(s.Samples); i++ {
		gap := s.Samples[i].Begin() - s.Samples[i-1].At
		if gap.Abs() > nominal/100 {
			runs = append(runs, s.Samples[begin:i])
			begin = i
		}
	}
	if begin < len(s.Samples) {
		runs = append(runs, s.Samples[begin:])
	}
	return runs
}
