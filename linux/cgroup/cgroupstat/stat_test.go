package cgroupstat

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cputime"
	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/test/must"
)

// TestReaderFixture reads ordinary files that are written in place, garbled, replaced and
// removed.
func TestReaderFixture(t *testing.T) {
	for _, test := range []struct {
		machine, group string
		burst          bool
	}{
		{"v1-separate", "/kubepods", true},
		{"v1-comounted-old-kernel", "/kubepods.slice", false},
		{"v2-systemd", "/kubepods.slice", true},
	} {
		t.Run(test.machine, func(t *testing.T) {
			t.Parallel()
			fs := openFixture(t, test.machine)
			r := openStat(t, fs, test.group)
			var s Stat
			want, err := Read(fs, test.group)
			if errRead := r.Read(&s); err != nil || errRead != nil || s != want {
				t.Fatalf("read %+v, %v; want %+v, %v", s, errRead, want, err)
			}
			if l, err := r.Limits(); err != nil || l != (bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond}) {
				t.Errorf("limits %+v, %v", l, err)
			}
			last := r.limits[len(r.limits)-1].File
			if hasBurst := last == cgroup.CPUCFSBurst || last == cgroup.CPUMaxBurst; hasBurst != test.burst {
				t.Errorf("a burst file: %v, want %v", hasBurst, test.burst)
			}
			name := fs.File(test.group, cgroup.CPUStat)
			for _, step := range []struct{ content, message string }{
				{"nr_periods 77\n", ""},
				{"nr_periods\n", "cpu.stat: nr_periods: there is no number"},
				{"nr_periods 1e3\n", "nr_periods: \"1e3\" is not a number of 64 bits"},
				{"nr_periods -2147483649\n", "nr_periods: \"-2147483649\" is not a count"},
				{strings.Repeat("vendor_latency[0-1ms] 1 2 3\nheading:\n\n", 10*statSize) + "nr_periods 78\n\x00", ""},
				{"", ""},
			} {
				must.Do(t, os.WriteFile(name, []byte(step.content), 0o600))
				err := r.Read(&s)
				if (err == nil) != (step.message == "") || !strings.Contains(fmt.Sprint(err), step.message) {
					t.Errorf("%q: %v, want %q", step.content, err, step.message)
				}
				want, errWhole := Read(fs, test.group)
				if (err == nil) != (errWhole == nil) || err == nil && s != want {
					t.Errorf("%.40q: %+v, %v; read as a whole %+v, %v", step.content, s, err, want, errWhole)
				}
			}
			must.Do(t, os.Rename(name, name+".old"))
			must.Do(t, os.Remove(name+".old"))
			if err := r.Read(&s); !errors.Is(err, cgroup.ErrGone) {
				t.Errorf("removed: %v, want %v", err, cgroup.ErrGone)
			}
			r.Close()
			if err := r.Read(&s); err == nil {
				t.Error("a closed reader reads")
			}
		})
	}
}

// TestLimitsNotEnabled reads a version 2 group that has statistics but no limits, until the
// controller is enabled.
func TestLimitsNotEnabled(t *testing.T) {
	fs := openFixture(t, "v2-not-enabled")
	controllers, cpuMax := fs.Dir(cgroup.CPU, "/kubepods")+"/cgroup.controllers", fs.File("/kubepods", cgroup.CPUMax)
	must.Do(t, errors.Join(os.WriteFile(controllers, []byte("memory"), 0o600), os.Remove(cpuMax)))
	r := openStat(t, fs, "/kubepods")
	if l, err := r.Limits(); err != nil || l != (bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond}) {
		t.Errorf("limits of a group without the controller: %+v, %v", l, err)
	}
	if err := fs.CheckEnabled("/kubepods", cgroup.CPU); !errors.Is(err, cgroup.ErrNotEnabled) {
		t.Errorf("%v, want %v", err, cgroup.ErrNotEnabled)
	}
	must.Do(t, errors.Join(os.WriteFile(controllers, []byte("cpu memory"), 0o600), os.WriteFile(cpuMax, []byte("5000 50000"), 0o600)))
	if l, err := r.Limits(); err != nil || l != (bandwidth.Limits{Quota: 5 * time.Millisecond, Period: 50 * time.Millisecond}) {
		t.Errorf("limits after the controller was enabled: %+v, %v", l, err)
	}
}

// TestParseStatProperty compares the parser with one that uses the standard library.
func TestParseStatProperty(t *testing.T) {
	names := append(strings.Fields("nr_periods nr_throttled throttled_time nr_bursts nr_burst burst_time"),
		strings.Fields("throttled_usec burst_usec usage_usec user_usec x nr_")...)
	line := rapid.Custom(func(t *rapid.T) string {
		value := rapid.OneOf(rapid.Custom(func(t *rapid.T) string {
			return strconv.FormatUint(rapid.Uint64().Draw(t, "n"), 10)
		}), rapid.SampledFrom([]string{"0", "007", "", "-1", "+1", "1_0", "18446744073709551616", "9223372036854775807", "1 2", "-2147483648", "-2147483649"})).Draw(t, "value")
		return rapid.SampledFrom(names).Draw(t, "name") + rapid.SampledFrom([]string{" ", "", "\t"}).Draw(t, "space") + value
	})
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SampledFrom([]cgroup.Version{cgroup.V1, cgroup.V2}).Draw(t, "version")
		text := strings.Join(rapid.SliceOfN(line, 0, 6).Draw(t, "lines"), "\n")
		if rapid.Bool().Draw(t, "ends with a new line") && text != "" {
			text += "\n"
		}
		want, wanted := slowStat(v, text)
		got, err := parseStat(v, text)
		if (err == nil) != wanted || wanted && got != want {
			t.Fatalf("%q: %+v, %v; want %+v, %v", text, got, err, want, wanted)
		}
	})
}

func slowStat(v cgroup.Version, text string) (s Stat, ok bool) {
	values := map[string]uint64{}
	known := map[cgroup.Version][]string{cgroup.V1: {"throttled_time", "burst_time"}, cgroup.V2: {"throttled_usec", "burst_usec", "usage_usec"}}[v]
	unit := map[cgroup.Version]time.Duration{cgroup.V1: time.Nanosecond, cgroup.V2: time.Microsecond}[v]
	for line := range strings.Lines(text) {
		words := append(strings.Fields(line), "", "")
		name, value := words[0], words[1]
		n, err := strconv.ParseUint(value, 10, 64)
		timed := slices.Contains(known, name)
		counted := slices.Contains([]string{"nr_periods", "nr_throttled", "nr_bursts", "nr_burst"}, name)
		if counted && err != nil && strings.HasPrefix(value, "-") {
			var negative int64
			negative, err = strconv.ParseInt(value, 10, 32)
			n = uint64(uint32(negative))
		}
		switch {
		case !timed && !counted:
			continue
		case err != nil:
			return Stat{}, false
		case timed && n > uint64(1<<63-1)/uint64(unit):
			n = math.MaxUint64
		}
		values[strings.Replace(name, "nr_bursts", "nr_burst", 1)] = n
	}
	_, periods := values["nr_periods"]
	_, bursts := values["nr_burst"]
	either := func(v1, v2 string) time.Duration {
		if n := values[v1] + values[v2]; n != math.MaxUint64 {
			return time.Duration(n) * unit
		}
		return math.MaxInt64
	}
	return Stat{
		Periods: values["nr_periods"], Throttled: values["nr_throttled"], Bursts: values["nr_burst"], NoBursts: periods && !bursts,
		ThrottledTime: either("throttled_time", "throttled_usec"), BurstTime: either("burst_time", "burst_usec"),
		Usage: either("", "usage_usec"),
	}, true
}

func TestParseUserSystem(t *testing.T) {
	got, err := parseUserSystem("usage_usec 9\nuser_usec 5\nsystem_usec 4\nnr_periods 1\n")
	if want := [2]time.Duration{5 * time.Microsecond, 4 * time.Microsecond}; got != want || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parseUserSystem("user_usec x\n"); err == nil {
		t.Error("text that is not a number is accepted")
	}
}

func TestPressure(t *testing.T) {
	fs := openFixture(t, "v2-systemd")
	if _, err := ReadPressure(fs, "/kubepods.slice"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a kernel without it: %v", err)
	}
	for text, want := range map[string]Pressure{
		"some avg10=1.25 avg60=0.10 avg300=0.02 total=81216\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n": {81216 * time.Microsecond, 0.0125},
		"some avg10=100.00 avg60=0.00 avg300=0.00 total=0\n":                                                   {0, 1},
	} {
		must.Do(t, os.WriteFile(fs.File("/kubepods.slice", cgroup.CPUPressure), []byte(text), 0o644))
		if got, err := ReadPressure(fs, "/kubepods.slice"); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
		if got, err := parseWaited([]byte(text)); err != nil || got != want.Total {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want.Total)
		}
	}
	for _, text := range []string{"", "some avg10=1", "some total=-1", "some total=x", "some total=18446744073709551615"} {
		if got, err := parseWaited([]byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
	for _, text := range []string{"", "full avg10=0.00 total=1", "some avg10=x total=1", "some avg10=101 total=1", "some avg10=NaN total=1", "some avg10=1", "some avg10=1 total=-1"} {
		if got, err := parsePressure(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	if _, err := ReadPressure(openFixture(t, "v1-separate"), "/kubepods"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("version 1: %v", err)
	}
}

// TestRunDelaysOfSome: a group whose threads cannot be read hides its own threads and no others. The
// delays of threads that cannot be seen are unknown, not 0.
func TestRunDelaysOfSome(t *testing.T) {
	if err := feature.RunDelays.Test(); err != nil {
		t.Skip(err)
	}
	fs := openFixture(t, "v2-systemd")
	schedstat := filepath.Join(fs.Root(), "proc/201/schedstat")
	must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(schedstat), 0o755), os.WriteFile(schedstat, []byte("5 7 1\n"), 0o644)))
	burstable := fs.File("/kubepods.slice/kubepods-burstable.slice", cgroup.Threads)
	must.Do(t, errors.Join(os.Remove(burstable), os.Mkdir(burstable, 0o755))) // which is no file
	if delays, err := RunDelays(fs, "/kubepods.slice", 100); err != nil || delays[201] != 7 {
		t.Errorf("%v, %v", delays, err)
	}
	own := fs.File("/kubepods.slice", cgroup.Threads)
	for hidden, known := range map[string]bool{"0\n": false, strconv.Itoa(os.Getpid()) + "\n": false, "2147483646\n": true} { // the last has ended
		must.Do(t, errors.Join(os.WriteFile(own, []byte(hidden), 0o644), os.RemoveAll(fs.Dir(cgroup.CPU, "/kubepods.slice/kubepods-burstable.slice"))))
		must.Do(t, os.RemoveAll(filepath.Dir(schedstat)))
		if delays, err := RunDelays(fs, "/kubepods.slice", 100); len(delays) > 0 || (err == nil) != known {
			t.Errorf("a thread %q that /proc does not show: %v, %v", hidden, delays, err)
		}
	}
	if delays, err := RunDelays(fs, "/kubepods.slice/kubepods-burstable.slice/none", 100); err != nil || len(delays) > 0 {
		t.Errorf("a group that does not exist: %v, %v", delays, err)
	}
}

// TestDelays: all threads count, also those that waited in turn. Where nobody else ran, they waited
// for each other or were throttled; so they did, mostly, where a CPU was idle.
func TestDelays(t *testing.T) {
	const ms = time.Millisecond
	before := delays{at: time.Unix(100, 0), threads: map[int]time.Duration{1: 5 * time.Second, 2: 0},
		machine: map[cpuset.CPU]cputime.Times{0: {Busy: 500, Total: 9000}, 1: {Busy: 700, Total: 9000}}, group: Stat{Usage: time.Minute}}
	for _, c := range []struct {
		name            string
		waited          []time.Duration // of threads 1, 2, and 3, which is new
		used, throttled time.Duration
		busy            [2]uint64 // of the 10 ticks of each CPU
		want            time.Duration
	}{
		{"in turn", []time.Duration{20 * ms, 30 * ms, 10 * ms}, 40 * ms, 0, [2]uint64{9, 10}, 60 * ms},
		{"for each other", []time.Duration{60 * ms, 60 * ms}, 100 * ms, 0, [2]uint64{5, 5}, 0},
		{"for each other, and others ran a little", []time.Duration{60 * ms, 60 * ms}, 100 * ms, 0, [2]uint64{5, 6}, 10 * ms},
		{"throttled", []time.Duration{60 * ms, 60 * ms}, 40 * ms, 60 * ms, [2]uint64{4, 0}, 60 * ms},
		{"throttled beside others", []time.Duration{90 * ms, 90 * ms}, 40 * ms, 60 * ms, [2]uint64{10, 10}, 160 * ms},
		{"throttled, and a CPU is idle most of the time", []time.Duration{90 * ms, 90 * ms}, 40 * ms, 60 * ms, [2]uint64{5, 1}, 66 * ms},
		{"all of the time", []time.Duration{100 * ms, 100 * ms}, 0, 0, [2]uint64{10, 10}, 100 * ms},
		{"one that was not read before", []time.Duration{0, 0, time.Hour}, 0, 0, [2]uint64{10, 10}, 0},
		{"ticks of the machine are coarse", []time.Duration{10 * ms}, 20 * ms, 0, [2]uint64{1, 0}, 0},
	} {
		now := delays{at: before.at.Add(100 * ms), threads: map[int]time.Duration{}, machine: map[cpuset.CPU]cputime.Times{},
			group: Stat{Usage: before.group.Usage + c.used, ThrottledTime: c.throttled}}
		for i, waited := range c.waited {
			now.threads[i+1] = before.threads[i+1] + waited
		}
		for cpu, was := range before.machine {
			now.machine[cpu] = cputime.Times{Busy: was.Busy + c.busy[cpu], Total: was.Total + 10}
		}
		if got := now.since(&before); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func openFixture(t *testing.T, name string) *cgroup.FS {
	t.Helper()
	archive := must.Get(txtar.ParseFile("../testdata/" + name + ".txtar"))(t)
	files := must.Get(txtar.FS(archive))(t)
	root := t.TempDir()
	must.Do(t, os.CopyFS(root, files))
	return must.Get(cgroup.Open(root))(t)
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"nr_periods 3\nthrottled_usec 7\n", "1\n2\n", "usage_usec 9223372036854775807"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, v := range []cgroup.Version{cgroup.V1, cgroup.V2} {
			if s, err := parseStat(v, text); err == nil && (s.ThrottledTime < 0 || s.BurstTime < 0 || s.Usage < 0) {
				t.Errorf("%+v", s)
			}
		}
	})
}
