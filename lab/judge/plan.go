package judge

import (
	"fmt"
	"time"
)

// Use is how many CPUs a program uses on average, and RecordedLimit the limit of recordings with
// one. So such a program has enough, but is throttled when requests come close to each other.
const (
	Use           = .26
	RecordedLimit = .4
)

// period is the enforcement period of all limits, the kernel's default.
const period = 100 * time.Millisecond

// Beside is what else runs while a program is recorded or tried.
type Beside string

// All values of Beside.
const (
	Idle  Beside = "idle"  // nothing
	One   Beside = "one"   // one thread that always computes
	Crowd Beside = "crowd" // six such threads for each CPU
)

// threads returns the number of threads that compute.
func (b Beside) threads(cpus int) int { return map[Beside]int{One: 1, Crowd: 6 * cpus}[b] }

// Row is one recording.
type Row struct {
	Program string `json:"program"`
	Limited bool   `json:"limited"` // recorded with RecordedLimit
	Beside  Beside `json:"beside"`
}

// String returns the name of a row, such as "python/limit/one".
func (r Row) String() string {
	limit := "free"
	if r.Limited {
		limit = "limit"
	}
	return fmt.Sprintf("%s/%s/%s", r.Program, limit, r.Beside)
}

// rows returns all rows of some programs.
func rows(programs []string) (all []Row) {
	for _, program := range programs {
		for _, limited := range []bool{false, true} {
			for _, beside := range []Beside{Idle, One, Crowd} {
				all = append(all, Row{program, limited, beside})
			}
		}
	}
	return all
}

// tried are the conditions in which advice is tried.
func tried() []Beside { return []Beside{Idle, Crowd} }

// Size is how much is measured.
type Size struct {
	Record    time.Duration `json:"record"`    // length of a recording
	Apply     time.Duration `json:"apply"`     // of a run under the advised limit
	Runs      int           `json:"runs"`      // of each row, in each condition
	Throttled float64       `json:"throttled"` // share of periods, of "pinfold advise"
	// Patience is how long a run waits for an idle machine and repeats disturbed trials, in all.
	Patience time.Duration `json:"-"`
}

// Full is the size of a run of about four hours. Recordings have 1,100 periods, because advice about
// 1% needs 1,000.
func Full() Size {
	return Size{Record: 110 * time.Second, Apply: 11500 * time.Millisecond, Runs: 10, Throttled: .01, Patience: 20 * time.Minute}
}

// Quick is a size for a first impression. Advice needs at least 400 periods, whatever it is about.
func Quick() Size {
	return Size{Record: 42 * time.Second, Apply: 4 * time.Second, Runs: 1, Throttled: .05}
}

// Check returns an error if the size is invalid.
func (s Size) Check() error {
	if s.Record < time.Second || s.Apply < time.Second || s.Runs < 1 || s.Patience < 0 {
		return fmt.Errorf("recordings of %v, %d runs of %v, and patience of %v: they must be 1s or more, 1 or more, and not negative", s.Record, s.Runs, s.Apply, s.Patience)
	}
	return nil
}

// Times of a trial beside the load.
const (
	warmFor   = 1500 * time.Millisecond
	jvmWarm   = 5 * time.Second
	settleFor = 500 * time.Millisecond
	lookFor   = 500 * time.Millisecond // at what else the machine does
	startTime = time.Second            // to start and end, about
)

// time returns about how long rows take, if all get advice.
func (s Size) time(rows int) time.Duration {
	around := (4*warmFor+jvmWarm)/5 + settleFor + lookFor + startTime
	return time.Duration(rows) * (s.Record + around + time.Duration(len(tried())*s.Runs)*(s.Apply+around))
}
