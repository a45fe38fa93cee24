package interference

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"pinfold.dev/pinfold/core/demand"
)

// rows draws demands less quotas, several periods at a time.
type rows struct {
	drawer drawer
	all    []int64
	at, m  int
}

func newRows(d drawer, m int) *rows {
	all := make([]int64, max(1, 1024/m)*m)
	return &rows{drawer: d, all: all, at: len(all), m: m}
}

// next returns one period, valid until the next call.
func (r *rows) next() ([]int64, error) {
	if r.at == len(r.all) {
		if err := r.drawer.draw(r.all); err != nil {
			return nil, err
		}
		r.at = 0
	}
	row := r.all[r.at : r.at+r.m]
	r.at += r.m
	return row, nil
}

// drawer fills excesses with the demands of consecutive groups less their quotas, in ticks.
type drawer interface {
	draw(excesses []int64) error
}

// newDrawer returns the fastest drawer for a kind of group. It draws rows of demands, one for each
// group; most is the largest demand that the simulator can hold.
func newDrawer(k planKind, most int64, r *rand.Rand) drawer {
	if k.ziggurat != nil {
		return &ziggurats{ziggurat: k.ziggurat, state: generator(r.Uint64()), offset: k.quota - k.minimum, most: most}
	}
	s := &sources{each: make([]demand.Source, k.count), r: r, quota: float64(k.quota), most: float64(most)}
	for i := range s.each {
		s.each[i] = k.demand.Start(r)
	}
	return s
}

// ziggurats draws from a ziggurat and subtracts offset.
type ziggurats struct {
	ziggurat     *ziggurat
	state        generator
	offset, most int64
}

func (z *ziggurats) draw(excesses []int64) error {
	if x := z.ziggurat.fill(excesses, z.offset, &z.state); x > float64(z.most) {
		return fmt.Errorf("a demand was %.3g times what the simulator can hold; truncate the distribution", x/float64(z.most))
	}
	return nil
}

// sources draws from any process, with one source per group.
type sources struct {
	each        []demand.Source
	r           *rand.Rand
	quota, most float64
}

func (s *sources) draw(excesses []int64) error {
	for len(excesses) > 0 {
		for i, source := range s.each {
			x := source.Next(s.r)
			t := x * s.quota
			if !(t >= 0 && t <= s.most) {
				return fmt.Errorf("a demand of %v quotas was drawn; it must be a number from 0 to %.3g", x, s.most/s.quota)
			}
			excesses[i] = int64(t+0.5) - int64(s.quota)
		}
		excesses = excesses[len(s.each):]
	}
	return nil
}

// ziggurat draws from a falling density as integers: the ziggurat of 256 layers of equal area (G.
// Marsaglia and W. W. Tsang, The ziggurat method for generating random variables, 2000). About 99
// of 100 draws take one random word, one comparison and one multiplication.
type ziggurat struct {
	density density
	scale   float64 // ticks per unit of the density
	layers  [256]layer
	widths  [257]float64 // of the layers, from the lowest to the highest; the last is 0
}

// layer holds what a common draw needs: a word below accept is certainly under the curve; width is
// in 1/2^fraction of a tick.
type layer struct{ accept, width uint64 }

const fraction = 24

// density falls from 1 at 0. It need not be normalised.
type density interface {
	at(x float64) float64
	inverse(y float64) float64
	beyond(x float64) float64 // the area of the tail beyond x
	// tail draws from the tail beyond x, with a random number u in (0, 1].
	tail(x, u float64) float64
}

// falling is exp(-x).
type falling struct{}

func (falling) at(x float64) float64      { return math.Exp(-x) }
func (falling) inverse(y float64) float64 { return -math.Log(y) }
func (falling) beyond(x float64) float64  { return math.Exp(-x) }
func (falling) tail(x, u float64) float64 { return x - math.Log(u) }

// power is (1+x)^-(shape+1): a Pareto distribution beyond its minimum, which is the unit.
type power struct{ shape float64 }

func (p power) at(x float64) float64      { return math.Pow(1+x, -p.shape-1) }
func (p power) inverse(y float64) float64 { return math.Pow(y, -1/(p.shape+1)) - 1 }
func (p power) beyond(x float64) float64  { return math.Pow(1+x, -p.shape) / p.shape }
func (p power) tail(x, u float64) float64 { return (1+x)*math.Pow(u, -1/p.shape) - 1 }

// zigguratOf returns the ziggurat of a demand, or nil if it has none, and the minimum demand in
// ticks, which has to be added to draws.
func zigguratOf(p demand.Process, quota int64) (*ziggurat, int64) {
	i, ok := p.(demand.Independent)
	if !ok {
		return nil, 0
	}
	switch d := i.Distribution.(type) {
	case demand.Exponential:
		return newZiggurat(falling{}, d.Mean()*float64(quota)), 0
	case demand.Pareto:
		if math.IsInf(d.Bound, 1) {
			minimum := d.Minimum * float64(quota)
			return newZiggurat(power{d.Shape}, minimum), int64(minimum + 0.5)
		}
	}
	return nil, 0
}

// newZiggurat finds the width of the lowest layer for which the highest layer ends at 1. It returns
// nil if the layers are too wide for integers.
func newZiggurat(d density, scale float64) *ziggurat {
	z := &ziggurat{density: d, scale: scale}
	low, high := 0.0, 1.0
	for z.stack(high) {
		if high *= 2; high > 1e9 {
			return nil
		}
	}
	for range 100 {
		if middle := (low + high) / 2; z.stack(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	z.stack(high)
	if z.widths[0]*scale >= 1<<(63-fraction) {
		return nil
	}
	for i := range z.layers {
		z.layers[i] = layer{
			accept: uint64(z.widths[i+1] / z.widths[i] * (1 << 63) * 2),
			width:  uint64(z.widths[i] * scale * (1 << fraction)),
		}
	}
	return z
}

// stack builds layers on a lowest one that ends at x, and reports whether they are too high.
func (z *ziggurat) stack(x float64) bool {
	area := x*z.density.at(x) + z.density.beyond(x)
	z.widths[0], z.widths[1] = area/z.density.at(x), x
	for i := 1; i < 256; i++ {
		top := area/z.widths[i] + z.density.at(z.widths[i])
		if i == 255 {
			return top > 1
		}
		if top >= 1 {
			return true
		}
		z.widths[i+1] = z.density.inverse(top)
	}
	return false
}

// generator is wyrand (Wang Yi, 2019; public domain): a counter of 64 bits and a mixing
// multiplication. It passes the usual test batteries, and consecutive words do not depend on each
// other's computation.
type generator uint64

const (
	generatorStep = 0x2d358dccaa6c78a5
	generatorMix  = 0x8bb84b93962eacc9
)

func (g *generator) next() uint64 {
	*g += generatorStep
	high, low := bits.Mul64(uint64(*g), uint64(*g)^generatorMix)
	return high ^ low
}

// unit returns a number in [0, 1).
func (g *generator) unit() float64 { return float64(g.next()>>11) * 0x1p-53 }

// fill writes draws less an offset, in ticks, and returns the largest of the uncommon draws. The
// loop inlines generator.next and the common case by hand: calls would double the time, and a
// generator whose address is taken would be kept in memory instead of a register.
func (z *ziggurat) fill(ticks []int64, offset int64, g *generator) float64 {
	state, largest := *g, 0.0
	for i := range ticks {
		state += generatorStep
		high, low := bits.Mul64(uint64(state), uint64(state)^generatorMix)
		word := high ^ low
		l := &z.layers[word&255]
		if word >= l.accept {
			var x float64
			x, state = z.edge(word, state)
			largest = max(largest, x)
			ticks[i] = int64(min(x, roomTicks)) - offset
			continue
		}
		scaled, _ := bits.Mul64(word, l.width)
		ticks[i] = int64(scaled>>fraction) - offset
	}
	*g = state
	return largest
}

// edge completes a draw whose word is not certainly under the curve. It returns the draw in ticks
// and the generator's next state.
func (z *ziggurat) edge(word uint64, g generator) (float64, generator) {
	for {
		i := word & 255
		x := float64(word>>11) * 0x1p-53 * z.widths[i]
		switch {
		case word < z.layers[i].accept:
			return x * z.scale, g
		case i == 0:
			return z.density.tail(z.widths[1], 1-g.unit()) * z.scale, g
		}
		bottom, top := z.density.at(z.widths[i]), z.density.at(z.widths[i+1])
		if bottom+g.unit()*(top-bottom) < z.density.at(x) {
			return x * z.scale, g
		}
		word = g.next()
	}
}
