package model

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report/simulation"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/tracefile"
)

// TestBatches: a batch contains groups of one file with at most that many samples, or one larger
// group.
func TestBatches(t *testing.T) {
	groups := []group{{Group: simulation.Group{File: "a"}, samples: 5}, {Group: simulation.Group{File: "a"}, samples: 5}, {Group: simulation.Group{File: "a"}, samples: 1}, {Group: simulation.Group{File: "b"}, samples: 1}, {Group: simulation.Group{File: "b"}, samples: 99}, {Group: simulation.Group{File: "b"}, samples: 9}}
	var got []int
	for rest := groups; len(rest) > 0; {
		n := batchOf(rest, 10)
		got, rest = append(got, n), rest[n:]
	}
	if diff := cmp.Diff([]int{2, 1, 1, 1, 1}, got); diff != "" {
		t.Error(diff)
	}
}

// TestEachSeries: every chosen group is passed on once, with exactly its samples, for every size of
// batches.
func TestEachSeries(t *testing.T) {
	const groups, samples = 7, 5
	file := recordingOf(t, groups, samples)
	survey := must.Get(surveyFile(t.Context(), &bytes.Buffer{}, file, 0))(t)
	survey = append(survey[:2], survey[3:]...) // one was not chosen
	selected := &selectionOptions{interval: new(time.Duration)}
	for _, atOnce := range []int{1, 2 * samples, 100} {
		var got []string
		err := selected.eachSeries(t.Context(), survey, atOnce, func(_ group, interval time.Duration, s *trace.Series) error {
			for i := range s.Samples {
				if want := time.Duration(s.Group[1]); s.Samples[i].Usage != want {
					t.Errorf("sample %d of %s used %v, want %v", i, s.Group, s.Samples[i].Usage, want)
				}
			}
			if len(s.Samples) != samples || interval != time.Millisecond {
				t.Errorf("%s has %d samples of %v", s.Group, len(s.Samples), interval)
			}
			got = append(got, s.Group)
			return nil
		})
		if diff := cmp.Diff([]string{"/a", "/b", "/d", "/e", "/f", "/g"}, got); err != nil || diff != "" {
			t.Errorf("%d at once: error %v, groups (-want +got):\n%s", atOnce, err, diff)
		}
	}
}

// recordingOf writes a recording of groups /a, /b ..., whose usage is their letter.
func recordingOf(t *testing.T, groups, samples int) string {
	t.Helper()
	rec := &trace.Recording{Start: time.Unix(0, 0), Interval: time.Millisecond}
	for g := range groups {
		s := trace.Series{Group: "/" + string(rune('a'+g))}
		for i := range samples {
			s.Samples = append(s.Samples, trace.Sample{At: time.Duration(i+1) * time.Millisecond, Interval: time.Millisecond, Usage: time.Duration('a' + g)})
		}
		rec.Series = append(rec.Series, s)
	}
	file := filepath.Join(t.TempDir(), "groups.parquet")
	must.Get(tracefile.Write(tracefile.Output{Name: file}, tracefile.Header{Start: rec.Start, Interval: rec.Interval}, tracefile.Rows(rec)))(t)
	return file
}
