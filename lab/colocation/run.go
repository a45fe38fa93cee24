package colocation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/lab/load"
)

// Config is an experiment.
type Config struct {
	Conditions []Condition                   `json:"conditions"`
	Online     quantity.Share                `json:"online"`   // of the time of all CPUs, which the service uses
	Hash       int                           `json:"hash"`     // bytes that each request hashes
	Threads    int                           `json:"threads"`  // of batch work
	Window     time.Duration                 `json:"window"`   // of one measurement
	Settle     time.Duration                 `json:"settle"`   // from a change of conditions to the measurement
	Rounds     int                           `json:"rounds"`   // with one window of each condition
	Foreign    quantity.Share                `json:"foreign"`  // use of the CPUs by others that disturbs a window
	Repeated   int                           `json:"repeated"` // how often a disturbed window is measured again
	Seed       uint64                        `json:"seed"`     // of the order of conditions, and of the requests
	Workload   func(args ...string) []string `json:"-"`        // command line of a built-in program
	Progress   func(string)                  `json:"-"`
}

// timeout of a request.
const timeout = 10 * time.Second

// Check returns an error that names what is wrong with an experiment.
func (c Config) Check() error {
	wrong := []error{checkConditions(c.Conditions)}
	for _, w := range []struct {
		bad  bool
		text string
	}{
		{!(c.Online > 0 && c.Online <= 0.8), fmt.Sprintf("a service that uses %v of the CPUs: more than 0 and at most 80%% is possible", c.Online)},
		{c.Hash < 1, "the work of a request must be 1 byte or more"},
		{c.Threads < 1, "batch work needs a thread"},
		{c.Window < time.Second/10, fmt.Sprintf("a window of %v: it must be 100ms or more", c.Window)},
		{c.Settle < 0, "the time to settle must not be negative"},
		{c.Rounds < 1, "there must be a round"},
		{!(c.Foreign > 0), "the limit of foreign CPU time must be more than 0"},
		{c.Repeated < 0, "the number of repetitions must not be negative"},
	} {
		if w.bad {
			wrong = append(wrong, errors.New(w.text))
		}
	}
	return errors.Join(wrong...)
}

// Result is an experiment and what it has measured.
type Result struct {
	Config  Config  `json:"config"`
	Machine Machine `json:"machine"`
	// CPUTime is the CPU time of a request, and Every the mean interval between requests that
	// follows from it.
	CPUTime time.Duration `json:"cpuTime"`
	Every   time.Duration `json:"every"`
	Windows []Window      `json:"-"` // a line each, see [Result.Write]
}

// Compare compares the conditions with the windows alone.
func (r Result) Compare() []Comparison { return Compare(r.Config.Conditions, r.Windows, r.Config.Seed) }

// Run measures all rounds. If ctx ends, it returns what it has measured and an error that wraps the
// cause.
func Run(ctx context.Context, c Config) (result Result, err error) {
	if err := c.Check(); err != nil {
		return result, err
	}
	result = Result{Config: c, Machine: thisMachine()}
	r, ctx, err := start(ctx, c)
	if err != nil {
		return result, err
	}
	defer func() {
		if err != nil {
			err = r.explain(ctx, err)
		}
		err = cmp.Or(err, r.stop())
	}()
	plan := load.Plan{Batch: 1, Duration: c.Window, Timeout: timeout, Seed: c.Seed}
	if result.CPUTime, err = r.calibrate(ctx, &plan); err != nil {
		return result, fmt.Errorf("measure the CPU time of a request: %w", err)
	}
	result.Every = plan.Every
	random := rand.New(rand.NewPCG(c.Seed, 1))
	began := time.Now()
	for round := range c.Rounds {
		for _, i := range random.Perm(len(c.Conditions)) {
			for try := 0; ; try++ {
				plan.Seed++
				w, err := r.window(ctx, c.Conditions[i], plan)
				if err != nil {
					return result, err
				}
				w.Round = round
				result.Windows = append(result.Windows, w)
				if w.Disturbed == "" || try == c.Repeated {
					break
				}
			}
		}
		done := time.Since(began)
		left := done / time.Duration(round+1) * time.Duration(c.Rounds-round-1)
		c.Progress(fmt.Sprintf("round %d of %d, about %v left", round+1, c.Rounds, left.Round(time.Second)))
	}
	return result, nil
}

// calibrate measures the CPU time of a request alone, and sets the interval between requests so that
// the service uses its share of the CPUs. The second measurement is with that interval, because a busy
// service needs less time for each request.
func (r *rig) calibrate(ctx context.Context, plan *load.Plan) (cpu time.Duration, err error) {
	end, err := r.begin(ctx, Condition{Name: Alone})
	if err != nil {
		return 0, err
	}
	cpu = time.Millisecond
	for range 3 {
		if cpu <= 0 {
			return 0, errors.New("the service used no CPU time")
		}
		plan.Every = time.Duration(float64(cpu) / float64(r.config.Online) / float64(r.cpus().Len()))
		plan.Jitter = plan.Every - 1
		result, before, after, err := r.measure(ctx, *plan)
		if err != nil {
			return 0, err
		}
		if result.Failed() > 0 {
			return 0, fmt.Errorf("requests failed: %v", result.Failures)
		}
		cpu = (after.online - before.online) / time.Duration(result.Sent)
	}
	return cpu, end()
}
