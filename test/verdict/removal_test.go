package verdict

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/verdict"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestRemoval makes nodes of recorded programs, with limits and phases at random, and takes the limit of
// one program away where a verdict says that it protects nobody. It compares with
// docs/results/fleet/removal.md in how many periods others then waited more.
func TestRemoval(t *testing.T) {
	const nodes, harmless = 10_000, .01
	all := recordings(t, unseen)
	cases := judge(all, window)
	r := rand.New(rand.NewPCG(1, 2))
	said, wrong, worst := 0, 0, 0.
	for range nodes {
		c := &cases[r.IntN(len(cases))]
		cpus := []float64{2, 4, 8, 16}[r.IntN(4)]
		tail := c.verdict.Tail(cpus)
		if tail == nil {
			continue
		}
		var neighbours []verdict.Neighbour
		others := make([]float64, len(c.recorded.cpus))
		for range 1 + r.IntN(int(4*cpus)) {
			other := &cases[r.IntN(len(cases))]
			limit := other.limit * []float64{1, 1.5, 3}[r.IntN(3)]
			phase, used := r.IntN(len(other.recorded.cpus)), 0.
			done := other.recorded.done(limit)
			for i := range others {
				d := done[(i+phase)%len(done)]
				others[i] += d
				used += d
			}
			neighbours = append(neighbours, verdict.Neighbour{CPUs: used / float64(len(others)), Most: limit})
		}
		if tail.Delayed(neighbours) > harmless {
			continue
		}
		said++
		limited, more := c.recorded.done(c.limit), 0
		for i, others := range others {
			if others+c.recorded.cpus[i] > cpus && others+limited[i] <= cpus {
				more++
			}
		}
		delayed := float64(more) / float64(len(others))
		worst = max(worst, delayed)
		if delayed > harmless {
			wrong++
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| nodes | the limit protects nobody | wrong | most periods in which others waited more |\n|---|---|---|---|\n| %d | %d | %d | %.2f%% |\n", nodes, said, wrong, 100*worst)
	if said < 100 || wrong > said/100 {
		t.Errorf("%d of %d are wrong", wrong, said)
	}
	if shown := string(must.Get(os.ReadFile("../../docs/advice.md"))(t)); !strings.Contains(shown, table.String()) {
		t.Errorf("docs/advice.md does not show\n%s", table.String())
	}
	golden.Compare(t, "../../docs/results/fleet/removal.md", table.String())
}

// done returns the CPUs that the program gets in each period under a limit.
func (r *recorded) done(limit float64) []float64 {
	all, left := make([]float64, len(r.cpus)), 0.
	for i, wanted := range r.cpus {
		left += wanted
		all[i] = min(left, limit)
		left -= all[i]
	}
	return all
}
