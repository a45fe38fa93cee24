package control

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/agent/control/allocate"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/kube/api"
)

// checkMove checks what the agent has just moved: at most one pod in a minute, none that opted out,
// to better CPUs, and within the NUMA nodes of each container unless others are permitted.
func (n *fakeNode) checkMove(before map[types.UID]api.Allocation) {
	m := n.control.allocate.Moved()
	if m == nil {
		return
	}
	broken := func(format string, args ...any) {
		n.broken = append(n.broken, fmt.Sprintf("%s is %s: ", m.Pod.Name, m.Text)+fmt.Sprintf(format, args...))
	}
	if since := n.now.Sub(n.moved); since < time.Minute {
		broken("the last move was %v ago", since)
	}
	n.moved, n.moves = n.now, n.moves+1
	if n.config.Observe || !n.config.Allocates || n.config.Repack == "" || n.config.Repack == allocate.RepackNone {
		broken("nothing may move")
	}
	if m.Pod.Annotations[api.MoveAnnotation] == "false" {
		broken("it opted out")
	}
	machine := n.control.node.index.Machine()
	for uid, now := range n.control.Given().Pods {
		was, had := before[uid]
		var old, next cpuset.Set
		for i, c := range now.Containers {
			next = next.Union(c.CPUs)
			if !had || uid != m.Pod.UID && was.Containers[i].CPUs != c.CPUs {
				broken("%s gets CPUs %s, too", uid, c.CPUs)
				continue
			}
			old = old.Union(was.Containers[i].CPUs)
			from := machine.NUMANodesOf(was.Containers[i].CPUs)
			for _, id := range machine.NUMANodesOf(c.CPUs) {
				if n.config.Repack != allocate.RepackNUMA && !slices.Contains(from, id) {
					broken("container %s leaves NUMA nodes %v", c.Name, from)
				}
			}
		}
		if uid == m.Pod.UID && slices.Compare(n.criteria(next), n.criteria(old)) >= 0 {
			broken("that is no better than CPUs %s", old)
		}
	}
}

// criteria are the qualities that make a move worth it. The fewer the better.
func (n *fakeNode) criteria(cpus cpuset.Set) []int {
	q := n.control.node.index.Quality(cpus)
	all := []int{q.Kinds, q.NUMANodes, q.Distance, q.SplitCores, q.LLCs}
	if n.config.Repack == allocate.RepackCores {
		return all[:4]
	}
	return all
}

// TestMoves runs random operations on a node whose agent moves pods: pods of all kinds come and go,
// CPUs go offline, writes are rejected, nothing can be saved, what was saved is lost or old, and agents
// with other flags start. The fake node checks each write and each move. When nothing changes any more, moves come to an end.
func TestMoves(t *testing.T) {
	moves := 0
	check := func(t *rapid.T) {
		n := newFakeNode()
		var history []string
		do := func(format string, args ...any) string {
			line := fmt.Sprintf(format, args...)
			history = append(history, line)
			out, err := n.run(strings.Fields(line))
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if len(n.broken) > 0 {
				t.Fatalf("%s\nafter\n%s", strings.Join(n.broken, "\n"), strings.Join(history, "\n"))
			}
			return out
		}
		cgroups := rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "cgroup")
		start := func() { // an agent does not know what an earlier one could not move
			clear(n.kernel.faults)
			do("agent allocator=node repack=%s min-shared=%d", rapid.SampledFrom([]string{"cores", "llcs", "numa-nodes", "numa-nodes", "none"}).Draw(t, "repack"),
				rapid.IntRange(0, 1).Draw(t, "shared"))
			do("%s", rapid.SampledFrom([]string{"keep", "keep", "revert", "forget"}).Draw(t, "saved"))
			do("restart")
		}
		do("machine %s cores=3 threads=2 cgroup=%s", rapid.SampledFrom([]string{"numa=1", "numa=2", "llcs=2"}).Draw(t, "machine"), cgroups)
		start()
		names := 0
		add := func(pods int, resources string) {
			for range pods {
				names++
				do("pod p%d %s", names, resources)
				do("%s p%d/app", rapid.SampledFrom([]string{"create", "runtime"}).Draw(t, "how"), names)
				do("status p%d/app", names)
			}
		}
		end := func() {
			for _, of := range slices.Sorted(maps.Keys(n.ids)) {
				if rapid.Bool().Draw(t, "ends") {
					do("remove %s", strings.TrimSuffix(of, "/app"))
					do("end %s", of)
				}
			}
		}
		for range rapid.IntRange(4, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				start()
			case 1:
				do("disk %s", rapid.SampledFrom([]string{"full", "free", "free"}).Draw(t, "disk"))
			case 2:
				if n.kernel.v2 { // version 1 may leave a group without CPUs
					do("%s %d", rapid.SampledFrom([]string{"offline", "online"}).Draw(t, "hotplug"), rapid.IntRange(1, 5).Draw(t, "cpu"))
				}
			case 3:
				if len(n.ids) > 0 {
					do("%s %s", rapid.SampledFrom([]string{"refuse", "accept"}).Draw(t, "fault"), rapid.SampledFrom(slices.Sorted(maps.Keys(n.ids))).Draw(t, "group"))
				}
			case 4:
				add(1, rapid.SampledFrom([]string{"app=500m", "app=2@?1 policy=static-burst", "app=2@? full-cores=required"}).Draw(t, "other"))
			case 5:
				end()
			default: // pods that get halves of cores
				add(rapid.IntRange(7, 12).Draw(t, "pods"), "app=1@?")
				do("round")
				end()
				add(rapid.IntRange(1, 3).Draw(t, "pods"), fmt.Sprintf("app=%d@?", rapid.IntRange(2, 4).Draw(t, "cpus"))+
					rapid.SampledFrom([]string{"", "", "", " side=1@?", " side=1", " move=false"}).Draw(t, "more"))
				do("round")
				end()
			}
			do("round")
			for range rapid.IntRange(0, 3).Draw(t, "minutes") {
				do("wait 1m")
				do("round")
			}
		}
		clear(n.kernel.faults)
		do("disk free")
		for range 50 {
			do("wait 1m")
			if do("round") == "nothing to do\n" {
				moves += n.moves
				return
			}
		}
		t.Fatalf("pods still move after\n%s", strings.Join(history, "\n"))
	}
	for tries := 0; moves == 0 && tries < 10; tries++ { // few runs may move nothing by chance
		rapid.Check(t, check)
	}
	t.Logf("%d moves", moves)
	if moves == 0 {
		t.Fatal("no pod has moved")
	}
}
