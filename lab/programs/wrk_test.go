package programs

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/test/must"
)

const ms, us = time.Millisecond, time.Microsecond

// TestParseWrk reads real outputs of wrk 4.1.0.
func TestParseWrk(t *testing.T) {
	for name, want := range map[string]WrkResult{
		"microseconds.txt": {
			Requests: 56220, PerSecond: 26756.25, Mean: 1130 * us, Max: 35990 * us,
			P50: 221 * us, P75: 990 * us, P90: 3060 * us, P99: 12770 * us,
		},
		"milliseconds.txt": {
			Requests: 312, PerSecond: 155.79, Mean: 62770 * us, Max: 124950 * us,
			P50: 58870 * us, P75: 89540 * us, P90: 109060 * us, P99: 124060 * us,
		},
		"seconds.txt": {
			Requests: 55, PerSecond: 5.49, Mean: 1660 * ms, Max: 2590 * ms,
			P50: 1670 * ms, P75: 2040 * ms, P90: 2290 * ms, P99: 2590 * ms,
		},
		"errors.txt": {
			Requests: 391, PerSecond: 15.60, Mean: 358410 * us, Max: 998700 * us,
			P50: 311930 * us, P75: 666370 * us, P90: 847870 * us, P99: 985820 * us,
			ReadErrors: 80, Timeouts: 58, BadStatus: 91,
		},
	} {
		text := must.Get(os.ReadFile(filepath.Join("testdata", "wrk", name)))(t)
		got := must.Get(ParseWrk(bytes.NewReader(text)))(t)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestParseWrkErrors changes a line of a real output and says what the error contains.
func TestParseWrkErrors(t *testing.T) {
	text := must.Get(os.ReadFile("testdata/wrk/errors.txt"))(t)
	for _, test := range []struct{ old, replacement, says string }{
		{"391 requests", "-391 requests", "-391"},
		{"Latency   358.41ms", "Latency  -358.41ms", "negative"},
		{"75%  666.37ms", "76%  666.37ms", "percentile"},
		{"Requests/sec:     15.60", "Requests/sec:     nan", "rate"},
		{"read 80", "read many", "Socket errors"},
		{"     99%  985.82ms\n", "", `"99%" is missing`},
		{"Requests/sec:", "Requests:", `"Requests/sec:" is missing`},
	} {
		changed := strings.Replace(string(text), test.old, test.replacement, 1)
		if changed == string(text) {
			t.Fatalf("the output has no %q", test.old)
		}
		result, err := ParseWrk(strings.NewReader(changed))
		if err == nil || !strings.Contains(err.Error(), test.says) || !reflect.DeepEqual(result, WrkResult{}) {
			t.Errorf("%q: result %+v, error %v, want %q", test.replacement, result, err, test.says)
		}
	}
}

// FuzzParseWrk checks that a result has no negative values.
func FuzzParseWrk(f *testing.F) {
	names, err := filepath.Glob("testdata/wrk/*.txt")
	if err != nil || len(names) == 0 {
		f.Fatal("there are no outputs", err)
	}
	for _, name := range names {
		text := must.Get(os.ReadFile(name))(f)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w, err := ParseWrk(bytes.NewReader(text))
		if err != nil {
			return
		}
		if w.PerSecond < 0 || min(w.Mean, w.Max, w.P50, w.P75, w.P90, w.P99) < 0 {
			t.Errorf("negative values: %+v", w)
		}
	})
}

func TestWrkArgs(t *testing.T) {
	got, err := WrkLoad{URL: "http://127.0.0.1:80/", Threads: 2, Connections: 8, Duration: 1500 * ms}.Args()
	want := "--threads 2 --connections 8 --duration 2s --timeout 10s --latency http://127.0.0.1:80/"
	if err != nil || strings.Join(got, " ") != want {
		t.Errorf("arguments %q (%v), want %q", got, err, want)
	}
	for _, bad := range []WrkLoad{
		{Threads: 0, Connections: 1, Duration: time.Second},
		{Threads: 2, Connections: 1, Duration: time.Second},
		{Threads: 1, Connections: 1},
	} {
		if _, err := bad.Args(); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
