package bandwidthtest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestFluidGroupIsController gives every request its own CPU and at most half a period of work, so
// only the bucket limits it. Writes are in the middle of periods.
func TestFluidGroupIsController(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimits(t)
		const periods, most = 20, 3
		c, errC := NewController(l)
		g, errG := NewGroup(Fluid(periods*most), l)
		if errC != nil || errG != nil {
			t.Fatal(errC, errG)
		}
		cpu := 0
		for p := range time.Duration(periods) {
			var demand time.Duration
			for range rapid.IntRange(0, most).Draw(t, "requests") {
				work := time.Duration(rapid.Int64Range(1, int64(l.Period/2)).Draw(t, "work"))
				g.Submit(Request{Work: work, CPU: cpu})
				demand += work
				cpu++
			}
			c.Use(demand)
			if rapid.Bool().Draw(t, "write") {
				next := drawLimits(t)
				next.Period = l.Period
				g.Advance(p*l.Period + l.Period/2)
				if err := errors.Join(c.Write(next), g.Write(next)); err != nil {
					t.Fatal(err)
				}
				c.Use(0)
			}
			c.Tick()
			g.Advance((p + 1) * l.Period)
			got := g.Stats()
			got.ThrottledTime = 0
			if diff := cmp.Diff(c.Stats(), got); diff != "" || c.Backlog() != g.Backlog() {
				t.Fatalf("backlog %v and %v, stats: -controller +group\n%s", c.Backlog(), g.Backlog(), diff)
			}
		}
	})
}
