package nodeplan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/test/golden"
)

// TestScenarios runs testdata/*.txt. A scenario is a sequence of blocks: commands, one per line,
// then "----" and their output. Lines that start with # are comments. The commands:
//
//	machine packages=1 numa=2 llcs=1 cores=4 threads=2 offline=7 memory-node=3
//	    the node's machine, counts per parent, and a NUMA node without CPUs
//	config reserved=500m cpus=0-1 min-shared=1
//	binding off REASON, binding on
//	kubelet no-quota period=50ms
//	batch-priority idle core-scheduling bvt
//	burst MODE percent=100 quota=300, kernel no-burst
//	    the policy of pods without one; the kernel does not support bursts
//	pod NAME Burstable rank=1 BE limit=4 overhead=250m period=20ms burst=auto:100 CONTAINER...
//	    adds a pod or replaces the one with that name
//	waiting POD CONTAINER, running ..., ended ...
//	remove POD
//	busy 0-3=900m 5=1
//	    a new sample of usage; CPUs that are not given are idle
//	used POD/CONTAINER=2
//	    the part of it that a container uses
//	raised POD/CONTAINER=150ms
//	    the raised quota that was decided for a container
//	tuning step=2 spread=3
//	plan, sets, sole, steps, kubelet-settings
//	    print the plan, only its core sets, the containers that can be partitions, the writes
//	    that lead to the plan from the last one printed, and the result of Kubelet; all but the
//	    last keep the core sets
//
// A container is NAME=LIMIT:REQUEST, with - for no limit, followed by @ and its CPUs if it is
// static, or by @node and its NUMA nodes. init/NAME is an ordinary init container, sidecar/NAME a
// restartable one, ephemeral/NAME an ephemeral one.
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		var node scenario
		return golden.Blocks(t, text, node.run)
	})
}

// scenario is the node of a scenario.
type scenario struct {
	state State
	burst burst.Policy // of pods without one
	last  []Assignment
}

func (s *scenario) run(words []string) (string, error) {
	command, args := words[0], words[1:]
	switch command {
	case "machine":
		return "", s.setMachine(args)
	case "config":
		return "", s.setConfig(args)
	case "kubelet", "tuning":
		return "", s.setFigures(args)
	case "batch-priority":
		s.state.Batch = colocation.Choice{}
		for _, arg := range args {
			s.state.Batch.Use = append(s.state.Batch.Use, colocation.Mechanism(arg))
		}
		return "", nil
	case "burst":
		return "", s.setBurst(args)
	case "kernel":
		s.state.NoKernelBurst = "the kernel has none"
		return "", nil
	case "binding":
		s.state.BindingOff = strings.Join(args[1:], " ")
		return "", nil
	case "pod":
		return "", s.setPod(args)
	case "remove":
		s.state.Pods = slices.DeleteFunc(s.state.Pods, func(p Pod) bool { return string(p.ID) == args[0] })
		return "", nil
	case "waiting", "running", "ended":
		return "", s.setPhase(command, args)
	case "busy":
		return "", s.setBusy(args)
	case "used", "raised":
		return "", s.setFlow(command, args)
	case "kubelet-settings":
		return printPlan(Kubelet(s.state)), nil
	}
	return s.plan(command)
}

// plan prints one view of the plan, and checks that planning again changes nothing.
func (s *scenario) plan(view string) (string, error) {
	state := s.state
	state.Pods = slices.Clone(state.Pods)
	for i := range state.Pods {
		state.Pods[i].Burst = state.Pods[i].Burst.Or(s.burst)
	}
	d := Plan(state)
	state.Previous, s.state.Previous = d.CoreSets, d.CoreSets
	if diff := cmp.Diff(printPlan(d), printPlan(Plan(state))); diff != "" {
		return "", fmt.Errorf("planning again changes the plan:\n%s", diff)
	}
	steps := Steps(s.last, d.Assignments(), d.Shared)
	s.last = d.Assignments()
	switch view {
	case "plan":
		return printPlan(d), nil
	case "sets":
		return printSets(d), nil
	case "sole":
		return printSole(d), nil
	case "steps":
		var out strings.Builder
		for _, step := range steps {
			fmt.Fprintf(&out, "%s/%s to %s\n", step.Ref.Pod, step.Ref.Container, step.CPUs)
		}
		return out.String(), nil
	}
	return "", fmt.Errorf("unknown command")
}

func printPlan(d Desired) string {
	var out strings.Builder
	fmt.Fprintf(&out, "exclusive %s, shared %s\n", orNone(d.Exclusive), orNone(d.Shared))
	for _, t := range d.Tiers {
		if want := (Settings{Limits: bandwidth.Limits{Quota: bandwidth.Unlimited, Period: defaultPeriod}}); t.Settings != want {
			fmt.Fprintf(&out, "tier %s: %s\n", t.Tier, printBandwidth(t.Settings))
		}
	}
	for _, p := range d.Pods {
		separate := ""
		if p.Separate {
			separate = ", separate"
		}
		fmt.Fprintf(&out, "%s: %s%s\n", p.ID, printBandwidth(p.Settings), separate)
		for _, c := range p.Containers {
			fmt.Fprintf(&out, "  %s: %s %s, %s\n", c.Name, c.Home, orNone(c.CPUs), printBandwidth(c.Settings))
		}
	}
	for _, f := range d.Findings {
		fmt.Fprintf(&out, "%s: %v\n", f.Kind, f)
	}
	return out.String()
}

func printBandwidth(s Settings) string {
	text := "no quota"
	if s.Quota > 0 {
		text = fmt.Sprintf("quota %v in %v", s.Quota, s.Period)
	} else if s.Period != 100*time.Millisecond {
		text += fmt.Sprintf(" in %v", s.Period)
	}
	if s.Burst > 0 {
		text += fmt.Sprintf(", burst %v", s.Burst)
	}
	if s.Idle {
		text += ", idle"
	}
	if s.BVT != 0 {
		text += fmt.Sprintf(", bvt %d", s.BVT)
	}
	return text
}

func printSets(d Desired) string {
	var out strings.Builder
	for _, p := range d.Pods {
		for _, c := range p.Containers {
			if c.Home == HomeCoreSet {
				fmt.Fprintf(&out, "%s/%s: %s\n", p.ID, c.Name, c.CPUs)
			}
		}
	}
	for _, f := range d.Findings {
		fmt.Fprintf(&out, "%s: %v\n", f.Kind, f)
	}
	return out.String()
}

func printSole(d Desired) string {
	var out strings.Builder
	for _, p := range d.Pods {
		for _, c := range p.Containers {
			if c.Sole {
				fmt.Fprintf(&out, "%s/%s: %s\n", p.ID, c.Name, c.CPUs)
			}
		}
	}
	return out.String()
}

func orNone(cpus cpuset.Set) string {
	if cpus.IsEmpty() {
		return "none"
	}
	return cpus.String()
}

// setPhase parses POD CONTAINER.
func (s *scenario) setPhase(phase string, args []string) error {
	c, err := s.find(args[0], args[1])
	if err != nil {
		return err
	}
	c.Phase = map[string]Phase{"waiting": Waiting, "running": Running, "ended": Ended}[phase]
	return nil
}

func (s *scenario) find(pod, name string) (*Container, error) {
	for i := range s.state.Pods {
		if c := s.state.Pods[i].container(name); s.state.Pods[i].ID == ledger.PodID(pod) && c != nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no such container")
}

// container returns the container with the given name, or nil.
func (p *Pod) container(name string) *Container {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}
