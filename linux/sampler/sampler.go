package sampler

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
)

// MinInterval is the shortest interval.
const MinInterval = time.Millisecond

// idleInterval is how often it is looked for wanted groups while there are none.
const idleInterval = time.Second / 10

// Options say how to sample; the zero value is good.
type Options struct {
	// Interval is the time from one sample of a group to the next, at least MinInterval;
	// 0 for each group's own period.
	Interval time.Duration
	// Shortest bounds the interval of groups whose own period is shorter: it is then as many
	// of their periods as are needed.
	Shortest time.Duration
	// LimitsEvery is how often limits are read again; 0 for every second.
	LimitsEvery time.Duration
	// LookEvery is how often absent groups are looked for; 0 for every second.
	LookEvery time.Duration
	Clock     Clock // nil for the machine's
}

// Sampler samples cgroups. Set, Cost and Start may be called at any time from any goroutine. Run
// must be called once.
type Sampler struct {
	fs      *cgroup.FS
	options Options

	mu      sync.Mutex // of these
	wanted  []string
	changed bool // wanted is not yet what Run has
	start   time.Time
	cost    Cost
	jitter  histogram

	// What only Run uses. Every wanted group is in one grid or in absent.
	known  map[string]*series
	grids  []*grid
	absent []*series
	moving []*series // between two grids
	opened int
	tick   Tick
}

// Tick is the result of one round of sampling. It is valid until the consumer returns.
type Tick struct {
	At time.Duration // when it began, since Run began
	// Missed counts the planned moments since the last tick that had gone by.
	Missed  uint64
	Samples []Sample
	// Absent are groups that are not sampled any more, or cannot be; each is told once.
	Absent []Absent
}

// Sample is the usage and throttling of one group in one interval.
type Sample struct {
	Group    string // its path
	NoBursts bool   // the kernel does not count bursts
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
	if err := x.open(fs); err != nil {
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
	if o.LimitsEvery == 0 {
		o.LimitsEvery = time.Second
	}
	if o.LookEvery == 0 {
		o.LookEvery = time.Second
	}
	if o.Clock == nil {
		o.Clock = SystemClock{}
	}
	return &Sampler{fs: fs, options: o, known: map[string]*series{}}, nil
}

// Set replaces the groups to sample, given by path, from the next tick on. The groups need not
// exist.
func (s *Sampler) Set(groups []string) {
	wanted := append([]string(nil), groups...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted, s.changed = wanted, true
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

// now returns the time since Run began.
func (s *Sampler) now() time.Duration { return s.options.Clock.Now().Sub(s.start) }

// round makes the tick of a planned moment.
func (s *Sampler) round(planned time.Duration) {
	runtime.LockOSThread() // its CPU time is ours
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

// account adds the tick to the cost.
func (s *Sampler) account(planned time.Duration, gaps uint64, cpuBefore time.Duration) {
	late := uint64(0)
	for i := range s.tick.Samples {
		if s.tick.Samples[i].Late {
			late++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.cost
	c.Groups, c.Absent = len(s.known)-len(s.absent), len(s.absent)
	c.Ticks++
	c.Missed += s.tick.Missed
	c.Samples += uint64(len(s.tick.Samples))
	c.Late += late
	c.Gaps += gaps
	s.jitter.add(s.tick.At - planned)
	c.Wall = s.now()
	c.CPU += s.options.Clock.CPU() - cpuBefore
}

func (s *Sampler) close() {
	for _, x := range s.known {
		x.close()
	}
}
