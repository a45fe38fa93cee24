package cpus

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/agent/control/controltest"
	"pinfold.dev/pinfold/linux/cgroup"
)

// TestScenarios runs testdata/*.txt; see [controltest.Node]. The commands of this controller:
//
//	round, round fails
//	    prints the changes in their order; no container can become a partition
//	create POD/CONTAINER
//	    prints the CPUs with which a container is to be created
//	restore
//	    prints the changes that give all CPUs to all
func TestScenarios(t *testing.T) {
	controltest.Scenarios(t, func(n *controltest.Node) func([]string) (string, error) {
		c := New(cgroup.PartitionRoot)
		return func(words []string) (string, error) {
			switch words[0] {
			case "round":
				n.Locate()
				n.State.Previous = c.CoreSets(&n.Round)
				n.Plan(nil)
				out, partitions := apply(n, c.Decide(&n.Round), len(words) > 1)
				c.Applied(n.Round.Now, partitions)
				n.Round.First = false
				return out, nil
			case "create":
				for _, l := range n.Round.Planned {
					if strings.HasSuffix(l.Path, words[1]) {
						container, _ := n.Round.PlanOf(l.Ref)
						cpus, planned := c.Create(&n.Round, l.Ref.Pod, container)
						return fmt.Sprintf("CPUs %q, planned: %v\n", cpus, planned), nil
					}
				}
				return "", errors.New("no such container")
			case "restore":
				out, _ := apply(n, c.Restore(&n.Round), false)
				return out, nil
			}
			return "", fmt.Errorf("unknown command %q", words[0])
		}
	})
}

// apply applies changes, and returns them as text and the containers that could not become
// partitions.
func apply(n *controltest.Node, a Changes, fails bool) (out string, failed map[string]error) {
	out = n.Apply(a.Release) + n.Apply(a.Widen)
	for _, m := range a.Moves {
		out += n.Apply(map[string]cgroup.Wanted{m.Path: {CPUs: &m.CPUs}})
	}
	for _, path := range slices.Sorted(maps.Keys(a.Narrow)) {
		cpus := a.Narrow[path].CPUs
		out += n.Apply(map[string]cgroup.Wanted{path: {CPUs: &cpus}})
	}
	if !fails {
		return out + n.Apply(a.Partitions), nil
	}
	failed = map[string]error{}
	for _, path := range slices.Sorted(maps.Keys(a.Partitions)) {
		failed[path] = errors.New("invalid")
		out += "tried " + path + "\n"
	}
	return out, failed
}
