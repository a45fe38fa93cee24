package scheduler

import (
	"context"
	"fmt"
	"testing"

	"pinfold.dev/pinfold/core/topology"
)

// BenchmarkUnchangedNode is what a node costs in a scheduling cycle that has not
// changed since a pod like this one was last looked at.
func BenchmarkUnchangedNode(b *testing.B) {
	p, node := barePlugin(b), nodeInfoOf("n", 256)
	reportMachine(b, p, "n", topology.AMD256().MustBuild(), 1)
	pod := askingPod("a", 4)
	state := startCycle(b, p, pod, node)
	b.ReportAllocs()
	for b.Loop() {
		if status := p.Filter(context.Background(), state, pod, node); !status.IsSuccess() {
			b.Fatal(status)
		}
		if _, status := p.Score(context.Background(), state, pod, node); !status.IsSuccess() {
			b.Fatal(status)
		}
	}
}

// BenchmarkChangedNode is what a node costs when a pod has come or gone since.
func BenchmarkChangedNode(b *testing.B) {
	for _, pods := range []int{0, 10, 50} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			p, node := barePlugin(b), nodeInfoOf("n", 256)
			reportMachine(b, p, "n", topology.AMD256().MustBuild(), 1)
			for i := range pods {
				pod := askingPod(fmt.Sprint("p", i), 4)
				assumed := assume(b, p, startCycle(b, p, pod, node), pod, node)
				comeBack(b, p, assumed, node)
			}
			pod := askingPod("a", 4)
			state := startCycle(b, p, pod, node)
			b.ReportAllocs()
			for b.Loop() {
				node.SetNode(node.Node()) // a new generation
				if status := p.Filter(context.Background(), state, pod, node); !status.IsSuccess() {
					b.Fatal(status)
				}
			}
		})
	}
}
