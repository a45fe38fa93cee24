package experiment

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/placement"
)

// Check returns an error that names everything that is wrong with an experiment.
func (c Config) Check() error {
	var wrong []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	refuse(c.Version != Version, "version %d: this program knows version %d", c.Version, Version)
	refuse(!nameForm.MatchString(c.Name), "name: %q: use letters, digits, spaces, '.', '_' and '-', the first a letter or a digit", c.Name)
	refuse(c.Question == "", "question is missing")
	refuse(c.CPUs < 0 || c.Least < 0, "cpus: %d, leastCPUs: %d: must not be negative", c.CPUs, c.Least)
	for name, rounds := range map[string]int{"rounds": c.Rounds, "quick.rounds": c.Quick.Rounds} {
		refuse(rounds < 1 || rounds > maxRounds, "%s: %d: must be from 1 to %d", name, rounds, maxRounds)
	}
	refuse(c.Most != 0 && (c.Most < MinRounds || c.Most > maxRounds), "most: %d: must be from %d to %d rounds", c.Most, MinRounds, maxRounds)
	for name, window := range map[string]Duration{"window": c.Window, "quick.window": c.Quick.Window} {
		refuse(window.Duration < minWindow || window.Duration > maxWindow, "%s: %v: must be from %v to %v", name, window, minWindow, maxWindow)
	}
	refuse(!(c.Foreign > 0 && c.Foreign <= 1), "foreign: %v: must be more than 0%% and at most 100%%", c.Foreign)
	refuse(c.NoDifference != 0 && !(c.NoDifference > 1 && c.NoDifference <= 2), "margin: %v: must be above 1 and at most 2", c.NoDifference)
	refuse(c.Repeated < 0, "repeated: %d: must not be negative", c.Repeated)
	refuse(len(c.Services) == 0, "there must be a service")
	refuse(len(c.Conditions) == 0, "there must be a condition")
	wrong = append(wrong, c.checkNames(), c.checkSettings(), c.checkFigures())
	for _, l := range c.Loads {
		wrong = append(wrong, l.check())
	}
	return errors.Join(wrong...)
}

// nameForm is the form of the name of an experiment, which is also that of files.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}$`)

const (
	maxRounds = 1000
	minWindow = 100 * time.Millisecond
	maxWindow = 10 * time.Minute
)

func (c Config) checkNames() error {
	_, services := names("service", c.Services, func(s Service) string { return s.Name })
	_, loads := names("load", c.Loads, func(l Load) string { return l.Name })
	conditions, err := names("condition", c.Conditions, func(c Condition) string { return c.Name })
	for _, one := range c.Conditions {
		if one.Baseline != "" && !slices.Contains(conditions, one.Baseline) {
			err = errors.Join(err, fmt.Errorf("condition %q: there is no condition %q to compare with", one.Name, one.Baseline))
		}
	}
	return errors.Join(services, loads, err)
}

// checkSettings checks the services in every condition.
func (c Config) checkSettings() error {
	var wrong []error
	for _, condition := range c.Conditions {
		services, err := condition.in(c.Services)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		for i, s := range services {
			err := s.check()
			if err == nil && i == 0 && s.Count() == 0 {
				err = errors.New("the first service must run")
			}
			if err != nil {
				wrong = append(wrong, fmt.Errorf("condition %q: service %q: %w", condition.Name, s.Name, err))
			}
		}
	}
	return errors.Join(wrong...)
}

func (s Service) check() error {
	programs := []Program{Web, Cycles, Batch, Demand, Pi, Nginx, Httpd, FFmpeg}
	serves := s.Program == Web || s.Program == Nginx || s.Program == Httpd
	period := s.Limits().Period
	switch {
	case !slices.Contains(programs, s.Program):
		return fmt.Errorf("program: %q: use one of %q", s.Program, programs)
	case s.Replicas < 0 || s.Replicas > maxReplicas:
		return fmt.Errorf("replicas: %d: must be from 0 to %d", s.Replicas, maxReplicas)
	case s.Chain && s.Program != Web:
		return fmt.Errorf("chain: only the program %q can call another", Web)
	case s.Program == Cycles && (s.Compute.Duration <= 0 || s.Sleep.Duration <= 0):
		return fmt.Errorf("program %q needs compute and sleep, each more than 0s", Cycles)
	case s.Program == Demand && !(s.Use > 0 && s.Use <= 1):
		return fmt.Errorf("program %q needs use, more than 0%% and at most 100%%", Demand)
	case s.Program == Pi && s.Digits < 1:
		return fmt.Errorf("program %q needs digits, 1 or more", Pi)
	case !serves && s.Request != (Request{}):
		return fmt.Errorf("request: %q does not serve requests", s.Program)
	case s.Request.Hash < 0:
		return errors.New("request: hash must not be negative")
	case period < bandwidth.MinPeriod || period > bandwidth.MaxPeriod:
		return fmt.Errorf("period: %v: must be from %v to %v", period, bandwidth.MinPeriod, bandwidth.MaxPeriod)
	case s.Limit.Value == 0 && (s.Burst != 0 || s.Raise || s.Policy != ""):
		return errors.New("burst, raise and policy need a limit")
	case s.Burst < 0 || s.Burst > 1:
		return fmt.Errorf("burst: %v: must be from 0%% to 100%% of the quota", s.Burst)
	case !slices.Contains([]placement.Policy{"", placement.Static, placement.StaticBurst}, s.Policy):
		return fmt.Errorf("policy: %q: use %q or %q", s.Policy, placement.Static, placement.StaticBurst)
	case s.Priority != "" && !slices.Contains(Priorities(), s.Priority):
		return fmt.Errorf("priority: %q: use one of %q", s.Priority, Priorities())
	case s.Priority == SchedExt && (s.Limit.Value > 0 || s.Budget > 0):
		return fmt.Errorf("priority: %q: quotas do not bound such threads, so it cannot have a limit or a budget", s.Priority)
	case s.Budget < 0 || s.Budget > 1:
		return fmt.Errorf("budget: %v: must be from 0%% to 100%%", s.Budget)
	case s.Budget > 0 && s.Limit.Value > 0:
		return errors.New("budget: a service with a limit has no budget")
	}
	return nil
}

const maxReplicas = 64

func (l Load) check() error {
	clients := []Client{Batches, Random, OnOff, Planned, Wrk}
	switch {
	case !slices.Contains(clients, l.Client):
		return fmt.Errorf("load %q: client: %q: use one of %q", l.Name, l.Client, clients)
	case l.Client == Batches && (l.Batch.Value <= 0 || l.Every.Duration <= 0):
		return fmt.Errorf("load %q: %q need batch and every, each more than 0", l.Name, l.Client)
	case l.Use != 0 && !slices.Contains([]Client{Random, OnOff, Planned}, l.Client):
		return fmt.Errorf("load %q: %q cannot have use", l.Name, l.Client)
	case (l.Client == Random || l.Use != 0) && !(l.Use > 0 && l.Use <= maxUse):
		return fmt.Errorf("load %q: use: %v: must be more than 0%% and at most %v", l.Name, l.Use, maxUse)
	case slices.Contains([]Client{OnOff, Planned, Wrk}, l.Client) && l.Clients.Value <= 0:
		return fmt.Errorf("load %q: %q needs clients", l.Name, l.Client)
	case (l.Client == OnOff || l.Client == Planned) && (l.On.Duration <= 0 || l.Off.Duration <= 0):
		return fmt.Errorf("load %q: %q needs active and inactive, each more than 0s", l.Name, l.Client)
	case l.Client == Planned && l.Pause.Duration <= 0 && l.Use == 0:
		return fmt.Errorf("load %q: %q needs use, or pause, the time from one request of a client to the next", l.Name, l.Client)
	}
	return nil
}

// checkFigures checks what is compared.
func (c Config) checkFigures() error {
	var wrong []error
	known := Figures()
	compared := slices.Clone(c.Answers)
	for _, p := range c.Published {
		compared = append(compared, p.Answer)
		wrong = append(wrong, c.checkPrediction(p))
	}
	for _, f := range c.Figures {
		if _, ok := known[f]; !ok {
			wrong = append(wrong, fmt.Errorf("figures: there is no figure %q", f))
		}
	}
	for _, a := range compared {
		_, ok := known[a.Figure]
		switch {
		case !ok:
			wrong = append(wrong, fmt.Errorf("there is no figure %q", a.Figure))
		case !slices.ContainsFunc(c.Conditions, func(o Condition) bool { return o.Name == a.Condition }):
			wrong = append(wrong, fmt.Errorf("figure %q: there is no condition %q", a.Figure, a.Condition))
		case a.Against != "" && !slices.ContainsFunc(c.Conditions, func(o Condition) bool { return o.Name == a.Against }):
			wrong = append(wrong, fmt.Errorf("figure %q, condition %q: there is no condition %q to compare with", a.Figure, a.Condition, a.Against))
		case a.Load != "" && !slices.ContainsFunc(c.Loads, func(l Load) bool { return l.Name == a.Load }):
			wrong = append(wrong, fmt.Errorf("figure %q: there is no load %q", a.Figure, a.Load))
		}
	}
	if len(c.Answers) == 0 {
		wrong = append(wrong, errors.New("answers: there must be one"))
	}
	return errors.Join(wrong...)
}

// checkPrediction checks a figure that is predicted.
func (c Config) checkPrediction(p Published) error {
	if p.From == "" {
		return nil
	}
	of, err := c.first(p.Condition)
	from, errFrom := c.first(p.From)
	switch {
	case err != nil || errFrom != nil:
		return errors.Join(err, errFrom)
	case len(c.Loads) > 0:
		return fmt.Errorf("figure %q: nothing can be predicted from the usage under a load", p.Figure)
	case of.Program != Demand || from.Program != Demand || of.Period.Duration != 0:
		return fmt.Errorf("figure %q: it is predicted for the program %q with the default period", p.Figure, Demand)
	case of.Limit.Value == 0 || from.Limit.Value > 0 || from.Count() > 1:
		return fmt.Errorf("figure %q: it is predicted for a condition with a limit, from one without and with one replica", p.Figure)
	case !slices.Contains(predicted(), p.Figure) && p.Figure != Backlog: // which earlier versions predicted
		return fmt.Errorf("figure %q: only %q can be predicted", p.Figure, predicted())
	case p.Value != 0 || p.Of != 0:
		return fmt.Errorf("figure %q: it has a value, or is predicted from a condition, not both", p.Figure)
	}
	return nil
}
