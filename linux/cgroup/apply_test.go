package cgroup

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/test/must"
)

const (
	testID        = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	testPod       = "/kubepods/burstable/pod11111111-2222-3333-4444-555555555555"
	testContainer = testPod + "/" + testID
	testSlice     = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice"
)

func openFixture(t *testing.T, name string) *FS {
	t.Helper()
	archive := must.Get(txtar.ParseFile("testdata/" + name + ".txtar"))(t)
	return must.Get(Open(Unpack(t, archive)))(t)
}

// Unpack writes the files of an archive to a new directory.
func Unpack(t *testing.T, archive *txtar.Archive) (root string) {
	t.Helper()
	root = t.TempDir()
	files, err := txtar.FS(archive)
	if err == nil {
		err = os.CopyFS(root, files)
	}
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestApplyWritesWhatDiffers also checks the counts of writes, and a group that already has the
// wanted settings.
func TestApplyWritesWhatDiffers(t *testing.T) {
	fs := openFixture(t, "v1-separate")
	o := fs.Apply(map[string]Wanted{
		"/kubepods":   {Quota: new(bandwidth.Unlimited)},
		testPod:       {Quota: ms(80), Burst: ms(50), Weight: new(Weight(512))},
		testContainer: {Quota: ms(20), Period: ms(100), Burst: ms(5), CPUs: new(cpuset.MustParse("1-2"))},
	})
	want := testPod + " cpu.cfs_quota_us 80000\n" + testContainer + " cpu.cfs_burst_us 5000\n"
	if got := listed(o.Written); o.Err() != nil || got != want {
		t.Errorf("%v, written:\n%swant:\n%s", o.Err(), got, want)
	}
	counts := fs.Writes()
	if len(counts) != 2 || counts[CPUCFSQuota] != (WriteCount{Done: 1}) || counts[CPUCFSBurst] != (WriteCount{Done: 1}) {
		t.Errorf("counted %v", counts)
	}
}

// TestApplyRepairsBurst writes the burst after cpu.max only if a kernel has changed it.
func TestApplyRepairsBurst(t *testing.T) {
	fs := openFixture(t, "v2-systemd")
	w := Write{Path: testSlice, File: CPUMaxBurst, Value: "50000", IfDiffers: true}
	if done, err := (&application{fs: fs}).writeAndVerify(w); done || err != nil {
		t.Errorf("written %v, %v; the burst is correct already", done, err)
	}
	w.Value = "40000"
	if done, err := (&application{fs: fs}).writeAndVerify(w); !done || err != nil {
		t.Errorf("written %v, %v; the burst differs", done, err)
	}
}

func TestApplyUnsupported(t *testing.T) {
	fs := openFixture(t, "v1-comounted-old-kernel")
	o := fs.Apply(map[string]Wanted{testSlice: {Quota: ms(20), Burst: ms(20)}, "/kubepods.slice": {Idle: new(true)}})
	for path, since := range map[string]string{testSlice: "5.14", "/kubepods.slice": "5.15"} {
		var unsupported *feature.UnsupportedError
		if err := o.Failed[path]; !errors.As(err, &unsupported) || unsupported.Feature.Since != since || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v, want an UnsupportedError since %s", path, err, since)
		}
	}
	if len(o.Written) > 0 {
		t.Errorf("written: %s", listed(o.Written))
	}
	if o := fs.Apply(map[string]Wanted{testSlice: {Quota: ms(20), Burst: ms(0), Idle: new(false)}}); o.Err() != nil || len(o.Written) != 1 {
		t.Errorf("old kernels support no burst and not idle: %v, %s", o.Err(), listed(o.Written))
	}
}

func TestApplyEffective(t *testing.T) {
	fs := openFixture(t, "v2-systemd")
	container := testSlice + "/cri-containerd-" + testID + ".scope"
	err := fs.Apply(map[string]Wanted{container: {CPUs: new(cpuset.MustParse("1-2,9"))}}).Err()
	var effective *EffectiveError
	if !errors.As(err, &effective) || effective.Effective.String() != "1-2" {
		t.Errorf("%v, want an EffectiveError of CPUs 1-2", err)
	}
}

func TestApplyGoneAndUnmounted(t *testing.T) {
	fs := openFixture(t, "v1-separate")
	must.Do(t, os.RemoveAll(fs.Dir(CPU, testContainer)))
	o := fs.Apply(map[string]Wanted{testPod: {Quota: ms(60)}, testContainer: {Quota: ms(30)}})
	if !errors.Is(o.Failed[testContainer], ErrGone) || len(o.Failed) != 1 || len(o.Written) != 1 {
		t.Errorf("%v, written %s; want one group gone and the other written", o.Err(), listed(o.Written))
	}
	late := &application{fs, Outcome{Failed: map[string]error{}}} // gone between reading and writing
	late.carryOut([]Write{
		{Path: testContainer, File: CPUCFSQuota, Value: "30000"},
		{Path: testContainer, File: CPUCFSBurst, Value: "30000"},
		{Path: testPod, File: CPUCFSQuota, Value: "65000"},
	})
	o = late.Outcome
	if err := o.Failed[testContainer]; !errors.Is(err, ErrGone) || strings.Contains(err.Error(), "\n") || len(o.Written) != 1 {
		t.Errorf("%v, written %s; want one group gone, reported once, and the other written", o.Err(), listed(o.Written))
	}
	must.Do(t, os.RemoveAll(fs.Hierarchy(CPU).Mount))
	err := fs.Apply(map[string]Wanted{testPod: {Quota: ms(70)}}).Err()
	if !errors.Is(err, ErrNoHierarchy) || errors.Is(err, ErrGone) {
		t.Errorf("%v, want ErrNoHierarchy and not ErrGone", err)
	}
}

func TestApplyReadOnly(t *testing.T) {
	fs := openFixture(t, "v2-systemd")
	h := fs.byController[CPU]
	h.ReadOnly = true
	fs.byController[CPU] = h
	o := fs.Apply(map[string]Wanted{testSlice: {Quota: ms(70)}})
	if err := o.Failed[testSlice]; !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "read-write") || len(o.Written) > 0 {
		t.Errorf("%v, written %s; want ErrReadOnly with advice", err, listed(o.Written))
	}
	if err := fs.Apply(map[string]Wanted{testSlice: {Quota: ms(50)}}).Err(); err != nil {
		t.Errorf("nothing to write: %v", err)
	}
}
