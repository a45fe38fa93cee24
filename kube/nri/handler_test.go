package nri

import (
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
)

func TestCgroupPath(t *testing.T) {
	for _, test := range []struct{ path, want string }{ // "" for an error
		{"/kubepods/burstable/pod5a0c/c1", "/kubepods/burstable/pod5a0c/c1"},
		{"kubepods/pod5a0c/crio-c1", "/kubepods/pod5a0c/crio-c1"},
		{"kubepods-pod5a_0c.slice:cri-containerd:c1", "/kubepods.slice/kubepods-pod5a_0c.slice/cri-containerd-c1.scope"},
		{"kubepods-besteffort-pod5a0c.slice:crio:c1",
			"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod5a0c.slice/crio-c1.scope"},
		{"a.slice::c1", "/a.slice/c1.scope"},
		{":cri-containerd:c1", "/system.slice/cri-containerd-c1.scope"},
		{"-.slice:x:c1", "/x-c1.scope"},
		{"kubepods-burstable-pod5a0c.slice", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod5a0c.slice"},
		{"/kubepods.slice/kubepods-pod5a0c.slice", "/kubepods.slice/kubepods-pod5a0c.slice"},
		{"", ""},
		{"a.slice:x:", ""},
		{"a.slice:x", ""},
		{"a.slice:x:y:z", ""},
		{"a:x:c1", ""},
		{"a--b.slice:x:c1", ""},
		{"-a.slice:x:c1", ""},
		{"../a.slice:x:c1", ""},
		{"a.slice:x:../../c1", ""},
	} {
		got, err := CgroupPath(test.path)
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%q: %q, %v, want %q", test.path, got, err, test.want)
		}
	}
}

// FuzzCgroupPath looks for paths that lead out of the hierarchy.
func FuzzCgroupPath(f *testing.F) {
	for _, seed := range []string{"/kubepods/podx/c1", "kubepods-podx.slice:crio:c1", "../..", "a.slice:..:..", ":..:.."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got, err := CgroupPath(path)
		if err == nil && (!strings.HasPrefix(got, "/") || strings.Contains(got+"/", "/../") || strings.Contains(got, "//")) {
			t.Errorf("%q gives %q", path, got)
		}
	})
}

func TestSettings(t *testing.T) {
	for _, test := range []struct {
		name          string
		settings      Settings
		cpus          string
		quota, period int64 // 0 for none
	}{
		{"nothing", Settings{}, "", 0, 0},
		{"a period alone is nothing", Settings{Period: time.Second}, "", 0, 0},
		{"cpus", Settings{CPUs: cpuset.MustParse("2-3,8")}, "2-3,8", 0, 0},
		{"quota", Settings{Quota: 150 * time.Millisecond}, "", 150000, 0},
		{"no quota", Settings{Quota: bandwidth.Unlimited}, "", -1, 0},
		{"no quota, with a period", Settings{Quota: bandwidth.Unlimited, Period: 50 * time.Millisecond}, "", -1, 50000},
		{"all", Settings{CPUs: cpuset.Of(0), Quota: time.Millisecond, Period: time.Second}, "0", 1000, 1000000},
	} {
		cpu := test.settings.cpu()
		if (cpu == nil) != (test.cpus == "" && test.quota == 0) {
			t.Errorf("%s: %v", test.name, cpu)
		}
		if cpu.GetCpus() != test.cpus || cpu.GetQuota().GetValue() != test.quota ||
			int64(cpu.GetPeriod().GetValue()) != test.period || (cpu.GetPeriod() != nil) != (test.period != 0) {
			t.Errorf("%s: %v", test.name, cpu)
		}
	}
}
