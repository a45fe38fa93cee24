package sampler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

// TestSampledWaits: samples have the waits that the kernel counted between them, if it has them for
// groups and the caller wants them. They are not read with each of many short samples.
func TestSampledWaits(t *testing.T) {
	for _, c := range []struct {
		version  cgroup.Version
		interval time.Duration
		pressure bool
		wanted   bool
		want     time.Duration
	}{
		{cgroup.V2, cgroupstat.WaitsEvery, true, true, 7 * time.Millisecond}, {cgroup.V2, time.Millisecond, true, true, 0},
		{cgroup.V2, cgroupstat.WaitsEvery, true, false, 0}, {cgroup.V2, cgroupstat.WaitsEvery, false, true, 0}, {cgroup.V1, cgroupstat.WaitsEvery, false, true, 0},
	} {
		m := newMachine(t, c.version)
		write := func(total int) {
			if c.pressure {
				m.write("/a", "cpu.pressure", fmt.Sprintf("some avg10=1.00 avg60=0.50 avg300=0.10 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n", total, total/2))
			}
		}
		m.make("/a", nil)
		write(1000)
		s, err := New(m.open(), Options{Interval: c.interval, Waits: c.wanted})
		if err != nil {
			t.Fatal(err)
		}
		s.Set([]string{"/a"})
		var got []time.Duration
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = s.Run(ctx, func(tick *Tick) error {
			for _, sample := range tick.Samples {
				got = append(got, sample.Waited)
			}
			switch len(got) {
			case 0:
				write(8000)
			case 2:
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || got[0] != c.want || got[1] != 0 {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}
