package trace

import "time"

// Begin returns the start of the sample, relative to the start of the recording.
func (s *Sample) Begin() time.Duration { return s.At - s.Interval }

// WasThrottled reports whether the group was throttled at any time in the sample. Its usage may
// then be less than its demand.
func (s *Sample) WasThrottled() bool { return s.Throttled > 0 || s.ThrottledTime > 0 }

// CPUs returns the sample's usage in CPUs.
func (s *Sample) CPUs() float64 { return float64(s.Usage) / float64(s.Interval) }

// Segments returns the runs of samples without a gap, as subslices of the series' samples. An end
// and a beginning that differ by less than one hundredth of the nominal interval count as equal,
// because other programs may have rounded them.
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
