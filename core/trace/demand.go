package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Errors of Series.Demand that callers branch on.
var (
	// ErrTooCoarse means that samples are longer than the period, so that the demand of single
	// periods is unknown.
	ErrTooCoarse = errors.New("samples are longer than the period")
	// ErrTooShort means that the recording has no complete period.
	ErrTooShort = errors.New("no whole period was recorded")
)

// Demand is the demand of a group in each period; see [Series.Demand].
type Demand struct {
	Period time.Duration
	CPUs   []float64 // demand in each period, in the order of time; at least one
	// Phases are the CPUs of periods that begin at other samples: Phases[0] is CPUs, and the others
	// begin later by equal parts of a period, as far as the samples show them.
	Phases    [][]float64
	Averaged  float64 // share of the periods whose value is an average over several (late samples)
	Throttled float64 // share of the time in throttled samples
	Moved     float64 // share of the usage that was moved to an earlier period
	Exact     bool    // moved to when threads wanted to run, not to where an estimate puts it
	Open      int     // number of open runs (see run.open), whose demand is unknown
	OpenShare float64 // share of the time in those runs
}

// InQuotas returns the Phases in multiples of a quota in CPUs.
func (d *Demand) InQuotas(quota float64) [][]float64 {
	var phases [][]float64
	for _, cpus := range d.Phases {
		cpus = slices.Clone(cpus)
		for i := range cpus {
			cpus[i] /= quota
		}
		phases = append(phases, cpus)
	}
	return phases
}

// Mean returns the mean of all phases, in CPUs.
func (d *Demand) Mean() float64 {
	sum, n := 0.0, 0
	for _, cpus := range d.Phases {
		for _, x := range cpus {
			sum += x
		}
		n += len(cpus)
	}
	return sum / float64(n)
}

// RecordCommand returns the command that records the group at the interval of its enforcement
// period.
func (s *Series) RecordCommand() string {
	group := ShellWord(s.Group)
	if pod := strings.Split(s.Name, "/"); len(pod) == 3 { // NAMESPACE/POD/CONTAINER
		group = "--pod " + pod[0] + "/" + pod[1]
	}
	return fmt.Sprintf("pinfold sample %s --duration 10m -o FILE.parquet", group)
}

// ShellWord quotes a word if a shell would interpret it.
func ShellWord(word string) string {
	special := func(r rune) bool {
		return r >= unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-+./,:=@%", r)
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Demand returns the demand in CPUs for each bin of one period, which must be > 0. It is PerPeriod
// of the series after correction of throttled runs: exactly if Exact is known, and otherwise by
// estimate. Without throttling, demand equals usage. The errors are ErrTooCoarse and ErrTooShort.
//
// The accuracy of the estimate was measured by running the same requests with and without a limit
// in the model of package bandwidthtest, with batches and single requests of 5 to 300 ms, and
// samples of 10 to 100 ms at any phase (TestRecoveredDemand, testdata/recovered.txt). The limit
// that throttles 2% of the periods comes out 35% too low from usage. From recovered demand it is
// off by 12%, mostly (10%) too high, if the quota was 2 or 3 times the average. At 1.3 times the
// average, when most periods are throttled, it is off by 52%, almost always too high.
func (s *Series) Demand(nominal, period time.Duration) (Demand, error) {
	if nominal > period {
		return Demand{}, fmt.Errorf("demand per %v of samples of %v: %w; record with: %s", period, nominal, ErrTooCoarse, s.RecordCommand())
	}
	demand := Series{Samples: slices.Clone(s.Samples)}
	sequences := demand.Contiguous(nominal)
	openRuns, open, exact := 0, time.Duration(0), s.Exact != nil && s.Exact.enough()
	if exact {
		openRuns, open = s.Exact.unknown()
		s.Exact.served.move(demand.Samples)
	} else {
		r := newRecovery(sequences, nominal)
		openRuns, open = r.open()
		r.move()
	}
	bins := binsOf(sequences, period, nominal)
	averaged := averagedPeriods(bins, period)
	if averaged > maxAveraged && averaged > averagedTimes*len(bins) {
		return Demand{}, fmt.Errorf("demand per %v: %d of the periods lie in %d samples or fewer, late ones: %w; record with less load on the machine",
			period, averaged, len(bins), ErrTooCoarse)
	}
	phases := phasesOf(sequences, period, nominal)
	if len(phases) == 0 {
		return Demand{}, fmt.Errorf("demand per %v: %w; record for longer", period, ErrTooShort)
	}
	var whole, throttled time.Duration
	for i := range s.Samples {
		whole += s.Samples[i].Interval
		if s.Samples[i].WasThrottled() {
			throttled += s.Samples[i].Interval
		}
	}
	return Demand{
		Period:    period,
		CPUs:      phases[0],
		Phases:    phases,
		Averaged:  float64(averaged) / float64(len(phases[0])),
		Throttled: ratio(float64(throttled), float64(whole)),
		Moved:     moved(binsOf(s.Contiguous(nominal), period, nominal), bins),
		Exact:     exact,
		Open:      openRuns,
		OpenShare: ratio(float64(open), float64(whole)),
	}, nil
}

// maxPhases bounds the phases of a period.
const maxPhases = 10

// phasesOf returns the CPUs per period for periods that begin at the first sample and at later
// ones.
func phasesOf(sequences [][]Sample, period, nominal time.Duration) (phases [][]float64) {
	samples := int(max(1, period/max(1, nominal)))
	n := min(samples, maxPhases)
	for i := range n {
		cpus := perPeriod(binsOf(sequences, period, nominal), period)
		if len(cpus) == 0 {
			break
		}
		phases = append(phases, cpus)
		later := (i+1)*samples/n - i*samples/n
		sequences = slices.Clone(sequences)
		for j, s := range sequences {
			sequences[j] = s[min(later, len(s)):]
		}
	}
	return phases
}

// moved returns the share of the usage that is now in an earlier bin.
func moved(before, after []bin) float64 {
	var more, all time.Duration
	for i := range before {
		all += before[i].usage
		more += max(0, after[i].usage-before[i].usage)
	}
	return ratio(float64(more), float64(all))
}
