package interference

import (
	"fmt"
	"math/rand/v2"

	"pinfold.dev/pinfold/core/demand"
)

// drawer fills in the demands of consecutive groups less their quotas, in ticks.
type drawer interface {
	draw(excesses []int64) error
}

// newDrawer returns the fastest drawer for a kind of groups. Rows of demands are drawn, one
// for each group; most is the largest that the simulator can hold.
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

// ziggurats draws from a density, begun at offset.
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

// sources draws from any process.
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
