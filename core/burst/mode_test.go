package burst

import (
	"slices"
	"testing"
)

// TestModes restricts every mode to every other, and gives and takes the kernel's burst: what both
// use stays, and nothing else. That holds for a mode that is added with any mechanisms.
func TestModes(t *testing.T) {
	check := func(t *testing.T, all definitions) {
		for i, m := range all {
			for j, most := range all {
				if i < j && m.Mechanisms != most.Mechanisms && m.and(most.Mechanisms) == most.Mechanisms {
					t.Errorf("%s must stand before %s, which uses more", most.Mode, m.Mode)
				}
				got, known := all.of(all.within(m.Mode, most.Mode))
				if want := m.and(most.Mechanisms); !known || got != want {
					t.Errorf("%s under a ceiling of %s uses %+v, not %+v", m.Mode, most.Mode, got, want)
				}
			}
			if got := all.within(m.Mode, m.Mode); got != m.Mode {
				t.Errorf("%s under a ceiling of itself is %s", m.Mode, got)
			}
		}
	}
	check(t, Definitions())
	for i, d := range Definitions() {
		t.Run("new "+string(d.Mode), func(t *testing.T) {
			check(t, slices.Insert(definitions(Definitions()), i, Definition{Mode: "new", Mechanisms: d.Mechanisms}))
		})
		for _, percent := range []int{0, 50, 100} {
			p := Policy{Mode: d.Mode, BurstPercent: 100}.WithKernel(percent)
			// Without names of fields, as in and: a new one of the kernel is to be given and taken, too.
			if want := (Mechanisms{percent > 0, d.Quota}); p.Mode.Uses() != want || p.BurstPercent != percent {
				t.Errorf("%s with a burst of %d percent is %+v", d.Mode, percent, p)
			}
		}
	}
	if got := Auto.Within("other"); got != None || Mode("").Within(Kernel) != "" {
		t.Errorf("%s under an unknown ceiling", got)
	}
}
