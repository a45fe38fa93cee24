package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/local/simnode"
	"pinfold.dev/pinfold/report"
)

// Real is this machine as a node of the cluster.
type Real struct {
	Name      string
	Machine   *topology.Machine
	MinShared int // number of CPUs that stay shared
}

// settleTimeout limits the wait until containers run on their CPUs.
const settleTimeout = 20 * time.Second

// linger is how long containers are observed afterwards, while they start threads.
const linger = time.Second

// realRounds returns rounds of one workload each, because this machine may be too small for more.
func realRounds() []round {
	var all []round
	for _, policy := range []placement.Policy{placement.Static, placement.StaticBurst} {
		for _, workload := range []struct {
			name  string
			files []string
		}{
			{"cal-pi", []string{"cal-pi.yaml"}},
			{"go-demo", []string{"go-demo.yaml"}},
			{"nginx", []string{"service.yaml", "configmap.yaml", "nginx.yaml"}},
		} {
			all = append(all, round{title: workload.name + ", policy " + string(policy), files: workload.files, policy: policy})
		}
	}
	return all
}

// RunReal runs the workloads on this machine, one after the other, and shows the kernel's view of
// their threads. It needs the rights to read that.
func RunReal(ctx context.Context, config *rest.Config, real Real, out Output) error {
	cpus := real.Machine.Online().Len() - real.MinShared
	if cpus < 1 {
		return fmt.Errorf("this machine has %s, and %d must stay shared: no pod can have exclusive CPUs",
			quantity.Count(real.Machine.Online().Len(), "CPU"), real.MinShared)
	}
	cluster, err := newCluster(config)
	if err != nil {
		return err
	}
	kernel, err := openKernel()
	if err != nil {
		return err
	}
	s := stage{cluster: cluster, view: newView([]simnode.Node{{Name: real.Name, Machine: real.Machine}}), out: out, kernel: kernel, cpus: cpus}
	return s.show(ctx, realRounds(), "On this machine, %d of %d: %s", "round %d on this machine")
}

// observe reads the state of the containers until the threads of each have the CPUs of its
// placement, and a little longer. It returns, by pod, the observation with the most threads since
// then, or else the last one.
func observe(ctx context.Context, cluster *cluster, kernel *kernel, placed []placed) (map[string]seen, error) {
	found := map[string]seen{}
	right := false
	for deadline := time.Now().Add(settleTimeout); ; {
		pods, err := cluster.pods(ctx)
		if err != nil {
			return nil, err
		}
		for i := range pods {
			now, err := kernel.look(&pods[i])
			if err != nil {
				return nil, err
			}
			if before := found[pods[i].Name]; now.threads > 0 && (!right || now.threads >= before.threads) {
				found[pods[i].Name] = now
			}
		}
		if !right && settled(placed, found) {
			right, deadline = true, time.Now().Add(linger)
		}
		if time.Now().After(deadline) {
			return found, nil
		}
		if !sleep.For(ctx, pollInterval) {
			return nil, context.Cause(ctx)
		}
	}
}

// settled reports whether all containers run where they were placed.
func settled(placed []placed, found map[string]seen) bool {
	for _, p := range placed {
		if s := found[p.name]; s.threads == 0 || s.uneven || !s.allowed.IsSubsetOf(p.cpus) {
			return false
		}
	}
	return true
}

// showReal writes the report of a round: the agent's allocations and the kernel's view.
func (v *view) showReal(out Output, heading string, changes cut, placed []placed, found map[string]seen) error {
	if _, err := fmt.Fprintf(out.Writer, "%s\n%s\n\n", underline(heading), changes); err != nil {
		return err
	}
	options := out.Map
	right := 0
	for _, p := range placed {
		s := found[p.name]
		if s.threads == 0 {
			fmt.Fprintf(out.Writer, "%s did not run, or ended before it was observed\n\n", p.name)
			continue
		}
		if !s.uneven && s.allowed.IsSubsetOf(p.cpus) {
			right++
		}
		options.Owners = append(options.Owners, report.Owner{
			Name: p.name, CPUs: s.allowed, Confined: p.policy == placement.StaticBurst, Note: s.String(),
		})
	}
	if err := report.MachineMap(out.Writer, v.indexes[v.names[0]].Machine(), options); err != nil {
		return fmt.Errorf("draw node %s: %w", v.names[0], err)
	}
	var choices []string
	for _, p := range placed {
		choices = append(choices, fmt.Sprintf("CPU %s to %s", p.cpus, p.name))
	}
	_, err := fmt.Fprintf(out.Writer, "\nThe agent gave %s; the kernel keeps %d of %s there.\n\n",
		strings.Join(choices, ", "), right, quantity.Count(len(placed), "container"))
	return err
}
