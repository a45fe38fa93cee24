package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/lab/host"
)

// lab is an experiment on this machine, as a run has prepared it.
type lab struct {
	config      experiment.Config
	setups      []experiment.Setup // of a round
	rounds      int
	length      time.Duration // of a window
	budget      time.Duration // 0: none
	environment experiment.Environment
	machine     machine
	cpus        cpuset.Set
	say         func(string)
}

func newLab(c experiment.Config, o Options) (l *lab, err error) {
	if o.Quick || o.Rounds > 0 {
		c.Most = 0
	}
	if o.Quick {
		if c, err = c.Answering(); err != nil {
			return nil, err
		}
	}
	l = &lab{config: c, rounds: cmp.Or(o.Rounds, c.Most, c.Rounds), length: c.Window.Duration, budget: o.Budget, say: o.Progress}
	if o.Quick {
		l.rounds, l.length = cmp.Or(o.Rounds, c.Quick.Rounds), c.Quick.Window.Duration
	}
	return l, nil
}

// starting is about how long it takes to start the programs of a window.
const starting = 500 * time.Millisecond

// spend has as many rounds as the budget may allow, as the most that are measured.
func (l *lab) spend() error {
	if l.budget == 0 {
		return nil
	}
	round := time.Duration(0)
	for _, s := range l.setups {
		round += starting + s.Settle + l.length
	}
	if l.rounds = int(l.budget / round); l.rounds < experiment.MinRounds {
		return fmt.Errorf("%s: the budget of %v is too small: %d rounds of %v are needed",
			l.config.Name, l.budget, experiment.MinRounds, round)
	}
	l.config.Most = l.rounds
	return l.config.Check()
}

// Time returns how long an experiment takes on a machine that can have all of its conditions, if
// nothing else disturbs a window. Starting programs takes some more, up to a second per window.
func Time(c experiment.Config, o Options) (time.Duration, error) {
	l, err := newLab(c, o)
	if err != nil {
		return 0, err
	}
	l.setups, err = l.config.Setups(1)
	return l.time(), err
}

// time returns the time of the windows of all rounds, and of those that are traced in the end.
func (l *lab) time() (sum time.Duration) {
	for _, s := range l.setups {
		sum += time.Duration(l.rounds)*(s.Settle+l.length) + s.Settle + min(l.length, explainFor)
	}
	return sum
}

// prepare finds out what this machine has, and leaves out what it cannot have.
func prepare(ctx context.Context, c experiment.Config, o Options) (l *lab, err error) {
	if l, err = newLab(c, o); err != nil {
		return nil, err
	}
	if l.machine.Machine, err = host.Open(); err != nil {
		return nil, err
	}
	if l.cpus, err = l.machine.CPUs(); err != nil {
		return nil, err
	}
	if err := l.leaveOut(ctx); err != nil {
		return nil, err
	}
	if err := l.spend(); err != nil {
		return nil, err
	}
	e := &l.environment
	*e = l.machine.Environment()
	e.CPUs, e.Pinfold, e.Quick, e.Command = l.cpus.Len(), o.Version, o.Quick, o.Command
	return l, l.checkSize()
}

// leaveOut makes the setups, without the conditions that this machine cannot have.
func (l *lab) leaveOut(ctx context.Context) (err error) {
	if l.setups, err = l.config.Setups(l.cpus.Len()); err != nil {
		return err
	}
	var lacking map[experiment.Priority]string
	reasons := map[string]string{}
	for _, setup := range l.setups {
		for _, s := range setup.Services {
			if s.Count() == 0 || !s.Priority.OfNode() {
				continue
			}
			if lacking == nil {
				if lacking, err = l.machine.lackingPriorities(ctx); err != nil {
					return err
				}
			}
			if why := lacking[s.Priority]; why != "" {
				reasons[setup.Condition] = why
			}
		}
	}
	l.setups = slices.DeleteFunc(l.setups, func(s experiment.Setup) bool { return reasons[s.Condition] != "" })
	l.config, err = l.config.Without(reasons)
	return err
}

// ErrTooSmall reports that an experiment needs a machine with more CPUs.
var ErrTooSmall = errors.New("this machine is too small")

// checkSize returns an error if the machine has too few CPUs for a condition.
func (l *lab) checkSize() error {
	if l.cpus.Len() < l.config.Least {
		return fmt.Errorf("%w: %s needs %d CPUs, and this one has %d", ErrTooSmall, l.config.Name, l.config.Least, l.cpus.Len())
	}
	for _, s := range l.setups {
		_, shared, err := l.settings(s.Services)
		if err == nil && shared.IsEmpty() && s.Load != nil {
			err = fmt.Errorf("%w: no CPU is left for the load generator", ErrTooSmall)
		}
		if err != nil {
			return fmt.Errorf("condition %q: %w", s.Condition, err)
		}
	}
	return nil
}

// seed returns the seed of what is random in a round. It is the same in all of its windows, so
// conditions differ in nothing else.
func (l *lab) seed(round int) uint64 { return l.config.Seed + uint64(round) }

// isEnd reports whether an error is the end of a context.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
