package cputime

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/cpuset"
)

// statText is the start of /proc/stat of Linux 6.18.
const statText = `cpu  2000 10 500 9000 100 5 15 20 0 0
cpu0 1000 10 250 4500 50 5 10 10 0 0
cpu11 1000 0 250 4500 50 0 5 10 300 0
intr 12345 0 0
ctxt 999
`

func TestParse(t *testing.T) {
	got, err := parse(strings.NewReader(statText))
	if err != nil {
		t.Fatal(err)
	}
	// Idle and iowait are not busy. The time of guests is contained in user and nice.
	want := map[cpuset.CPU]Times{0: {Busy: 1285, Total: 5835}, 11: {Busy: 1265, Total: 5815}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseErrors(t *testing.T) {
	for _, text := range []string{"cpux 1 2 3 4 5", "cpu99999999 1 2 3 4 5", "cpu0 1 2", "cpu0 1 2 3 -4 5", "cpu0 1 2 3 four 5"} {
		if got, err := parse(strings.NewReader(text)); err == nil {
			t.Errorf("%q gives %v", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(statText)
	f.Add("cpu0 1 2 3 4 5 6 7 8 9 10")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for cpu := range got {
			if !cpu.Valid() {
				t.Errorf("CPU %d", cpu)
			}
		}
	})
}
