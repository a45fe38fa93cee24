package tracefile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/must"
)

// steadySpans returns spans of n threads of each group: each runs, is throttled until an edge, and
// ends.
func steadySpans(groups []string, n int) (spans []trace.Span) {
	for _, group := range groups {
		for i := range n {
			s := trace.Span{Group: group, Thread: i + 1, CPU: i % 2, Process: "worker", From: time.Duration(i) * time.Millisecond}
			for state := range blame.Dead + 1 {
				s.State, s.To, s.Behind = state, s.From+time.Duration(state)*time.Millisecond, ""
				if state == blame.Waiting {
					s.Behind = "/other"
				}
				spans = append(spans, s)
				s.From = s.To
			}
		}
	}
	edge := trace.Span{Group: "/pod", From: time.Second, To: time.Second,
		Quota: &blame.Quota{Before: -time.Millisecond, Left: 19 * time.Millisecond, Periods: 10, Throttled: 3, ThrottledTime: time.Second}}
	return append(spans, edge)
}

func drawSpan(t *rapid.T) trace.Span {
	at := time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "from"))
	s := trace.Span{Group: rapid.SampledFrom([]string{"/a", "/b", "/c"}).Draw(t, "group"), From: at, To: at}
	if rapid.Bool().Draw(t, "edge") {
		n := rapid.Uint32()
		s.Quota = &blame.Quota{Before: time.Duration(rapid.Int64().Draw(t, "before")), Left: time.Duration(rapid.Int64().Draw(t, "left")),
			Periods: n.Draw(t, "periods"), Throttled: n.Draw(t, "throttled"), ThrottledTime: time.Duration(rapid.Int64().Draw(t, "time"))}
		return s
	}
	text := rapid.SampledFrom([]string{"", "x", "process é"})
	s.To += time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "length"))
	s.State = blame.State(rapid.Uint16Range(0, uint16(blame.Dead)).Draw(t, "state"))
	s.Thread, s.CPU = rapid.IntRange(1, 1<<22).Draw(t, "thread"), rapid.IntRange(0, 1023).Draw(t, "cpu")
	s.Process, s.Behind = text.Draw(t, "process"), text.Draw(t, "behind")
	return s
}

// gather returns the spans of a sequence, ordered as in a table.
func gather(t tester, spans iter.Seq2[*trace.Span, error]) (all []trace.Span) {
	t.Helper()
	for s, err := range spans {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, *s)
	}
	inTable(all)
	return all
}

func inTable(spans []trace.Span) {
	slices.SortStableFunc(spans, func(a, b trace.Span) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), cmp.Compare(a.Thread, b.Thread))
	})
}

// TestSpans records random spans, and reads them from the journal and from the table.
func TestSpans(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		rec, spans := steady([]string{"/a"}, 3), rapid.SliceOfN(rapid.Custom(drawSpan), 1, 20).Draw(t, "spans")
		name := filepath.Join(dir, "a.parquet")
		recordTo(t, rec, name, spans...)
		journal := filepath.Join(dir, "journal")
		os.Remove(journal)
		j, err := createJournal(journal, header(rec))
		if err != nil {
			t.Fatal(err)
		}
		for i := range spans {
			err = errors.Join(err, j.WriteSpan(&spans[i]))
		}
		must.Do(t, errors.Join(err, j.Close()))
		inTable(spans)
		for _, from := range []string{name, journal} {
			if diff := gocmp.Diff(spans, gather(t, Spans(from))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", from, diff)
			}
		}
	})
}

// TestExactRecording: the series of a recording that was traced know what their threads did; those
// of one that was not, or that has replaced one that was, do not.
func TestExactRecording(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.parquet")
	rec := steady([]string{"/a", "/b"}, 30)
	recordTo(t, rec, name, steadySpans([]string{"/a", "/b/c"}, 20)...)
	got, _, err := Read(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range got.Series {
		if x := s.Exact; x == nil || x.Running != 20*time.Millisecond || x.Throttled != 60*time.Millisecond || x.To != time.Second {
			t.Errorf("%s: %+v", s.Group, x)
		}
	}
	other := strings.TrimSuffix(name, "a.parquet") + "other.parquet"
	if _, err := Convert(name, Output{other, false}); err != nil || len(gather(t, Spans(other))) != len(gather(t, Spans(name))) {
		t.Errorf("the spans of a converted recording: %v", err)
	}
	recordTo(t, rec, name)
	if got, _, err = Read(name, 0); err != nil || got.Series[0].Exact != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat(SpansOf(name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old table still exists: %v", err)
	}
}

// TestManyNames: of the names of very many processes, a journal keeps the first.
func TestManyNames(t *testing.T) {
	var stream bytes.Buffer
	r, err := RecordJournal(&stream, Header{Interval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxTexts {
		at := time.Duration(i)
		if err := r.AppendSpan(&trace.Span{Group: "/a", From: at, To: at + 1, State: blame.Running, Thread: 1, Process: fmt.Sprint("process ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Finish(); err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	_, err = Replay(&stream, func(Header) (Recorder, error) { return spanNames(names), nil })
	if err != nil || len(names) != maxTexts-1 || names["one of too many"] != 2*maxTexts-(maxTexts-2) || names["process 0"] != 1 {
		t.Errorf("%v, %d names, %d are unknown", err, len(names), names["one of too many"])
	}
}

// spanNames counts the names of processes in spans.
type spanNames map[string]int

func (spanNames) Append(*Row) error                { return nil }
func (n spanNames) AppendSpan(s *trace.Span) error { n[s.Process]++; return nil }
func (spanNames) Finish() (Converted, error)       { return Converted{}, nil }

// TestOtherSpans: a table that belongs to another recording is not used.
func TestOtherSpans(t *testing.T) {
	dir := t.TempDir()
	name, other := filepath.Join(dir, "a.parquet"), filepath.Join(dir, "b.parquet")
	rec := steady([]string{"/a"}, 3)
	recordTo(t, rec, name, steadySpans([]string{"/a"}, 1)...)
	rec.Start = rec.Start.Add(time.Second)
	recordTo(t, rec, other)
	must.Do(t, os.Rename(SpansOf(name), SpansOf(other)))
	if _, _, err := Read(other, 0); err == nil || !strings.Contains(err.Error(), "b.spans.parquet: it belongs to another recording") {
		t.Error(err)
	}
	if err := (Output{Name: filepath.Join(dir, "b.parquet")}).Check(); !errors.Is(err, os.ErrExist) {
		t.Error(err)
	}
	must.Do(t, os.WriteFile(SpansOf(other), []byte("PAR1"), 0o600))
	if _, _, err := Read(other, 0); err == nil || !strings.Contains(err.Error(), "b.spans.parquet: not a complete Parquet file") {
		t.Error(err)
	}
	if err := (Output{other, true}).Check(); err == nil || !strings.Contains(err.Error(), "it would be replaced, and is not a table of spans") {
		t.Error(err)
	}
	must.Do(t, os.Remove(other))
	if err := (Output{Name: other}).Check(); !errors.Is(err, os.ErrExist) {
		t.Errorf("the name of the table is taken: %v", err)
	}
}
