//go:build linux

package run

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/test/golden"
)

// TestChoose chooses CPUs. Each line of testdata/cpus.txt is a case: flag and value, the parent's
// cpuset, affinity, the CPUs of other runs, isolated CPUs; then the answer.
func TestChoose(t *testing.T) {
	golden.Scenarios(t, "testdata/cpus.txt", func(t *testing.T, text string) string {
		var got strings.Builder
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			ask, _, _ := strings.Cut(line, " -> ")
			if !strings.HasPrefix(line, "#") && line != "" {
				line = ask + " -> " + chosen(t, strings.Fields(ask))
			}
			got.WriteString(line + "\n")
		}
		return got.String()
	})
}

// chosen returns the answer for one case.
func chosen(t *testing.T, fields []string) string {
	if len(fields) != 6 {
		t.Fatalf("%q are not six fields", fields)
	}
	list := func(text string) cpuset.Set {
		if text == "-" {
			text = ""
		}
		return cpuset.MustParse(text)
	}
	m, err := topology.Shape{Packages: 1, NUMAPerPackage: 2, LLCsPerNUMA: 1, CoresPerLLC: 2, ThreadsPerCore: 2}.Build()
	if err != nil {
		t.Fatal(err)
	}
	m.CPUs = m.CPUs[:7]
	m.NUMANodes[1].CPUs.Remove(7)
	m.NUMANodes[1].LocalCPUs.Remove(7)
	m.Offline, m.Isolated = cpuset.Of(7), list(fields[5])
	room := confine.Room{Parent: list(fields[2]), Affinity: list(fields[3]), Taken: list(fields[4])}
	o := &options{fullCores: placement.FullCoresPreferred}
	if fields[0] == "--cpuset" {
		if err := checkCPUs(m, room, list(fields[1])); err != nil {
			return strings.ReplaceAll(err.Error(), "\n", " / ")
		}
		return fields[1]
	}
	number, required := strings.CutSuffix(fields[1], "full")
	if o.cpus, err = frame.ParseCount(number); err != nil {
		t.Fatal(err)
	}
	if required {
		o.fullCores = placement.FullCoresRequired
	}
	cpus, shared, err := o.place(m, room)
	switch {
	case err != nil:
		return err.Error()
	case !shared.IsEmpty():
		return cpus.String() + " shared " + shared.String()
	}
	return cpus.String()
}

// TestReport prints figures as text and as JSON.
func TestReport(t *testing.T) {
	full := confine.Result{
		ExitStatus: 3, Wall: 1234567 * time.Microsecond, User: 700 * time.Millisecond, System: 41 * time.Millisecond, MaxRSS: 13 << 20,
		Settings: cgroup.Settings{Limits: bandwidth.Limits{Quota: 60 * time.Millisecond, Period: 100 * time.Millisecond, Burst: 30 * time.Millisecond}, Effective: cpuset.Range(0, 3)},
		Stat: cgroupstat.Stat{Periods: 10, Throttled: 4, ThrottledTime: 1500 * time.Millisecond, Bursts: 2,
			BurstTime: 45 * time.Millisecond, Usage: 741 * time.Millisecond},
	}
	old := full
	old.Stat.NoBursts, old.LeftBehind, old.Signal, old.ExitStatus = true, 2, syscall.SIGKILL, 137
	all := full // the timer counted one more period than there is room for
	all.Wall, all.Stat.Periods, all.Stat.Throttled = 1050*time.Millisecond, 11, 11
	lost := confine.Result{ExitStatus: 4, Wall: time.Second, MaxRSS: 13 << 20, Uncounted: true}
	free := confine.Result{Wall: 850 * time.Microsecond, LeftBehind: 1, Settings: cgroup.Settings{Limits: bandwidth.Limits{Quota: bandwidth.Unlimited}, Idle: true}}
	got := &txtar.Archive{Comment: []byte("Figures of runs as text and JSON; see TestReport.\n")}
	for _, c := range []struct {
		name   string
		result confine.Result
		wait   bool
		limit  ledger.MilliCPU
	}{
		{"full", full, false, 600}, {"old-kernel", old, false, 600}, {"all-throttled", all, false, 600}, {"changed", full, false, 500},
		{"no-limit", free, true, 0}, {"group-lost", lost, false, 600},
	} {
		for _, output := range []frame.Format{frame.Text, frame.JSON} {
			var b strings.Builder
			o := &options{output: &output, wait: c.wait, statsFile: "given", limit: c.limit, period: 100 * time.Millisecond}
			if err := o.report(&b, &c.result); err != nil {
				t.Fatal(err)
			}
			got.Files = append(got.Files, txtar.File{Name: c.name + "." + string(output), Data: []byte(b.String())})
		}
	}
	golden.Compare(t, "testdata/report.txtar", string(txtar.Format(got)))
}

// TestNameFlag: errors of the kernel's files name the flag that caused them.
func TestNameFlag(t *testing.T) {
	for want, err := range map[string]error{
		"--burst: the kernel has no CPU Burst: use Linux 5.14 or newer, or leave --burst out":              &feature.UnsupportedError{Feature: feature.Burst},
		"--idle: the kernel has no cpu.idle: use Linux 5.15 or newer, or leave --idle out and use nice(1)": &feature.UnsupportedError{Feature: feature.Idle},
		`--limit: a control group around this process has a lower limit: lower this one: write "50000" to cpu.cfs_quota_us of /x: invalid argument`: &cgroup.WriteError{
			Write: cgroup.Write{Path: "/x", File: cgroup.CPUCFSQuota, Value: "50000"}, Err: syscall.EINVAL},
	} {
		if got := nameFlag(err).Error(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
