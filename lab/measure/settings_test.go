package measure

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/test/must"
)

// TestSize checks each experiment on a machine with one CPU.
func TestSize(t *testing.T) {
	cgrouptest.OpenHost(t)
	machine := must.Get(openMachine())(t)
	for _, name := range Names() {
		config, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		l := lab{config: config, machine: machine, cpus: cpuset.Of(0)}
		l.setups = must.Get(config.Setups(1))(t)
		err = l.checkSize()
		if small := errors.Is(err, ErrTooSmall); small != (name == "binding") || err != nil && !small {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRuns checks that all runs together take less than the two hours that the documents say. Each
// window gets half a second to start and end its programs, and disturbed windows get a seventh of all.
// It also counts the requests of runs with batches, on two CPUs: at least ten must be slower than each
// quantile that the experiment asks for.
func TestRuns(t *testing.T) {
	beyond := map[experiment.Figure]float64{experiment.P90: .1, experiment.P99: .01, experiment.P999: .001}
	sum := time.Duration(0)
	for _, name := range Names() {
		config := must.Get(Named(name))(t)
		if config.MinCPUs > 2 {
			continue
		}
		l := newLab(config, Options{})
		l.setups = must.Get(config.Setups(2))(t)
		sum += l.time() + time.Duration(l.rounds*len(l.setups))*time.Second/2
		for _, answer := range config.Answers {
			share, isQuantile := beyond[answer.Figure]
			if load := l.setups[0].Load; isQuantile && load.Client == experiment.Batches {
				requests := l.rounds * load.Batch.Count() * int(l.length/load.Every.Duration)
				if slower := float64(requests) * share; slower < 10 {
					t.Errorf("%s: %d requests, of which %.1f are slower than %s: add rounds", name, requests, slower, answer.Figure)
				}
			}
		}
	}
	if sum += sum / 7; sum > 2*time.Hour {
		t.Errorf("all runs take %v, more than two hours", sum)
	}
}

// TestGoOn checks how many rounds a run that is to conclude may have, and when it looks.
func TestGoOn(t *testing.T) {
	c := must.Get(Named("burst"))(t)
	l := newLab(c, Options{Rounds: 10})
	l.setups = must.Get(c.Setups(2))(t)
	l.goOn(5 * l.time())
	if l.rounds != 40 || !slices.Equal(l.looks, []int{10, 20}) || l.environment.Looks != 3 {
		t.Errorf("%d rounds, looks after %v, %d in all", l.rounds, l.looks, l.environment.Looks)
	}
	short := newLab(c, Options{})
	short.setups = l.setups
	if short.goOn(time.Second); short.rounds != c.Rounds || short.looks != nil || short.environment.Looks != 1 {
		t.Errorf("without time: %d rounds, looks after %v, %d in all", short.rounds, short.looks, short.environment.Looks)
	}
}
