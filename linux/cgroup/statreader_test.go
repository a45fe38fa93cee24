package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/test/race"
)

// testHostStatReader reads a group from its creation to its removal and replacement, and checks
// that reading does not allocate.
func testHostStatReader(t *testing.T, fs *FS, top string) {
	group := top + "/pod/container"
	r := openStat(t, fs, group)
	expectLimits := func(want bandwidth.Limits) {
		t.Helper()
		if l, err := r.Limits(); err != nil || l != want {
			t.Errorf("limits %+v, %v; want %+v", l, err, want)
		}
	}
	expectLimits(bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond})
	apply(t, fs, map[string]Wanted{group: {Quota: ms(5), Period: ms(50), Burst: ms(4)}})
	expectLimits(bandwidth.Limits{Quota: 5 * time.Millisecond, Period: 50 * time.Millisecond, Burst: 4 * time.Millisecond})

	var s Stat
	if allocations := testing.AllocsPerRun(100, func() {
		if err := r.Read(&s); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Limits(); err != nil {
			t.Fatal(err)
		}
	}); allocations != 0 && !race.Enabled {
		t.Errorf("reading allocates %v times", allocations)
	}
	whole, err := fs.Stat(group)
	before := s // the period that began with the quota may end between two reads
	if err := r.Read(&s); err != nil {
		t.Fatal(err)
	}
	if err != nil || whole != before && whole != s {
		t.Errorf("an idle group reads %+v, then %+v and, opened anew in between, %+v, %v", before, s, whole, err)
	}

	remakeGroup(t, fs, group)
	if err := r.Read(&s); !errors.Is(err, ErrGone) {
		t.Errorf("reading a group that was replaced: %v, want %v", err, ErrGone)
	}
	if _, err := r.Limits(); !errors.Is(err, ErrGone) {
		t.Errorf("limits of a group that was replaced: %v, want %v", err, ErrGone)
	}
	if err := openStat(t, fs, group).Read(&s); err != nil {
		t.Errorf("opened anew: %v", err)
	}
	if _, err := fs.OpenStat(top + "/none"); !errors.Is(err, ErrGone) {
		t.Errorf("a group that never existed: %v, want %v", err, ErrGone)
	}
	if l, err := openStat(t, fs, "/").Limits(); err != nil || l.Quota != bandwidth.Unlimited {
		t.Errorf("the root group: %+v, %v, want no quota", l, err)
	}
}

func openStat(t *testing.T, fs *FS, group string) *StatReader {
	t.Helper()
	r, err := fs.OpenStat(group)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// remakeGroup removes a group and creates one of the same name.
func remakeGroup(t *testing.T, fs *FS, group string) {
	t.Helper()
	dirs := map[string]bool{}
	for _, c := range []Controller{CPU, CPUSet, CPUAcct} {
		if fs.byController[c].Mount != "" {
			dirs[fs.Dir(c, group)] = true
		}
	}
	for dir := range dirs {
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func unpackFile(t *testing.T, name string) (root string) {
	t.Helper()
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return unpack(t, archive)
}

// TestStatReaderFixture reads ordinary files that are written in place, garbled, replaced and
// removed.
func TestStatReaderFixture(t *testing.T) {
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
			root := unpackFile(t, "testdata/"+test.machine+".txtar")
			fs, err := Open(root)
			if err != nil {
				t.Fatal(err)
			}
			r := openStat(t, fs, test.group)
			var s Stat
			want, err := fs.Stat(test.group)
			if errRead := r.Read(&s); err != nil || errRead != nil || s != want {
				t.Fatalf("read %+v, %v; want %+v, %v", s, errRead, want, err)
			}
			if l, err := r.Limits(); err != nil || l != (bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond}) {
				t.Errorf("limits %+v, %v", l, err)
			}
			if hasBurst := r.limits[len(r.limits)-1].file == fs.layout.burst(); hasBurst != test.burst {
				t.Errorf("a burst file: %v, want %v", hasBurst, test.burst)
			}
			name := fs.File(test.group, CPUStat)
			for _, step := range []struct{ content, message string }{
				{"nr_periods 77\n", ""},
				{"nr_periods\n", "cpu.stat: nr_periods: there is no number"},
				{"nr_periods 1e3\n", "nr_periods: \"1e3\" is not a number of 64 bits"},
				{"nr_periods -2147483649\n", "nr_periods: \"-2147483649\" is not a count"},
				{strings.Repeat("vendor_latency[0-1ms] 1 2 3\nheading:\n\n", 10*statSize) + "nr_periods 78\n\x00", ""},
				{"", ""},
			} {
				if err := os.WriteFile(name, []byte(step.content), 0o600); err != nil {
					t.Fatal(err)
				}
				err := r.Read(&s)
				if (err == nil) != (step.message == "") || !strings.Contains(fmt.Sprint(err), step.message) {
					t.Errorf("%q: %v, want %q", step.content, err, step.message)
				}
				want, errWhole := fs.Stat(test.group)
				if (err == nil) != (errWhole == nil) || err == nil && s != want {
					t.Errorf("%.40q: %+v, %v; read as a whole %+v, %v", step.content, s, err, want, errWhole)
				}
			}
			if err := os.Rename(name, name+".old"); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(name + ".old"); err != nil {
				t.Fatal(err)
			}
			if err := r.Read(&s); !errors.Is(err, ErrGone) {
				t.Errorf("removed: %v, want %v", err, ErrGone)
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
	root := unpackFile(t, "testdata/v2-not-enabled.txtar")
	fs, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	controllers, cpuMax := fs.Dir(CPU, "/kubepods")+"/cgroup.controllers", fs.File("/kubepods", CPUMax)
	if err := errors.Join(os.WriteFile(controllers, []byte("memory"), 0o600), os.Remove(cpuMax)); err != nil {
		t.Fatal(err)
	}
	r := openStat(t, fs, "/kubepods")
	if l, err := r.Limits(); err != nil || l != (bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond}) {
		t.Errorf("limits of a group without the controller: %+v, %v", l, err)
	}
	if err := fs.CheckEnabled("/kubepods", CPU); !errors.Is(err, ErrNotEnabled) {
		t.Errorf("%v, want %v", err, ErrNotEnabled)
	}
	if err := errors.Join(os.WriteFile(controllers, []byte("cpu memory"), 0o600), os.WriteFile(cpuMax, []byte("5000 50000"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if l, err := r.Limits(); err != nil || l != (bandwidth.Limits{Quota: 5 * time.Millisecond, Period: 50 * time.Millisecond}) {
		t.Errorf("limits after the controller was enabled: %+v, %v", l, err)
	}
}

// TestNotEnabled says how a group gets a controller.
func TestNotEnabled(t *testing.T) {
	fs := openFixture(t, "v2-delegation")
	for _, test := range []struct {
		group      string
		controller Controller
		want       string
	}{
		{"/system.slice/a.service", CPU, "systemctl set-property a.service CPUWeight=100"},
		{"/system.slice/a.service", CPUSet, "systemctl set-property a.service AllowedCPUs=LIST"},
		{"/user.slice/user@1.service/app.slice", CPU, "systemctl --user set-property app.slice CPUWeight=100"},
		{"/user.slice/user@1.service/app.slice", CPUSet, "systemctl edit user@.service, add Delegate=cpu cpuset memory pids"},
		{"/own/inner/leaf", CPU, "echo +cpu | tee ROOT/sys/fs/cgroup/own/cgroup.subtree_control ROOT/sys/fs/cgroup/own/inner/cgroup.subtree_control"},
	} {
		err := fs.CheckEnabled(test.group, test.controller)
		want := strings.ReplaceAll(test.want, "ROOT", fs.root)
		if !errors.Is(err, ErrNotEnabled) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", test.group, err, want)
		}
	}
	if err := fs.CheckEnabled("/own", CPU); err != nil {
		t.Error(err)
	}
}

// TestParseStatProperty compares the parser with one that uses the standard library.
func TestParseStatProperty(t *testing.T) {
	names := append(strings.Fields("nr_periods nr_throttled throttled_time nr_bursts burst_time"),
		strings.Fields("throttled_usec burst_usec usage_usec user_usec x nr_")...)
	line := rapid.Custom(func(t *rapid.T) string {
		value := rapid.OneOf(rapid.Custom(func(t *rapid.T) string {
			return strconv.FormatUint(rapid.Uint64().Draw(t, "n"), 10)
		}), rapid.SampledFrom([]string{"0", "007", "", "-1", "+1", "1_0", "18446744073709551616", "9223372036854775807", "1 2", "-2147483648", "-2147483649"})).Draw(t, "value")
		return rapid.SampledFrom(names).Draw(t, "name") + rapid.SampledFrom([]string{" ", "", "\t"}).Draw(t, "space") + value
	})
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SampledFrom([]Version{V1, V2}).Draw(t, "version")
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

func slowStat(v Version, text string) (s Stat, ok bool) {
	values := map[string]uint64{}
	known := map[Version][]string{V1: {"throttled_time", "burst_time"}, V2: {"throttled_usec", "burst_usec", "usage_usec"}}[v]
	unit := map[Version]time.Duration{V1: time.Nanosecond, V2: time.Microsecond}[v]
	for line := range strings.Lines(text) {
		words := append(strings.Fields(line), "", "")
		name, value := words[0], words[1]
		n, err := strconv.ParseUint(value, 10, 64)
		timed := slices.Contains(known, name)
		counted := slices.Contains([]string{"nr_periods", "nr_throttled", "nr_bursts"}, name)
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
		values[name] = n
	}
	_, periods := values["nr_periods"]
	_, bursts := values["nr_bursts"]
	either := func(v1, v2 string) time.Duration {
		if n := values[v1] + values[v2]; n != math.MaxUint64 {
			return time.Duration(n) * unit
		}
		return math.MaxInt64
	}
	return Stat{
		Periods: values["nr_periods"], Throttled: values["nr_throttled"], Bursts: values["nr_bursts"], NoBursts: periods && !bursts,
		ThrottledTime: either("throttled_time", "throttled_usec"), BurstTime: either("burst_time", "burst_usec"),
		Usage: either("", "usage_usec"),
	}, true
}

func TestGroupAt(t *testing.T) {
	fs := &FS{hierarchies: []Hierarchy{{Mount: "/sys/fs/cgroup"}, {Mount: "/sys/fs/cgroup/cpu"}, {Mount: "/sys/fs/cgroup/cpuset"}}}
	got := map[string]string{}
	want := map[string]string{
		"": "/", "/": "/", "a/b/": "/a/b", "/a/../b": "/b", "/sys/fs/cgroup": "/", "/sys/fs/cgroup/cpu": "/",
		"/sys/fs/cgroup/cpu/a/b": "/a/b", "/sys/fs/cgroup/cpuset/a": "/a", "/sys/fs/cgroup/system.slice": "/system.slice",
	}
	for name := range want {
		got[name] = fs.GroupAt(name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
