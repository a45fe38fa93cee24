package burst

import (
	"slices"
	"testing"
)

// TestModes restricts every mode to every other, and gives and takes the kernel's burst: what both
// use stays, and nothing else. That holds for a mode that is added with any mechanisms, alone and
// with the others that it needs.
func TestModes(t *testing.T) {
	check := func(t *testing.T, all definitions) {
		for _, m := range all {
			for _, most := range all {
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
	for _, d := range Definitions() {
		t.Run("new "+string(d.Mode), func(t *testing.T) {
			check(t, append(definitions(Definitions()), Definition{Mode: "new", Mechanisms: d.Mechanisms}))
		})
		for _, percent := range []int{0, 50, 100} {
			p := Policy{Mode: d.Mode, BurstPercent: 100}.WithKernel(percent)
			if uses := p.Mode.Uses(); uses.Kernel != (percent > 0) || uses.Quota != d.Quota || p.BurstPercent != percent {
				t.Errorf("%s with a burst of %d percent is %+v", d.Mode, percent, p)
			}
		}
	}
	if got := Auto.Within("other"); got != None || Mode("").Within(Kernel) != "" {
		t.Errorf("%s under an unknown ceiling", got)
	}
	without := slices.DeleteFunc(definitions(Definitions()), func(d Definition) bool { return d.Mode == Kernel })
	without = append(without, Definition{Mode: "new", Mechanisms: Mechanisms{Kernel: true}})
	if got := without.within(Auto, "new"); got != "new" {
		t.Errorf("auto under a ceiling of the only mode that uses the kernel's burst is %s", got)
	}
}
