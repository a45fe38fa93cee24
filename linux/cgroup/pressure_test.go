package cgroup

import (
	"errors"
	"os"
	"testing"
	"time"
)

func TestPressure(t *testing.T) {
	fs := openFixture(t, "v2-systemd")
	if _, err := fs.Pressure(testSlice); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a kernel without it: %v", err)
	}
	for text, want := range map[string]Pressure{
		"some avg10=1.25 avg60=0.10 avg300=0.02 total=81216\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n": {81216 * time.Microsecond, 0.0125},
		"some avg10=100.00 avg60=0.00 avg300=0.00 total=0\n":                                                   {0, 1},
	} {
		if err := os.WriteFile(fs.File(testSlice, CPUPressure), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := fs.Pressure(testSlice); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "full avg10=0.00 total=1", "some avg10=x total=1", "some avg10=101 total=1", "some avg10=NaN total=1", "some avg10=1", "some avg10=1 total=-1"} {
		if got, err := parsePressure(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	if _, err := openFixture(t, "v1-separate").Pressure(testPod); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("version 1: %v", err)
	}
}
