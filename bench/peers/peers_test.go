package main

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/internal/command"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestOutput compares the kubelets on few free sets. It fails if an answer of one is better than
// Pinfold's. Times are those of a machine on which everything takes 9.876 us.
func TestOutput(t *testing.T) {
	var rows []row
	for _, mc := range machines() {
		more := must.Get(compare(t.Context(), mc, 2, func(string) {}))(t)
		for i := range more {
			if more[i].median <= 0 {
				t.Errorf("%+v: no time", more[i])
			}
			more[i].median = 9876 * time.Nanosecond
		}
		rows = append(rows, more...)
	}
	golden.Compare(t, "testdata/output.markdown", tables(rows))
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"-sets", "0"}, {"-sets", "many"}, {"now"}, {"-fast"}} {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), args, &stdout, &stderr)
		if !errors.Is(err, command.ErrUsage) || stdout.Len() > 0 {
			t.Errorf("%q: error %v and output %q, want wrong usage and none", args, err, stdout.String())
		}
	}
}

func TestJudge(t *testing.T) {
	ours := placement.Quality{NUMANodes: 2, Distance: 24, SplitCores: 1, LLCs: 3}
	for _, test := range []struct {
		theirs placement.Quality
		want   verdict
	}{
		{ours, asGood},
		{placement.Quality{NUMANodes: 3, Distance: 0, SplitCores: 0, LLCs: 1}, moreNodes},
		{placement.Quality{NUMANodes: 2, Distance: 64, SplitCores: 0, LLCs: 1}, moreDistance},
		{placement.Quality{NUMANodes: 2, Distance: 24, SplitCores: 2, LLCs: 1}, moreSplit},
		{placement.Quality{NUMANodes: 2, Distance: 24, SplitCores: 1, LLCs: 4}, moreLLCs},
		{placement.Quality{NUMANodes: 1, Distance: 99, SplitCores: 9, LLCs: 9}, better},
		{placement.Quality{NUMANodes: 2, Distance: 20, SplitCores: 9, LLCs: 9}, better},
		{placement.Quality{NUMANodes: 2, Distance: 24, SplitCores: 0, LLCs: 9}, better},
		{placement.Quality{NUMANodes: 2, Distance: 24, SplitCores: 1, LLCs: 2}, better},
	} {
		if got := judge(ours, test.theirs); got != test.want {
			t.Errorf("judge(%+v) = %q, want %q", test.theirs, got, test.want)
		}
	}
}

// first takes the lowest free CPUs.
func first(free cpuset.Set, n int) (a answer, err error) {
	for cpu := range free.All() {
		if a.cpus.Len() < n {
			a.cpus.Add(cpu)
		}
	}
	return a, nil
}

// always takes the same CPUs.
func always(cpus ...cpuset.CPU) chooser {
	return func(cpuset.Set, int) (answer, error) { return answer{cpus: cpuset.Of(cpus...)}, nil }
}

// TestBetterAnswerIsAnError replaces Pinfold by a bad chooser.
func TestBetterAnswerIsAnError(t *testing.T) {
	m := topology.Shape{CoresPerLLC: 4, ThreadsPerCore: 2}.MustBuild() // core c is CPUs c and c+4
	ix := placement.NewIndex(m)
	for _, test := range []struct {
		name string
		us   chooser
		want string
	}{
		{"splits cores", first, "Peer is better than Pinfold: 2 CPUs of 0-7: 0,4 "},
		{"too few", always(1), "Pinfold: asked for 2 CPUs of 0-7, got 1"},
		{"not free", always(1, 8), "Pinfold: asked for 2 CPUs of 0-7, got 1,8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := comparison{m, ix, []contender{{"Pinfold", test.us}, {"Peer", pinfold(ix, 1)}}}
			_, err := c.ask(t.Context(), []cpuset.Set{m.Online()}, 2)
			if err == nil || !bytes.HasPrefix([]byte(err.Error()), []byte(test.want)) {
				t.Errorf("error %v, want one that begins with %q", err, test.want)
			}
		})
	}
}
