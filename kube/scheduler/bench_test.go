package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/scheduler/agents"
	"pinfold.dev/pinfold/test/must"
)

// BenchmarkNamespaceCeiling measures the check of a ceiling per pod if the namespace has 4,000 pods
// with exclusive CPUs on 1,000 nodes.
func BenchmarkNamespaceCeiling(b *testing.B) {
	p := barePlugin(b)
	most := 1 << 20
	p.args.Ceilings.Default.ExclusiveCPUs.PerNamespace = &most
	machine := topology.AMD256().MustBuild()
	nodes := make([]fwk.NodeInfo, 1000)
	for i := range nodes {
		name := fmt.Sprint("n", i)
		node := nodeInfoOf(name, 256)
		reportMachine(b, p, name, machine, 1)
		for j := range 4 {
			pod := askingPod(fmt.Sprintf("p%d-%d", i, j), 4)
			assumed := assume(b, p, startCycle(b, p, pod, node), pod, node)
			comeBack(b, assumed, node)
		}
		nodes[i] = node
	}
	pod := askingPod("a", 4)
	state := startCycle(b, p, pod, nodes[0])
	c := must.Get(cycleOf(state))(b)
	for _, node := range nodes { // derives the states
		p.Filter(context.Background(), state, pod, node)
	}
	b.ReportAllocs()
	for b.Loop() {
		if message := p.aboveCeiling(&c.question, pod, nodes); message != "" {
			b.Fatal(message)
		}
	}
}

// BenchmarkReadTopology measures the cost per node when the scheduler starts: its object is decoded
// and checked.
func BenchmarkReadTopology(b *testing.B) {
	for name, machine := range map[string]*topology.Machine{"intel-104": topology.Intel104().MustBuild(), "amd-256": topology.AMD256().MustBuild()} {
		obj, err := nodetopology.FromMachine("n", machine, nodetopology.State{AgentHealth: nodetopology.AgentHealthy, AgentLease: nodetopology.LeaseNamespace + "/n"})
		if err != nil {
			b.Fatal(err)
		}
		text, err := json.Marshal(obj)
		if err != nil {
			b.Fatal(err)
		}
		reports := agents.New("", 0, time.Now)
		kept, err := reports.Transform(obj) // keeps the index from being collected
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				var obj nodetopology.NodeTopology
				if err := json.Unmarshal(text, &obj); err != nil {
					b.Fatal(err)
				}
				if _, err := reports.Transform(&obj); err != nil {
					b.Fatal(err)
				}
			}
		})
		runtime.KeepAlive(kept)
	}
}
