package demand

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// BenchmarkDraw draws from each distribution, and from ten clients that are on and off.
func BenchmarkDraw(b *testing.B) {
	processes := map[string]Process{}
	for _, words := range []string{"exponential .7", "pareto 4 .7", "truncated-pareto 4 .7 5", "poisson .7 10", "gamma .5 .7", "lognormal 1 .7", "empirical 0 .2 .7 3"} {
		d := must.Get(parse(strings.Fields(words)))(b)
		processes[strings.Fields(words)[0]] = Independent{d}
	}
	var err error
	if processes["onoff"], err = NewOnOff(.7, 3, 7, 10); err != nil {
		b.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(processes)) {
		p := processes[name]
		b.Run(name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			s, sum := p.Start(r), 0.0
			for range b.N {
				sum += s.Next(r)
			}
			if mean := sum / float64(b.N); b.N > 10_000 && (mean < .5*p.Mean() || mean > 2*p.Mean()) {
				b.Errorf("mean %v, want %v", mean, p.Mean())
			}
		})
	}
}
