package interference

import (
	"math"
	"math/bits"
)

// ziggurat draws exponential numbers as integers: Marsaglia and Tsang's ziggurat (2000)
// of 256 layers of equal area. In 98.9% of the draws it takes one random word, one
// comparison and one multiplication.
type ziggurat struct {
	layers [256]layer
	widths [257]float64 // of the layers, the lowest first; the last is 0
	mean   float64      // in ticks
}

// layer holds what the common case needs: below accept a word is surely under the
// curve, and width is the layer's in 1/2^fraction of a tick.
type layer struct{ accept, width uint64 }

const (
	fraction = 24
	// tail is where the lowest layer's rectangle ends, for 256 layers; area is that of each.
	tail = 7.69711747013104972
	area = 3.949659822581572e-3
	// maxZigguratMean keeps the widths below 2^64.
	maxZigguratMean = 1 << 36
)

// newZiggurat returns the ziggurat of a mean in ticks, at most maxZigguratMean.
func newZiggurat(mean float64) *ziggurat {
	z := &ziggurat{mean: mean}
	z.widths[0], z.widths[1] = area*math.Exp(tail), tail
	for i := 1; i < 255; i++ {
		z.widths[i+1] = -math.Log(area/z.widths[i] + math.Exp(-z.widths[i]))
	}
	for i := range z.layers {
		z.layers[i] = layer{
			accept: uint64(z.widths[i+1] / z.widths[i] * (1 << 63) * 2),
			width:  uint64(z.widths[i] * mean * (1 << fraction)),
		}
	}
	return z
}

// generator is wyrand (Wang Yi, 2019; public domain): a counter of 64 bits, and a
// multiplication that mixes it. It passes the usual batteries of tests, and consecutive
// words do not wait for each other.
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

// fill writes exponential numbers, less a quota, in ticks. The loop is generator.next and the common
// case, written out, since calls would cost as much as they do, and a generator whose
// address is taken would live in memory.
func (z *ziggurat) fill(ticks []int64, quota int64, g *generator) {
	state := *g
	for i := range ticks {
		state += generatorStep
		high, low := bits.Mul64(uint64(state), uint64(state)^generatorMix)
		word := high ^ low
		l := &z.layers[word&255]
		if word >= l.accept {
			ticks[i], state = z.edge(word, state)
			ticks[i] -= quota
			continue
		}
		scaled, _ := bits.Mul64(word, l.width)
		ticks[i] = int64(scaled>>fraction) - quota
	}
	*g = state
}

// edge finishes a draw that begins with a word which is not surely under the curve. It
// returns the generator's next state as well.
func (z *ziggurat) edge(word uint64, g generator) (int64, generator) {
	for {
		i := word & 255
		x := float64(word>>11) * 0x1p-53 * z.widths[i]
		switch {
		case word < z.layers[i].accept:
			return int64(x * z.mean), g
		case i == 0: // the tail is exponential again
			return int64((tail - math.Log1p(-g.unit())) * z.mean), g
		}
		bottom, top := math.Exp(-z.widths[i]), math.Exp(-z.widths[i+1])
		if bottom+g.unit()*(top-bottom) < math.Exp(-x) {
			return int64(x * z.mean), g
		}
		word = g.next()
	}
}
