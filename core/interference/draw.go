package interference

import (
	"fmt"
	"math"
	"math/rand/v2"

	"pinfold.dev/pinfold/core/demand"
)

// drawer fills in the demands of consecutive groups less their quotas, in ticks.
type drawer interface {
	draw(excesses []int64) error
}

// newDrawer returns the fastest drawer for a process. most is
// the largest demand that the simulator can hold, in ticks. Rows of m demands are drawn, one for
// each of m groups.
func newDrawer(p demand.Process, m int, quota, most int64, r *rand.Rand) drawer {
	if i, ok := p.(demand.Independent); ok {
		switch d := i.Distribution.(type) {
		case demand.Exponential:
			if mean := d.Mean() * float64(quota); mean <= maxZigguratMean {
				return &exponentials{newZiggurat(mean), generator(r.Uint64()), quota}
			}
		case demand.Pareto:
			if math.IsInf(d.Bound(), 1) {
				return &paretos{newZiggurat(1 << paretoBits), generator(r.Uint64()), d.Minimum() * float64(quota), 1 / d.Shape(), quota, most}
			}
		}
	}
	s := &sources{process: p, each: make([]demand.Source, m), r: r, quota: float64(quota), most: float64(most)}
	for i := range s.each {
		s.each[i] = p.Start(r)
	}
	return s
}

type exponentials struct {
	ziggurat *ziggurat
	state    generator
	quota    int64
}

func (e *exponentials) draw(excesses []int64) error {
	e.ziggurat.fill(excesses, e.quota, &e.state)
	return nil
}

// paretoBits are the binary digits after the point in the logarithm of a demand.
const paretoBits = 36

// paretos draws minimum*exp(E*power) for exponential E.
type paretos struct {
	ziggurat       *ziggurat
	state          generator
	minimum, power float64
	quota, most    int64
}

func (p *paretos) draw(excesses []int64) error {
	p.ziggurat.fill(excesses, 0, &p.state)
	power := p.power / (1 << paretoBits)
	for i, e := range excesses {
		x := p.minimum * math.Exp(float64(e)*power)
		if x > float64(p.most) {
			return fmt.Errorf("a demand was %.3g times what the simulator can hold; truncate the distribution", x/float64(p.most))
		}
		excesses[i] = int64(x+0.5) - p.quota
	}
	return nil
}

// sources draws from any process.
type sources struct {
	process     demand.Process
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
