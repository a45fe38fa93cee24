package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/golden"
)

// TestScenarios runs testdata/*.txt. A scenario is a sequence of blocks: commands, one per line,
// then "----" and their output. Lines that start with # are comments. The commands:
//
//	machine packages=1 numa=2 llcs=1 cores=4 threads=2 offline=7
//	    the node's machine, counts per parent
//	offline 3,7
//	    exactly these CPUs of the machine are offline from now on
//	config reserved=500m cpus=0-1 min-shared=1
//	    the reserved amount, the reserved CPUs, the minimum number of shared CPUs
//	bind POD rank=1 static-burst full-cores shared=500m CONTAINER...
//	    decide about a pod and add the decision; static if no policy is given
//	ask ...
//	    the same without adding it
//	claim POD rank=1 shared=500m CONTAINER...
//	    add a claim as given, as for a pod bound without the scheduler
//	remove POD, restart, books
//	    restart rebuilds the books from the claims, the last one first
//
// A container is NAME=CPUS or NAME=CPUS:REQUEST, in claims followed by @ and its CPUs, or by @node
// and its NUMA nodes. init/NAME is an ordinary init container, sidecar/NAME a restartable one.
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		var node scenario
		return golden.Blocks(t, text, node.run)
	})
}

// scenario is the node of a scenario.
type scenario struct {
	shape  topology.Shape
	index  *placement.Index
	config Config
	books  *Books
}

func (s *scenario) run(words []string) (string, error) {
	command, args := words[0], words[1:]
	switch command {
	case "machine":
		return "", s.setMachine(args)
	case "offline":
		return "", s.setOffline(strings.Join(args, ","), s.books.Claims()...)
	case "config":
		return "", s.setConfig(args)
	case "books":
		return s.print(), nil
	case "restart":
		return s.restart()
	}
	if len(args) == 0 {
		return "", fmt.Errorf("no pod is named")
	}
	pod, err := parsePod(args)
	if err != nil {
		return "", err
	}
	switch command {
	case "bind", "ask":
		return s.decide(pod, command == "bind"), nil
	case "claim":
		s.books.Add(pod.claim())
		return "", nil
	case "remove":
		s.books = without(s.books, pod.id)
		return "", nil
	}
	return "", fmt.Errorf("unknown command")
}

func (s *scenario) decide(pod podArgs, book bool) string {
	d, err := s.books.Decide(pod.ask())
	if err != nil {
		return fmt.Sprintf("%s: refused: %v\n", pod.id, err)
	}
	var out strings.Builder
	for _, c := range d.Containers {
		fmt.Fprintf(&out, "%s/%s: ", pod.id, c.Name)
		if c.Policy == placement.Static {
			fmt.Fprintf(&out, "CPUs %s\n", c.CPUs)
		} else {
			fmt.Fprintf(&out, "confined to NUMA %s\n", nodeList(c.NUMANodes))
		}
	}
	if d.Containers == nil {
		fmt.Fprintf(&out, "%s: shared CPUs\n", pod.id)
	}
	if book {
		s.books.Add(d.Claim(pod.id, pod.rank))
	}
	return out.String()
}

// restart rebuilds the books from the claims.
func (s *scenario) restart() (string, error) {
	claims := s.books.Claims()
	slices.Reverse(claims)
	anew := New(s.index, s.config, claims...)
	if d := diff(s.books, anew); d != "" {
		return "", fmt.Errorf("the books differ (-before +after):\n%s", d)
	}
	s.books = anew
	return "the books are as before\n", nil
}

// print returns the state of the books as text.
func (s *scenario) print() string {
	var out strings.Builder
	b := s.books
	fmt.Fprintf(&out, "exclusive  %s\n", orNone(b.Exclusive().String()))
	for _, claim := range b.granted() {
		for _, c := range claim.Portions() {
			if !c.CPUs.IsEmpty() {
				fmt.Fprintf(&out, "           %s to %s/%s\n", c.CPUs, claim.ID, c.Name)
			}
		}
	}
	fmt.Fprintf(&out, "shared     %s: %s CPUs, %s requested or reserved\n", orNone(b.Shared().String()),
		wholeCPUs(b.Shared().Len()), b.SharedRequests())
	fmt.Fprintf(&out, "free       %s\n", orNone(b.free().String()))
	for _, c := range b.confinements {
		fmt.Fprintf(&out, "confined   to NUMA %s: %d shared CPUs, %s requested\n",
			nodeList(b.ids(c.nodes)), b.Shared().Intersection(c.cpus).Len(), c.demand)
	}
	if len(b.confinements) > 0 {
		fmt.Fprintf(&out, "available  %v on NUMA %s\n", b.available, nodeList(b.nodeIDs))
	}
	for _, c := range b.Conflicts() {
		fmt.Fprintf(&out, "lost       %s\n", c.ID)
	}
	for _, o := range b.Offline() {
		fmt.Fprintf(&out, "offline    %v\n", o)
	}
	for _, o := range b.Overflow() {
		fmt.Fprintf(&out, "overflow   %v\n", o)
	}
	return out.String()
}

func orNone(list string) string {
	if list == "" {
		return "none"
	}
	return list
}
