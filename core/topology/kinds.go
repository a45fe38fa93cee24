package topology

import (
	"cmp"
	"slices"
	"strings"
)

// KindsOf returns the kinds of core that occur, fastest first as far as the names tell:
// performance, then other names in alphabetical order, then efficiency and low-power. The names
// that vendors use for these count as well, in any case.
func KindsOf(cpus []CPU) []Kind {
	var kinds []Kind
	for _, c := range cpus {
		if !slices.Contains(kinds, c.Kind) {
			kinds = append(kinds, c.Kind)
		}
	}
	slices.SortFunc(kinds, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a, b))
	})
	return kinds
}

// rank orders kinds by what their names say about their speed, the fastest first.
func (k Kind) rank() int {
	switch strings.ToLower(string(k)) {
	case "prime":
		return -2
	case string(KindPerformance), "p", "p-core", "core", "big":
		return -1
	case string(KindEfficiency), "e", "e-core", "atom", "little":
		return 1
	case string(KindLowPower), "lp-e", "lp-e-core":
		return 2
	default:
		return 0
	}
}
