package report_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
	"pinfold.dev/pinfold/report"
)

// TestDrawingReadBack draws irregular machines with contradictory owners, and reads the drawing as
// a person would, by the labels of rows. Every online CPU must occur once with the right character,
// and no line may be too wide.
func TestDrawingReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := topologytest.RandomUpTo(t, 40)
		opts := randomOptions(t, m)
		drawn := draw(t, m, opts)
		checkWidth(t, drawn, opts.Width)
		got := readBack(t, drawn)
		for c, symbol := range got {
			if m.Offline.Contains(c) && symbol == "x" {
				delete(got, c)
			}
		}
		if diff := cmp.Diff(expected(m, opts), got); diff != "" {
			t.Errorf("CPUs read from the map differ (-want +got):\n%s\n%s", diff, drawn)
		}
	})
}

func randomOptions(t *rapid.T, m *topology.Machine) report.MapOptions {
	opts := report.MapOptions{
		Width:    rapid.IntRange(report.MinWidth, 120).Draw(t, "width"),
		Reserved: topologytest.Subset(t, m.Online(), "reserved"),
	}
	for range rapid.IntRange(0, 4).Draw(t, "owners") {
		opts.Owners = append(opts.Owners, report.Owner{
			Name:     rapid.StringN(0, 100, -1).Draw(t, "name"),
			CPUs:     topologytest.Subset(t, m.Online(), "owned"),
			Confined: rapid.Bool().Draw(t, "confined"),
			Note:     rapid.StringN(0, 100, -1).Draw(t, "note"),
		})
	}
	return opts
}

// expected returns the character of each CPU, computed one CPU at a time.
func expected(m *topology.Machine, opts report.MapOptions) map[cpuset.CPU]string {
	want := map[cpuset.CPU]string{}
	for _, c := range m.CPUs {
		var holders []string
		confined := false
		letter := 'A'
		for _, o := range opts.Owners {
			if o.Confined {
				confined = confined || o.CPUs.Contains(c.ID)
				continue
			}
			if o.CPUs.Contains(c.ID) {
				holders = append(holders, string(letter))
			}
			letter++
		}
		switch {
		case len(holders) > 1:
			want[c.ID] = "!"
		case len(holders) == 1:
			want[c.ID] = holders[0]
		case opts.Reserved.Contains(c.ID):
			want[c.ID] = "#"
		case m.Isolated.Contains(c.ID):
			want[c.ID] = "~"
		case confined:
			want[c.ID] = ":"
		default:
			want[c.ID] = "."
		}
	}
	return want
}

// readBack reads the boxes of a map: per CPU its character.
func readBack(t *rapid.T, drawn string) map[cpuset.CPU]string {
	row := regexp.MustCompile(`(\d+)(?:-(\d+)|,(\d+)(?:\.\.(\d+))?)? ([^\d\s│]+(?: [^\d\s│]+)*)`)
	got := map[cpuset.CPU]string{}
	for l := range strings.Lines(drawn) {
		if !strings.HasPrefix(l, "│") || strings.Contains(l, "LLC") || strings.Contains(l, "iB ") || strings.Contains(l, "confined") {
			continue
		}
		for _, match := range row.FindAllStringSubmatch(l, -1) {
			n := make([]int, 5)
			for i := 1; i <= 4; i++ {
				n[i], _ = strconv.Atoi(match[i])
			}
			first, step, last := n[1], 1, n[1]
			switch {
			case match[2] != "":
				last = n[2]
			case match[3] != "":
				step = n[3] - first
				last = max(n[3], n[4])
			}
			symbols := strings.Split(strings.ReplaceAll(match[5], " ", ""), "")
			if len(symbols) != (last-first)/step+1 {
				t.Fatalf("row %q has %d characters for CPUs %d to %d by %d\n%s", match[0], len(symbols), first, last, step, drawn)
			}
			for i, symbol := range symbols {
				c := cpuset.CPU(first + i*step)
				if got[c] != "" && got[c]+symbol != "xx" { // two rows may determine where an offline one is
					t.Fatalf("CPU %d is drawn twice\n%s", c, drawn)
				}
				got[c] = symbol
			}
		}
	}
	return got
}
