package judge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestTable compares the table and the verdict with a file.
func TestTable(t *testing.T) {
	results := must.Get(Open("testdata"))(t)
	var b strings.Builder
	must.Do(t, results.Markdown(&b))
	golden.Compare(t, "testdata/advice.md", b.String())
	want := Verdict{Inside: 2, Judged: 3, InsideAll: 2, JudgedAll: 3, Another: 1, All: 29, AbstainedBusy: 1, Busy: 2, Idle: 1, Contradicted: 1, DisturbedRecordings: 1, Runs: 1}
	if got := results.Verdict(); got != want || got.Good() {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestGood has the bounds of a good verdict.
func TestGood(t *testing.T) {
	good := Verdict{Inside: 57, Judged: 60, Busy: 20, AbstainedBusy: 6, Idle: 10}
	for name, test := range map[string]struct {
		change func(*Verdict)
		want   bool
	}{
		"all as wanted":          {func(*Verdict) {}, true},
		"too few inside":         {func(v *Verdict) { v.Inside = 56 }, false},
		"abstained on idle":      {func(v *Verdict) { v.AbstainedIdle = 1 }, false},
		"abstained too often":    {func(v *Verdict) { v.AbstainedBusy = 7 }, false},
		"contradicts":            {func(v *Verdict) { v.Contradicted = 1 }, false},
		"nothing was judged":     {func(v *Verdict) { v.Inside, v.Judged = 0, 0 }, false},
		"others disturbed a few": {func(v *Verdict) { v.Runs = 3 }, true},
	} {
		v := good
		if test.change(&v); v.Good() != test.want {
			t.Errorf("%s: %+v is good: %t, want %t", name, v, v.Good(), test.want)
		}
	}
}

// TestUnits: any undisturbed runs of a row are in exactly one unit, in order. Units are about as long
// as the recording, or there is only one.
func TestUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recording := Recording{Row: Row{"go", false, Idle}, Advice: Advice{HighThrottleRatio: 1, Recorded: Recorded{Seconds: 110}}}
		var r Results
		var throttled, periods float64
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 100), 0, 25).Draw(t, "throttled") {
			run := Run{Row: recording.Row, On: Crowd, Number: i, Measured: Measured{Time: rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.IntRange(10, 200).Draw(t, "seconds")) * time.Second
			}).Draw(t, "time"), Throttled: uint64(n)}}
			if rapid.Bool().Draw(t, "good") {
				throttled, periods = throttled+float64(n), periods+run.Periods()
			} else {
				run.Disturbed = "others"
			}
			r.Runs = append(r.Runs, run)
		}
		got := r.tried(recording, Crowd)
		for _, u := range got.Units {
			throttled, periods = throttled-u.Throttled, periods-u.Periods
			if !u.Inside {
				t.Errorf("%+v is outside of 0 to 100%%", u)
			}
		}
		if throttled != 0 || periods > 1e-6 || periods < -1e-6 {
			t.Errorf("%v throttled of %v periods are in no unit, or in two", throttled, periods)
		}
	})
}

// TestInside has the ends of an interval.
func TestInside(t *testing.T) {
	a := Advice{LowThrottleRatio: .0021, HighThrottleRatio: .0199}
	for throttled, want := range map[uint64]bool{1: false, 2: true, 20: true, 21: false} {
		if got := unit(a, []Run{{Measured: Measured{Time: 100 * time.Second, Throttled: throttled}}}); got.Inside != want {
			t.Errorf("%d of %v periods: inside %t, want %t", throttled, got.Periods, got.Inside, want)
		}
	}
}

// TestArchive continues a file whose last line is incomplete.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, linesFile)
	const known = `{"program":{"name":"go","amount":1,"every":2}}` + "\n"
	must.Do(t, os.WriteFile(file, []byte(known+`{"program":{"name":"jv`), 0o600))
	a := must.Get(openArchive(dir))(t)
	if a.program("go") == nil || len(a.Programs) != 1 {
		t.Errorf("programs %+v, want one", a.Programs)
	}
	row := Row{"go", true, Crowd}
	must.Do(t, a.write(line{Recording: &Recording{Row: row, Advice: Advice{Reason: "none"}}}))
	must.Do(t, a.write(line{Run: &Run{Row: row, On: Idle, Number: 3}}))
	must.Do(t, a.file.Close())
	text := string(must.Get(os.ReadFile(file))(t))
	if !strings.HasPrefix(text, known+`{"recording":{"program":"go","limited":true,"beside":"crowd"`) {
		t.Errorf("the file:\n%s", text)
	}
	r := must.Get(Open(dir))(t)
	if r.recording(row) == nil || r.run(row, Idle, 3) == nil || r.run(row, Crowd, 3) != nil || r.recording(Row{"go", true, Idle}) != nil {
		t.Errorf("%+v", r)
	}
	must.Do(t, os.WriteFile(file, []byte(known+"{}x\n"), 0o600))
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "line 2, is not of a trial of advice") {
		t.Errorf("error %v, want one about line 2", err)
	}
}

// TestSizes: requests have the average amount, and each row has a name of its own.
func TestSizes(t *testing.T) {
	sum := 0.0
	for _, s := range sizes() {
		sum += s
	}
	if sum != float64(len(sizes())) {
		t.Errorf("sizes %v, want 1 on average", sizes())
	}
	names := map[string]bool{}
	for _, row := range rows([]string{"go", "jvm"}) {
		names[row.String()] = true
	}
	if len(names) != 12 || !names["jvm/limit/crowd"] || !names["go/free/idle"] {
		t.Errorf("rows %v", names)
	}
	if took := Full().time(30) + Full().Patience; took > 4*time.Hour {
		t.Errorf("the full size takes %v", took)
	}
}
