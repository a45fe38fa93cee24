// Package demo runs the example manifests on a cluster and shows where their pods were placed.
// [Run] uses simulated nodes; [RunReal] uses this machine.
//
// [Run] has three rounds: nginx without placement, everything with the manifests' own policy
// (static), and everything with policy static-burst. Each round creates its objects, waits until
// all of their pods are bound and have their CPUs, draws the result, and deletes the objects again.
//
// [RunReal] runs the workloads on a real node, one at a time, and shows the kernel's view of their
// containers' threads.
//
// Each placement is rated against the best placement that the same container could get on the same
// machine with nothing else running.
package demo

import (
	"context"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/local/simnode"
	"pinfold.dev/pinfold/report"
)

// SelectedLabels are the labels of the node that the nginx manifest selects.
var SelectedLabels = map[string]string{"policy": "intel7"}

// Output is the output of a demo.
type Output struct {
	Writer   io.Writer
	Map      report.MapOptions // options of the maps of nodes, without owners
	Progress func(step string) // is called with a short description of each step
}

// round is one set of manifests.
type round struct {
	title  string
	files  []string
	policy placement.Policy // replaces static, the policy of the manifests, unless it is ""
	maps   bool             // whether to draw maps
}

func rounds() []round {
	all := []string{"cal-pi.yaml", "go-demo.yaml", "service.yaml", "configmap.yaml", "nginx.yaml"}
	return []round{
		{
			title: "nginx without placement",
			files: []string{"service.yaml", "configmap.yaml", "nginx-baseline.yaml"},
		},
		{
			title: "policy static, CPUs that no other pod gets",
			files: all,
			maps:  true,
		},
		{
			title:  "policy static-burst, close together on shared CPUs",
			files:  all,
			policy: placement.StaticBurst,
			maps:   true,
		},
	}
}

// Run shows all rounds on a cluster that consists of these nodes.
func Run(ctx context.Context, config *rest.Config, nodes []simnode.Node, out Output) error {
	cluster, err := newCluster(config)
	if err != nil {
		return err
	}
	s := stage{cluster: cluster, view: newView(nodes), out: out}
	return s.show(ctx, rounds(), "Round %d of %d: %s", "round %d")
}

// stage is where rounds are shown.
type stage struct {
	cluster *cluster
	view    *view
	out     Output
	kernel  *kernel // of this machine, if the only node of the view is a real one
	cpus    int     // of this machine that a pod may have
}

// show shows rounds, with headings and steps of these forms.
func (s stage) show(ctx context.Context, rounds []round, heading, step string) error {
	for i, r := range rounds {
		s.out.Progress(fmt.Sprintf(step, i+1))
		if err := s.round(ctx, r, fmt.Sprintf(heading, i+1, len(rounds), r.title)); err != nil {
			return fmt.Errorf(step+": %w", i+1, err)
		}
	}
	return nil
}

func (s stage) round(ctx context.Context, r round, heading string) error {
	objects, err := loadManifests(r.files, r.policy)
	if err != nil {
		return err
	}
	var changes cut
	if s.kernel != nil {
		if changes, err = fit(objects, s.view.names[0], s.cpus); err != nil {
			return err
		}
	}
	placed, err := s.view.place(ctx, s.cluster, objects)
	if err != nil {
		return err
	}
	if s.kernel == nil {
		err = s.view.show(s.out, heading, placed, r.maps)
	} else {
		var found map[string]seen
		if found, err = observe(ctx, s.cluster, s.kernel, placed); err == nil {
			err = s.view.showReal(s.out, heading, changes, placed, found)
		}
	}
	if err != nil {
		return err
	}
	return s.cluster.delete(ctx, objects)
}

// view contains the nodes and their machines.
type view struct {
	names   []string
	indexes map[string]*placement.Index // of the machines, by node
}

func newView(nodes []simnode.Node) *view {
	v := &view{indexes: map[string]*placement.Index{}}
	shared := map[*topology.Machine]*placement.Index{}
	for _, node := range nodes {
		index, ok := shared[node.Machine]
		if !ok {
			index = placement.NewIndex(node.Machine)
			shared[node.Machine] = index
		}
		v.names = append(v.names, node.Name)
		v.indexes[node.Name] = index
	}
	return v
}

// place creates objects and returns the placements of their containers.
func (v *view) place(ctx context.Context, cluster *cluster, objects []*unstructured.Unstructured) ([]placed, error) {
	if err := cluster.create(ctx, objects); err != nil {
		return nil, err
	}
	pods, err := cluster.awaitBound(ctx, podCount(objects))
	if err != nil {
		return nil, err
	}
	allocations, err := cluster.awaitAllocated(ctx, pods)
	if err != nil {
		return nil, err
	}
	return v.placements(pods, allocations)
}
