package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/terminal"
)

// answer is a placement as JSON.
type answer struct {
	CPUs cpuset.Set `json:"cpus"`
	// NUMANodes are the numbers of the NUMA nodes, ascending; -1 stands for the
	// CPUs without one.
	NUMANodes  []topology.NUMAID `json:"numaNodes"`
	Packages   int               `json:"packages"`
	LLCs       int               `json:"llcs"`
	SplitCores int               `json:"splitCores"`
}

func newAnswer(m *topology.Machine, r placement.Result) answer {
	return answer{
		CPUs:       r.CPUs,
		NUMANodes:  m.NUMANodesOf(r.CPUs),
		Packages:   r.Quality.Packages,
		LLCs:       r.Quality.LLCs,
		SplitCores: r.Quality.SplitCores,
	}
}

// meaning says in words what a placement's CPUs are for.
func meaning(r placement.Request) string {
	if r.Policy == placement.StaticBurst {
		return fmt.Sprintf("shared CPUs to confine a container with a limit of %d to", r.CPUs)
	}
	return fmt.Sprintf("exclusive CPUs for a container with a limit of %d", r.CPUs)
}

// explain prints a placement for people: its CPUs, how good it is, and the map.
func explain(w io.Writer, m *topology.Machine, free cpuset.Set, request placement.Request, r placement.Result) error {
	a := newAnswer(m, r)
	var nodes []string
	for _, id := range a.NUMANodes {
		name := fmt.Sprint(id)
		if id == topology.NoNUMA {
			name = "none"
		}
		nodes = append(nodes, name)
	}
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "CPUs         %s\n", a.CPUs)
	fmt.Fprintf(b, "policy       %s: %s\n", request.Policy, meaning(request))
	fmt.Fprintf(b, "NUMA nodes   %s\n", strings.Join(nodes, ", "))
	fmt.Fprintf(b, "packages     %d\n", a.Packages)
	fmt.Fprintf(b, "LLCs         %d\n", a.LLCs)
	fmt.Fprintf(b, "split cores  %d\n", a.SplitCores)
	if !r.Exact {
		fmt.Fprintf(b, "note         too many NUMA nodes to prove that no other choice of nodes is nearer\n")
	}
	fmt.Fprintln(b)
	if err := b.Flush(); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	opts := terminal.MapOptions(w, os.Getenv)
	opts.Rest = "free"
	opts.Owners = []report.Owner{{Name: "chosen", CPUs: r.CPUs, Symbol: '■'}}
	if taken := m.Online().Difference(free); !taken.IsEmpty() {
		opts.Owners = append(opts.Owners, report.Owner{Name: "not free", CPUs: taken, Symbol: '-'})
	}
	return report.MachineMap(w, m, opts)
}
