package systemd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
)

func text(properties []dbus.Property) string {
	var all []string
	for _, p := range properties {
		all = append(all, fmt.Sprintf("%s=%v", p.Name, p.Value.Value()))
	}
	return strings.Join(all, " ")
}

func TestProperties(t *testing.T) {
	const ms = time.Millisecond
	idle, busy, weight, cpus, none := true, false, cgroup.Weight(39), cpuset.Of(0, 9), cpuset.Set{}
	limits := func(quota, period time.Duration) cgroup.Wanted { return cgroup.Wanted{Quota: &quota, Period: &period} }
	burst := ms
	for _, c := range []struct {
		wanted cgroup.Wanted
		want   string
	}{
		{limits(10*ms, 20*ms), "CPUQuotaPerSecUSec=500000 CPUQuotaPeriodUSec=20000"},
		{limits(bandwidth.Unlimited, 100*ms), "CPUQuotaPerSecUSec=18446744073709551615 CPUQuotaPeriodUSec=100000"},
		{limits(1001*time.Microsecond, 3*ms), "CPUQuotaPerSecUSec=333667 CPUQuotaPeriodUSec=3000"}, // 1,001 us when divided again
		{cgroup.Wanted{CPUs: &cpus}, "AllowedCPUs=[1 2]"},
		{cgroup.Wanted{CPUs: &none}, "AllowedCPUs=[]"},
		{cgroup.Wanted{Weight: &weight, Idle: &busy}, "CPUWeight=39"},
		{cgroup.Wanted{Weight: &weight, Idle: &idle}, "CPUWeight=0"},
		{cgroup.Wanted{Burst: &burst}, ""},
	} {
		if got := text(propertiesOf(c.wanted)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.wanted, got, c.want)
		}
	}
}

// TestDiffering: systemd reports a mask of CPUs with or without zero bytes at its end.
func TestDiffering(t *testing.T) {
	cpus, weight := cpuset.Of(1), cgroup.Weight(100)
	wanted := propertiesOf(cgroup.Wanted{CPUs: &cpus, Weight: &weight})
	for _, c := range []struct {
		present map[string]any
		want    string
	}{
		{map[string]any{"AllowedCPUs": []byte{2}, "CPUWeight": uint64(100)}, ""},
		{map[string]any{"AllowedCPUs": []byte{2, 0, 0}, "CPUWeight": uint64(39)}, "CPUWeight=100"},
		{map[string]any{"AllowedCPUs": []byte{}, "CPUWeight": uint64(100)}, "AllowedCPUs=[2]"},
		{nil, "AllowedCPUs=[2] CPUWeight=100"},
	} {
		if got := text(differing(c.present, slices.Clone(wanted))); got != c.want {
			t.Errorf("%v: %s, want %s", c.present, got, c.want)
		}
	}
}
