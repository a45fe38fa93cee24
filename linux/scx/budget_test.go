package scx

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"pinfold.dev/pinfold/test/bpf"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// TestBudgetCharges: CPU time that one CPU spends while others spend and the timer refills the
// bucket is spent.
func TestBudgetCharges(t *testing.T) {
	need.This(t, "this machine's BPF")
	spec := must.Get(ebpf.LoadCollectionSpecFromReader(bytes.NewReader(bpf.Compile(t, "testdata/budget.bpf.c"))))(t)
	var kernel struct {
		Spend  *ebpf.Program  `ebpf:"spend_often"`
		Refill *ebpf.Program  `ebpf:"refill_often"`
		Budget *ebpf.Variable `ebpf:"budget"`
		Tokens *ebpf.Variable `ebpf:"tokens"`
	}
	if err := spec.LoadAndAssign(&kernel, nil); errors.Is(err, os.ErrPermission) {
		t.Skipf("%v: run as root, or with CAP_BPF and CAP_PERFMON", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer kernel.Spend.Close()
	defer kernel.Refill.Close()
	const calls, times = 20, 50_000 // times is TIMES of the programs
	for _, c := range []struct {
		name         string
		budget       uint32 // thousandths of a CPU
		spent, after uint64 // ns each time, and between refills
		want         int64
	}{
		{"refills of nothing", 1000, 3, 0, -2 * 3 * calls * times},
		{"refills that do not suffice", 1000, 3, 4, (4 - 2*3) * calls * times},
		{"half a CPU", 500, 3, 4, (4/2 - 2*3) * calls * times},
		{"no bound", 1<<32 - 1, 3, 4, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var zero [8]int64
			must.Do(t, errors.Join(kernel.Budget.Set(c.budget), kernel.Tokens.Set(&zero)))
			var all sync.WaitGroup
			often := func(p *ebpf.Program, ns uint64) {
				all.Go(func() {
					for range calls {
						if ret, err := p.Run(&ebpf.RunOptions{Context: ns}); err != nil || ret != 0 {
							t.Errorf("returned %d: %v", ret, err)
						}
					}
				})
			}
			often(kernel.Spend, c.spent)
			often(kernel.Spend, c.spent)
			often(kernel.Refill, c.after)
			all.Wait()
			var tokens [8]int64
			if err := kernel.Tokens.Get(&tokens); err != nil || tokens[0] != c.want {
				t.Errorf("%d ns are left (%v), want %d: %d ns are lost", tokens[0], err, c.want, tokens[0]-c.want)
			}
		})
	}
}
