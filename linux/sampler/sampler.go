package sampler

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
)

// MinInterval is the shortest interval.
const MinInterval = time.Millisecond

// idleInterval is the interval of ticks while no group can be sampled.
const idleInterval = time.Second / 10

// lookEvery is the time between attempts to open an absent group.
const lookEvery = time.Second

// Options are the options of a sampler. The zero value is usable.
type Options struct {
	// Interval is the time between samples of a group, at least MinInterval. 0 means the group's
	// own enforcement period.
	Interval time.Duration
	// Shortest is the shortest interval if Interval is 0. A group with a shorter period is sampled
	// at the next multiple of its period.
	Shortest time.Duration
	// Spacing is the least time, on average, between samples of two groups with the same parent if
	// Interval is 0. With 1 ms, the containers of a pod together have at most 1,000 samples a second,
	// however many they are.
	Spacing time.Duration
	// LimitsEvery is the time between reads of a group's limits. 0 means one second.
	LimitsEvery time.Duration
	// Waits reads how long threads waited for CPUs, too, at most every [cgroupstat.WaitsEvery]: a
	// sample has the waits since the last read.
	Waits bool
	Clock Clock // nil means SystemClock
}

// Sampler samples cgroups. Set, Cost and Start may be called at any time from any goroutine. Run
// must be called once.
type Sampler struct {
	fs      *cgroup.FS
	options Options

	mu      sync.Mutex // protects the following fields
	wanted  []string
	changed bool // Run has not taken over wanted yet
	start   time.Time
	cost    Cost
	jitter  histogram

	// Used by Run only. Every wanted group is in one grid or in absent.
	known  map[string]*series
	within map[string]int // number of known groups, by their parent
	grids  []*grid
	absent []*series
	moving []*series // between two grids
	opened int
	tick   Tick
}

// Tick is the result of one round of sampling. It is valid until the consumer returns.
type Tick struct {
	At      time.Duration // start of the round, since Run started
	Missed  uint64        // planned times that passed since the last tick
	Samples []Sample
	// Absent are the groups that are no longer sampled, or cannot be. Each is reported once.
	Absent []Absent
}

// Sample is the usage and throttling of one group in one interval.
type Sample struct {
	Group string // path
	trace.Sample
}

// Absent reports why a wanted group is not sampled, for example cgroup.ErrGone. If Err is nil, the
// group is no longer wanted.
type Absent struct {
	Group string
	Err   error
}

// CheckInterval returns an error if d is not a valid sampling interval.
func CheckInterval(d time.Duration) error {
	if d < MinInterval {
		return fmt.Errorf("an interval of %v is too short: the shortest is %v", d, MinInterval)
	}
	return nil
}

// Check returns an error if a group cannot be sampled at present.
func Check(fs *cgroup.FS, group string) error {
	x := &series{path: group}
	defer x.close()
	if err := x.open(fs, Options{}, 1); err != nil {
		return err
	}
	return x.reader.Read(&x.last)
}

// New returns a sampler without groups; see Set.
func New(fs *cgroup.FS, o Options) (*Sampler, error) {
	if o.Interval != 0 {
		if err := CheckInterval(o.Interval); err != nil {
			return nil, err
		}
	}
	o.LimitsEvery = cmp.Or(o.LimitsEvery, time.Second)
	if o.Clock == nil {
		o.Clock = SystemClock{}
	}
	return &Sampler{fs: fs, options: o, known: map[string]*series{}}, nil
}

// Set replaces the groups to sample, given by path, from the next tick on. The groups need not
// exist.
func (s *Sampler) Set(groups []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted, s.changed = slices.Clone(groups), true
}

// Start returns the time at which Run started, or the zero time before that.
func (s *Sampler) Start() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start
}

// Run samples until ctx ends, in which case it returns nil, or until consume returns an error. It
// calls consume after every tick in the same goroutine, so a slow consumer makes samples late. The
// first tick reads the groups for the first time and has no samples.
func (s *Sampler) Run(ctx context.Context, consume func(*Tick) error) error {
	alarm, err := s.options.Clock.Alarm(ctx)
	if err != nil {
		return err
	}
	defer alarm.Close()
	defer s.close()
	start := s.options.Clock.Now()
	s.mu.Lock()
	s.start = start
	s.mu.Unlock()
	for planned := time.Duration(0); ; {
		err := alarm.Wait(start.Add(planned))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		s.round(planned)
		if err := consume(&s.tick); err != nil {
			return err
		}
		now := s.now()
		s.tick.Missed = s.plan(s.tick.At, now)
		planned = s.planned(now)
	}
}

// now returns the time since Run started.
func (s *Sampler) now() time.Duration { return s.options.Clock.Now().Sub(s.start) }

// round fills the tick of a planned time.
func (s *Sampler) round(planned time.Duration) {
	runtime.LockOSThread() // to measure the CPU time of this goroutine
	defer runtime.UnlockOSThread()
	cpu := s.options.Clock.CPU()
	s.tick.At = s.now()
	s.tick.Samples, s.tick.Absent = s.tick.Samples[:0], s.tick.Absent[:0]
	s.takeWanted()
	s.look(planned)
	gaps := uint64(0)
	for _, g := range s.grids {
		if g.next <= s.tick.At {
			gaps += s.sampleGrid(g)
		}
	}
	s.placeMoving()
	s.account(planned, gaps, cpu)
}

func (s *Sampler) close() {
	for _, x := range s.known {
		x.close()
	}
}

// Follow calls Set with the result of list, at once and then periodically. It returns nil when ctx
// ends, or the error of list.
func (s *Sampler) Follow(ctx context.Context, every time.Duration, list func() ([]string, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		groups, err := list()
		if err != nil {
			return err
		}
		s.Set(groups)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
