package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/vm/guest"
)

// Timeouts end what hangs; no test asserts a time. The emulator shares the machine with other work.
const (
	programTimeout = 10 * time.Minute
	bootTimeout    = 8 * time.Minute
)

// captureProgram is the name of the program that captures the topology.
const captureProgram = "capture"

// kernelIn returns the path of a kernel in an environment variable. It skips the test if that is
// not set; what describes the kernel.
func kernelIn(t *testing.T, variable, what string) string {
	t.Helper()
	need.This(t, "a virtual machine")
	kernel := os.Getenv(variable)
	if kernel == "" {
		t.Skipf("%s is not set: set it to %s", variable, what)
	}
	if _, err := os.Stat(kernel); err != nil {
		t.Fatalf("machine: %s: %v", variable, err)
	}
	return kernel
}

// emulated returns a lab with the kernel that is emulated. It skips the test if there is no emulator
// or no kernel.
func emulated(t *testing.T) lab {
	t.Helper()
	kernel := kernelIn(t, KernelEnv, "a kernel to run this test; the package comment says what it must have")
	if _, err := exec.LookPath(Emulator); err != nil {
		t.Skipf("%v: install it (Debian: apt-get install qemu-system-x86) to run this test", err)
	}
	return lab{kernel}
}

// lab makes machines with a kernel.
type lab struct{ kernel string }

// TestVM boots machines, one at a time: the one for all tests, and one of an odd topology. The
// captures of all others are compared by TestFixtures without a boot.
func TestVM(t *testing.T) {
	l := emulated(t)
	t.Run("guest", func(t *testing.T) { testGuest(t, l) })
	for _, s := range shapes {
		if s.name != oddShape && !updates() {
			continue
		}
		t.Run("shape-"+s.name, func(t *testing.T) { compare(t, s, l.boot(t, s.Shape)[captureProgram]) })
	}
	t.Run("panics", func(t *testing.T) { testPanics(t, l) })
	t.Run("hangs", func(t *testing.T) { testHangs(t, l) })
}

// tests returns a program that runs tests of a package.
func tests(name, pkg, run string) program {
	return program{guest.Program{Name: name, Path: "/bin/" + filepath.Base(pkg) + ".test", Timeout: programTimeout + time.Minute,
		Args: []string{"-test.run=" + run, "-test.v=test2json", "-test.timeout=" + programTimeout.String()}}, pkg}
}

// machine returns a machine of a shape with some programs, which it builds.
func (l lab) machine(t *testing.T, s Shape, programs ...program) Machine {
	t.Helper()
	m := Machine{Shape: s, Kernel: l.kernel, Init: built(t, "init", "./test/vm/guest/init")}
	for _, p := range programs {
		m.Programs = append(m.Programs, p.Program)
		if binary := built(t, filepath.Base(p.Path), p.pkg); !slices.Contains(m.Binaries, binary) {
			m.Binaries = append(m.Binaries, binary)
		}
	}
	return m
}

// boot runs a machine of a shape with some programs and one that captures the topology. It returns
// their results.
func (l lab) boot(t *testing.T, s Shape, programs ...program) map[string]guest.Ran {
	t.Helper()
	capture := guest.Program{Name: captureProgram, Path: "/bin/pinfold", Args: []string{"topology", "capture"}, Timeout: programTimeout}
	return run(t, l.machine(t, s, append(programs, program{capture, "./cmd/pinfold"})...))
}

// run runs a machine. What the machine did before it failed is still useful.
func run(t *testing.T, m Machine) map[string]guest.Ran {
	t.Helper()
	timeout := bootTimeout
	for _, p := range m.Programs {
		timeout += p.Timeout
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	started := time.Now()
	ran, err := m.Run(ctx, t.TempDir())
	t.Logf("the guest ran for %v", time.Since(started).Round(time.Second/10))
	switch {
	case errors.Is(err, errSilent):
		t.Errorf("machine: %v", err)
	case err != nil:
		t.Error(err)
	}
	return ran
}

// test runs tests in a machine, and creates subtests for their results.
func (l lab) test(t *testing.T, s Shape, programs ...program) map[string]guest.Ran {
	t.Helper()
	ran := l.boot(t, s, programs...)
	for _, p := range programs {
		replayed(t, p.Name, ran)
	}
	return ran
}

// TestSmoke boots the machine for all tests once: settings of cgroups on version 2 are written and
// read back, a process is placed by the kernel's topology, which is as configured, and schedulers in
// BPF are loaded, replaced and refused. No result depends on the speed of the machine.
func TestSmoke(t *testing.T) {
	ran := emulated(t).test(t, mainShape.Shape,
		tests("linux-cgroup", "./linux/cgroup", "^TestHost$"),
		tests("linux-scx", "./linux/scx", "^(TestAttach|TestRejected|TestCannotStart)$"),
		tests("inside", "./test/vm/inside", "^TestInside$/^(cpuset-order|placement)$"))
	t.Run("topology", func(t *testing.T) { compare(t, mainShape, ran[captureProgram]) })
}

// testGuest tests cgroups, commands in cgroups and the reader of the topology on a machine with two
// packages, four NUMA nodes and SMT.
func testGuest(t *testing.T, l lab) {
	ran := l.test(t, mainShape.Shape,
		tests("linux-cgroup", "./linux/cgroup", "^TestHost$"),
		tests("linux-cgroupstat", "./linux/cgroup/cgroupstat", "^TestHost$"),
		tests("linux-cgrouptree", "./linux/cgroup/cgrouptree", "^TestHost$"),
		tests("linux-sampler", "./linux/sampler", "^(TestHost|TestNoAllocation)$"),
		tests("linux-confine", "./linux/confine", "^(TestHost|TestPlaced)$"),
		tests("linux-sysfs", "./linux/sysfs", "^TestHost$"),
		tests("linux-schedtrace", "./linux/schedtrace", "^(TestThrottled|TestVanishes|TestTwice|TestKilled|TestHotplug|TestMonitor|TestNewGroups)$"),
		tests("agent", "./agent", "^TestCoresOnThisMachine$"),
		tests("inside", "./test/vm/inside", "^TestInside$"))
	t.Run("topology", func(t *testing.T) { compare(t, mainShape, ran[captureProgram]) })
}

// TestOldKernel traces the scheduler of a kernel before Linux 6.18, in which a quota that is used
// up throttles whole run queues.
func TestOldKernel(t *testing.T) {
	l := lab{kernelIn(t, OldKernelEnv, "a kernel before Linux 6.18 to run this test; the package comment says how")}
	l.test(t, Shape{Packages: 1, Dies: 1, Cores: 2, Threads: 1},
		tests("linux-schedtrace", "./linux/schedtrace", "^(TestThrottled|TestVanishes|TestTwice|TestKilled|TestMonitor)$"))
}

// extShape has cores of two threads, for batch work.
var extShape = Shape{Packages: 1, Dies: 1, Cores: 2, Threads: 2}

// extFaults are tests of a scheduler in BPF that depend on the kernel's version: it is loaded,
// attached, replaced, refused and ended.
func extFaults() []program {
	return []program{
		tests("linux-scx-faults", "./linux/scx", "^(TestKilled|TestTwo|TestReplace|TestHotplug|TestWatchdog|TestCannotStart|TestRejected|TestAffinity)$"),
		tests("agent", "./agent", "^(TestScheduleOnThisMachine|TestRescueOnThisMachine)$"),
	}
}

// TestBatchScheduler runs batch work by a scheduler in BPF.
func TestBatchScheduler(t *testing.T) {
	emulated(t).test(t, extShape, append(extFaults(),
		tests("linux-scx", "./linux/scx", "^(TestShares|TestBudget|TestExpeller|TestOverdue|TestBoundedTimer|TestOnlineFirst|TestSideBySide)$"),
		tests("lab-measure", "./lab/measure", "^TestPutBehind$"),
		tests("linux-scx-often", "./linux/scx", "^TestAttachOften$"))...)
}

// TestBatchSchedulerKernels runs what depends on the version on other kernels that have sched_ext.
func TestBatchSchedulerKernels(t *testing.T) {
	emulated(t)
	kernels := strings.Fields(os.Getenv(ExtKernelsEnv))
	if len(kernels) == 0 {
		t.Skipf("%s is not set: set it to other kernels with sched_ext; the package comment says how", ExtKernelsEnv)
	}
	for _, kernel := range kernels {
		t.Run(filepath.Base(kernel), func(t *testing.T) { lab{kernel}.test(t, extShape, extFaults()...) })
	}
}

// small is a machine that boots quickly.
var small = Shape{Packages: 1, Dies: 1, Cores: 1, Threads: 1}

// testPanics boots a machine whose first process ends: the error must say why.
func testPanics(t *testing.T, l lab) {
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	defer cancel()
	_, err := Machine{Shape: small, Kernel: l.kernel, Init: built(t, "pinfold", "./cmd/pinfold")}.Run(ctx, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "before it was done") || !strings.Contains(err.Error(), "Kernel panic") {
		t.Errorf("error %v; want one with the end of the console", err)
	}
}

// testHangs runs a program that does not end, and a machine that does not end before its context.
func testHangs(t *testing.T, l lab) {
	hang := tests("sleep", "./test/vm/inside", "^TestHang$")
	hang.Timeout = time.Second
	if ran := run(t, l.machine(t, small, hang)); ran["sleep"].Failed != "timeout after 1s" {
		t.Errorf("a program that does not end: %+v", ran)
	}
	hang.Timeout = bootTimeout
	short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := l.machine(t, small, hang).Run(short, t.TempDir()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a machine that does not end: %v, want the context's error", err)
	}
}

// compare compares what linux/sysfs reads in a capture with QEMU's configuration, and with the
// fixture, which it rewrites if the test updates.
func compare(t *testing.T, s named, capture guest.Ran) {
	if capture.Failed != "" {
		t.Fatalf("pinfold topology capture: %s\n%s", capture.Failed, capture.Output)
	}
	got := machineOf(t, capture.Output)
	if diff := topologytest.Diff(withMemoryOf(t, s.Machine(), got), got); diff != "" {
		t.Errorf("-configured +read:\n%s\nof\n%s", diff, capture.Output)
	}
	name := s.fixture()
	if updates() {
		if !t.Failed() {
			writeFixture(t, name, s, capture.Output)
		}
		return
	}
	fixture, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v: create the fixtures with 'make fixtures'", err)
	}
	kept := machineOf(t, string(fixture))
	if diff := topologytest.Diff(withMemoryOf(t, kept, got), got); diff != "" {
		t.Errorf("%s is not a capture of this shape, recreate it with 'make fixtures': -fixture +read:\n%s", name, diff)
	}
}

// updates reports whether the captures are made anew, by PINFOLD_UPDATE=captures: PINFOLD_UPDATE=1
// does not, because a capture contains its date.
func updates() bool { return os.Getenv("PINFOLD_UPDATE") == "captures" }

// fixture returns the path of the capture of a shape.
func (s named) fixture() string {
	return filepath.Join("..", "..", "linux", "sysfs", "testdata", "qemu-"+s.name+".txtar")
}

// TestFixtures compares the captures in linux/sysfs with the shapes, without booting a machine:
// topology and provenance.
func TestFixtures(t *testing.T) {
	for _, s := range append(shapes, mainShape) {
		t.Run(s.name, func(t *testing.T) {
			text := must.Get(os.ReadFile(s.fixture()))(t)
			got := machineOf(t, string(text))
			if diff := topologytest.Diff(withMemoryOf(t, s.Machine(), got), got); diff != "" {
				t.Errorf("-shape +fixture:\n%s", diff)
			}
			for _, part := range []string{s.about, configured(s.Shape), "\nkernel    Linux ", "\ncaptured  20", "\nby        pinfold "} {
				if !strings.Contains(string(text), part) {
					t.Errorf("the header of %s lacks\n%s", s.fixture(), part)
				}
			}
		})
	}
}

func machineOf(t *testing.T, archive string) *topology.Machine {
	t.Helper()
	tree, err := sysfs.ParseArchive([]byte(archive))
	if err != nil {
		t.Fatalf("%v in\n%s", err, archive)
	}
	m, err := sysfs.Read(tree)
	if err != nil {
		t.Fatalf("%v in\n%s", err, archive)
	}
	return m
}

// withMemoryOf gives the nodes of want the memory of those of got, if it is about the same: kernels
// reserve different amounts. It gives the caches of want the sizes of those of got, which are the
// emulator's and which fixtures from before they were read do not have.
func withMemoryOf(t *testing.T, want, got *topology.Machine) *topology.Machine {
	t.Helper()
	for i := range min(len(want.NUMANodes), len(got.NUMANodes)) {
		w, g := &want.NUMANodes[i], got.NUMANodes[i]
		if g.MemoryBytes > w.MemoryBytes*5/4 || g.MemoryBytes < w.MemoryBytes/2 {
			t.Errorf("node %d has %d MiB, want about %d", w.ID, g.MemoryBytes>>20, w.MemoryBytes>>20)
		}
		w.MemoryBytes = g.MemoryBytes
	}
	want.LLCBytes = got.LLCBytes
	return want
}

// writeFixture writes a capture as a fixture of linux/sysfs, whose tests add the machine.
func writeFixture(t *testing.T, name string, s named, capture string) {
	t.Helper()
	version := must.Get(exec.Command(Emulator, "--version").Output())(t)
	emulator, _, _ := strings.Cut(string(version), "\n")
	about := fmt.Sprintf("%s\nA virtual machine of test/vm; 'make fixtures' makes this file anew.\n\nemulator  %s, -cpu Icelake-Server\n%s\n",
		s.about, emulator, configured(s.Shape))
	must.Do(t, os.WriteFile(name, []byte(about+capture+"-- machine --\n"), 0o644))
}

// configured returns the arguments of QEMU and the kernel and the configuration of the guest for a shape,
// one per line.
func configured(s Shape) string {
	arguments := s.Arguments()
	if k := s.KernelArguments(); k != "" {
		arguments = append(arguments, "-append", k)
	}
	var b strings.Builder
	for i := 0; i < len(arguments); i += 2 {
		fmt.Fprintf(&b, "  %s %s\n", arguments[i], arguments[i+1])
	}
	if !s.Offline.IsEmpty() {
		fmt.Fprintf(&b, "  taken offline: %s\n", s.Offline)
	}
	return b.String()
}
