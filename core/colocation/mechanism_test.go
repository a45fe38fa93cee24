package colocation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	for _, c := range []struct{ priority, lacks, want string }{
		{"none", "", "use [], lacking []"},
		{"none", "idle core-scheduling bvt", "use [], lacking []"},
		{"auto", "", "use [bvt], lacking []"},
		{"auto", "bvt", "use [idle core-scheduling], lacking []"},
		{"auto", "bvt core-scheduling", "use [idle], lacking []"},
		{"auto", "bvt idle", "use [core-scheduling], lacking []"},
		{"auto", "bvt idle core-scheduling", "use [], lacking [idle core-scheduling bvt]"},
		{"idle", "", "use [idle], lacking []"},
		{"idle", "idle bvt", "use [core-scheduling], lacking [idle]"},
		{"idle", "idle core-scheduling", "use [bvt], lacking [idle]"},
		{"core-scheduling", "bvt core-scheduling", "use [idle], lacking [core-scheduling]"},
		{"idle,core-scheduling", "bvt", "use [idle core-scheduling], lacking []"},
		{"core-scheduling,idle,idle", "bvt core-scheduling", "use [idle], lacking [core-scheduling]"},
		{"sched_ext", "", "use [idle sched_ext], lacking []"},
		{"idle,sched_ext", "sched_ext", "use [idle], lacking [sched_ext]"},
		{"bvt", "", "use [bvt], lacking []"},
		{"bvt", "bvt", "use [idle core-scheduling], lacking [bvt]"},
		{"bvt", "idle core-scheduling bvt", "use [], lacking [bvt]"},
	} {
		p, err := ParsePriority(c.priority)
		if err != nil {
			t.Errorf("%q: %v", c.priority, err)
		}
		lacks := strings.Fields(c.lacks)
		chosen := p.Choose(func(m Mechanism) bool { return slices.Contains(lacks, string(m)) })
		if got := fmt.Sprintf("use %v, lacking %v", chosen.Use, chosen.Lacking); got != c.want {
			t.Errorf("%q without %v: %s, want %s", c.priority, lacks, got, c.want)
		}
		if again, err := ParsePriority(p.String()); err != nil || again.String() != p.String() {
			t.Errorf("%q is %q, which is %q (%v)", c.priority, p, again, err)
		}
	}
}

func TestParsePriorityErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "no mechanism",
		"best":                `no mechanism "best"`,
		"idle,":               `no mechanism ""`,
		"idle, bvt":           `no mechanism " bvt"`,
		"none,idle":           `no mechanism "none"`,
		"bvt,core-scheduling": "use it alone",
		"idle,bvt":            "use it alone",

		"core-scheduling,sched_ext": "use it without core-scheduling",
	} {
		if _, err := ParsePriority(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
