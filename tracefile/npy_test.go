package tracefile

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/test/must"
)

// TestNPYFiles reads the files in testdata/npy, which numpy 2.4 wrote.
func TestNPYFiles(t *testing.T) {
	for name, want := range map[string]string{
		"float64.npy": "", "float32.npy": "", "int64.npy": "", "int32.npy": "", "version2.npy": "", "version3.npy": "", "big-endian.npy": "",
		"bad-matrix.npy":         "the shape is (2, 4), want a vector",
		"bad-fortran-matrix.npy": "the shape is (2, 4), want a vector",
		"bad-scalar.npy":         "the shape is (), want a vector",
		"bad-negative.npy":       "value 1 (from 0): -1 is not a number of CPUs",
		"bad-nan.npy":            "NaN is not a number of CPUs",
		"bad-infinite.npy":       "+Inf is not a number of CPUs",
		"bad-negative-int.npy":   "value 1 (from 0): the usage is -1ns",
		"bad-words.npy":          "the values have type <U1",
		"bad-objects.npy":        "the values have type |O",
		"bad-structs.npy":        "the values have several fields",
		"bad-empty.npy":          "contains no samples",
		"bad-cut.npy":            "the file is cut off: it has 3 of 4 values",
		"bad-longer.npy":         "the file has more values than its header says",
		"bad-header-cut.npy":     "the header is cut off",
		"bad-version.npy":        "version 9 of the format is unknown",
	} {
		t.Run(name, func(t *testing.T) {
			rec, _, err := Read(filepath.Join("testdata/npy", name), 100*time.Millisecond)
			if want != "" {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []time.Duration
			for _, s := range rec.Series[0].Samples {
				got = append(got, s.Usage/time.Millisecond)
			}
			if !slices.Equal(got, []time.Duration{25, 150, 0, 200}) || rec.Series[0].Group != "/"+strings.TrimSuffix(name, ".npy") {
				t.Errorf("group %s, usage %v ms", rec.Series[0].Group, got)
			}
		})
	}
	if entries, err := os.ReadDir("testdata/npy"); err != nil || len(entries) != 22 {
		t.Errorf("testdata/npy has %d files, %v", len(entries), err)
	}
	if _, err := Open("testdata/npy/int64.npy", 0); !errors.Is(err, ErrNoInterval) {
		t.Errorf("without an interval: %v", err)
	}
}

// TestNPYRoundTrip writes random vectors and reads them back.
func TestNPYRoundTrip(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.npy")
	rapid.Check(t, func(t *rapid.T) {
		rec := drawRecording(t)
		rec.Series = rec.Series[:1]
		c := must.Get(Write(Output{name, true}, header(rec), Rows(rec)))(t)
		got, _, err := Read(name, rec.Interval)
		if err != nil {
			t.Fatal(err)
		}
		s := rec.Series[0].Samples
		if c.Rows != int64(len(s)) || len(got.Series[0].Samples) != len(s) {
			t.Fatalf("%d of %d samples", c.Rows, len(s))
		}
		late := false
		for i := range s {
			late = late || s[i].Late
			if got.Series[0].Samples[i].Usage != s[i].Usage {
				t.Errorf("sample %d: %v, want %v", i, got.Series[0].Samples[i].Usage, s[i].Usage)
			}
		}
		if late && c.Note == "" {
			t.Error("the note does not mention late samples")
		}
	})
	rec := steady([]string{"/a", "/b"}, 3)
	if _, err := Write(Output{name, true}, header(rec), Rows(rec)); err == nil || !strings.Contains(err.Error(), "/a and /b: choose one") {
		t.Errorf("two groups: %v", err)
	}
	if c, err := Write(Output{name, true}, header(rec), Only(Rows(rec), func(r *Row) bool { return r.Group == "/b" })); err != nil || c.Rows != 3 {
		t.Errorf("one of two groups: %+v, %v", c, err)
	}
}

// FuzzNPYDict checks that an accepted header describes a vector of numbers.
func FuzzNPYDict(f *testing.F) {
	f.Add("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }      \n")
	f.Add(`{"shape": (0,), "descr": "<i4", "fortran_order": True}`)
	f.Add("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3, 4)}")
	f.Add("{'descr': '>u2', 'fortran_order': False, 'shape': (3L, 1L)}")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseNPYDict(text)
		if err == nil && (n.size < 1 || n.size > 8 || n.unit < 1 || n.count < 0 || n.count == math.MinInt64) {
			t.Errorf("%q gives %+v", text, n)
		}
	})
}
