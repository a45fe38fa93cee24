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
	"pinfold.dev/pinfold/test/vm/guest"
)

// Timeouts, several times the duration on two busy CPUs.
const (
	programTimeout = 4 * time.Minute
	bootTimeout    = 8 * time.Minute
)

// captureProgram is the name of the program that captures the topology.
const captureProgram = "capture"

// kernelIn returns the path of a kernel in an environment variable. It skips the test if that is
// not set; what describes the kernel.
func kernelIn(t *testing.T, variable, what string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("boots virtual machines: run without -short")
	}
	kernel := os.Getenv(variable)
	if kernel == "" {
		t.Skipf("%s is not set: set it to %s", variable, what)
	}
	if _, err := os.Stat(kernel); err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return kernel
}

// needs returns the path of the kernel. It skips the test if there is no emulator or no kernel.
func needs(t *testing.T) string {
	t.Helper()
	kernel := kernelIn(t, KernelEnv, "a kernel to run this test; the package comment says what it must have")
	if _, err := exec.LookPath(Emulator); err != nil {
		t.Skipf("%v: install it (Debian: apt-get install qemu-system-x86) to run this test", err)
	}
	return kernel
}

// lab contains the parts of machines.
type lab struct {
	kernel string
	dir    string // of the binaries
}

func (l lab) path(name string) string { return filepath.Join(l.dir, name) }

// build compiles the binaries that machines run, and the tests of some packages.
func build(t *testing.T, packages ...string) lab {
	t.Helper()
	l := lab{kernel: needs(t), dir: t.TempDir()}
	l.compile(t, []string{"build", "-o", l.path("init"), "./test/vm/guest/init"},
		[]string{"build", "-o", l.path("pinfold"), "./cmd/pinfold"})
	for _, p := range packages {
		l.compile(t, []string{"test", "-c", "-o", l.path(filepath.Base(p) + ".test"), p})
	}
	return l
}

// compile runs go commands, whose last argument is a package.
func (l lab) compile(t *testing.T, commands ...[]string) {
	t.Helper()
	version := run(t, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	flags := "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=" + strings.TrimSpace(version) // Helm asks the API server
	for _, args := range commands {
		run(t, "go", slices.Insert(args, len(args)-1, flags, "-trimpath")...)
	}
}

// run runs a command in the repository and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

// TestVM boots machines, one at a time.
func TestVM(t *testing.T) {
	l := build(t, "./linux/cgroup", "./linux/cgroup/cgroupstat", "./linux/cgroup/cgrouptree", "./linux/sampler", "./linux/confine", "./linux/sysfs", "./linux/schedtrace", "./agent",
		"./test/vm/inside")
	t.Run("guest", func(t *testing.T) { testGuest(t, l) })
	for _, s := range shapes {
		t.Run("shape-"+s.name, func(t *testing.T) { compare(t, s, l.boot(t, s.Shape)[captureProgram]) })
	}
	t.Run("panics", func(t *testing.T) { testPanics(t, l) })
	t.Run("hangs", func(t *testing.T) { testHangs(t, l) })
}

// compiled returns a program that runs a compiled test binary.
func compiled(name, binary, run string) guest.Program {
	return guest.Program{Name: name, Path: "/bin/" + binary, Timeout: programTimeout,
		Args: []string{"-test.run=" + run, "-test.v=test2json", "-test.timeout=" + programTimeout.String()}}
}

// boot runs a machine of a shape with some programs and one that captures the topology. It returns
// their results.
func (l lab) boot(t *testing.T, s Shape, programs ...guest.Program) map[string]guest.Ran {
	t.Helper()
	m := Machine{Shape: s, Kernel: l.kernel, Init: l.path("init"),
		Binaries: []string{l.path("pinfold")},
		Programs: append(programs, guest.Program{Name: captureProgram, Path: "/bin/pinfold",
			Args: []string{"topology", "capture"}, Timeout: programTimeout})}
	for _, p := range programs {
		m.Binaries = append(m.Binaries, l.path(filepath.Base(p.Path)))
	}
	timeout := bootTimeout
	for _, p := range programs {
		timeout += p.Timeout / 2
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	started := time.Now()
	ran, err := m.Run(ctx, t.TempDir())
	t.Logf("the guest ran for %v", time.Since(started).Round(time.Second/10))
	if err != nil {
		t.Errorf("%v", err) // the results so far are still useful
	}
	return ran
}

// testGuest tests cgroups, commands in cgroups and the reader of the topology on a machine with two
// packages, four NUMA nodes and SMT.
func testGuest(t *testing.T, l lab) {
	traces := tracesScheduler()
	ran := l.boot(t, mainShape.Shape,
		compiled("linux-cgroup", "cgroup.test", "^TestHost$"),
		compiled("linux-cgroupstat", "cgroupstat.test", "^TestHost$"),
		compiled("linux-cgrouptree", "cgrouptree.test", "^TestHost$"),
		compiled("linux-sampler", "sampler.test", "^(TestHost|TestNoAllocation)$"),
		compiled("linux-confine", "confine.test", "^TestHost$"),
		compiled("linux-confine-placed", "confine.test", "^TestPlaced$"),
		compiled("linux-sysfs", "sysfs.test", "^TestHost$"),
		traces,
		compiled("agent", "agent.test", "^TestCoresOnThisMachine$"),
		compiled("inside", "inside.test", "^TestInside$"))
	replayed(t, "linux-cgroup", ran)
	replayed(t, "linux-cgroupstat", ran)
	replayed(t, "linux-cgrouptree", ran)
	replayed(t, "linux-sampler", ran)
	replayed(t, "linux-confine", ran)
	replayed(t, "linux-confine-placed", ran)
	replayed(t, "linux-sysfs", ran)
	replayed(t, "linux-schedtrace", ran)
	replayed(t, "agent", ran)
	replayed(t, "inside", ran)
	t.Run("topology", func(t *testing.T) { compare(t, mainShape, ran[captureProgram]) })
}

// tracesScheduler returns the program that traces loads whose answer is known.
func tracesScheduler() guest.Program {
	return compiled("linux-schedtrace", "schedtrace.test", "^(TestThrottled|TestThrottledTogether|TestTurns|TestSiblings|TestVanishes|TestTwice|TestKilled|TestHotplug|TestMonitor|TestNewGroups)$")
}

// TestOldKernel traces the scheduler of a kernel before Linux 6.18, in which a quota that is used
// up throttles whole run queues.
func TestOldKernel(t *testing.T) {
	kernel := kernelIn(t, OldKernelEnv, "a kernel before Linux 6.18 to run this test; the package comment says how")
	l := build(t, "./linux/schedtrace")
	l.kernel = kernel
	ran := l.boot(t, Shape{Packages: 1, Dies: 1, Cores: 2, Threads: 1}, tracesScheduler())
	replayed(t, "linux-schedtrace", ran)
}

// TestBatchScheduler runs batch work by a scheduler in BPF, on cores of two threads.
func TestBatchScheduler(t *testing.T) {
	l := build(t, "./linux/scx", "./agent", "./lab/measure")
	l.testBatch(t, append(batchPrograms(),
		compiled("linux-scx-order", "scx.test", "^(TestOnlineFirst|TestSideBySide)$"),
		compiled("lab-measure", "measure.test", "^TestPutBehind$"),
		compiled("linux-scx-often", "scx.test", "^TestAttachOften$")))
}

// TestBatchSchedulerKernels does the same, without the longest tests, on other kernels that have
// sched_ext.
func TestBatchSchedulerKernels(t *testing.T) {
	kernels := strings.Fields(os.Getenv(ExtKernelsEnv))
	if len(kernels) == 0 {
		t.Skipf("%s is not set: set it to other kernels with sched_ext; the package comment says how", ExtKernelsEnv)
	}
	l := build(t, "./linux/scx", "./agent")
	for _, kernel := range kernels {
		t.Run(filepath.Base(kernel), func(t *testing.T) {
			other := l
			other.kernel = kernel
			other.testBatch(t, batchPrograms())
		})
	}
}

func batchPrograms() []guest.Program {
	return []guest.Program{
		compiled("linux-scx", "scx.test", "^(TestShares|TestBudget|TestExpeller|TestOverdue|TestBoundedTimer|TestAffinity)$"),
		compiled("linux-scx-faults", "scx.test", "^(TestKilled|TestTwo|TestReplace|TestHotplug|TestWatchdog|TestCannotStart|TestRejected)$"),
		compiled("agent", "agent.test", "^(TestScheduleOnThisMachine|TestRescueOnThisMachine)$"),
	}
}

func (l lab) testBatch(t *testing.T, programs []guest.Program) {
	ran := l.boot(t, Shape{Packages: 1, Dies: 1, Cores: 2, Threads: 2}, programs...)
	for _, p := range programs {
		replayed(t, p.Name, ran)
	}
}

// small is a machine that boots quickly.
var small = Shape{Packages: 1, Dies: 1, Cores: 1, Threads: 1}

// testPanics boots a machine whose first process ends: the error must say why.
func testPanics(t *testing.T, l lab) {
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	defer cancel()
	_, err := Machine{Shape: small, Kernel: l.kernel, Init: l.path("pinfold")}.Run(ctx, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "before it was done") || !strings.Contains(err.Error(), "Kernel panic") {
		t.Errorf("error %v; want one with the end of the console", err)
	}
}

// testHangs runs a program that does not end, and a machine that does not end before its context.
func testHangs(t *testing.T, l lab) {
	sleep := compiled("sleep", "inside.test", ".")
	sleep.Args = []string{"-test.run=^TestHang$"}
	sleep.Timeout = time.Second
	m := Machine{Shape: small, Kernel: l.kernel, Init: l.path("init"), Binaries: []string{l.path("inside.test")}, Programs: []guest.Program{sleep}}
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	defer cancel()
	ran, err := m.Run(ctx, t.TempDir())
	if err != nil || ran["sleep"].Failed != "timeout after 1s" {
		t.Errorf("a program that does not end: %+v, %v", ran, err)
	}
	m.Programs[0].Timeout = bootTimeout
	short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := m.Run(short, t.TempDir()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a machine that does not end: %v, want the context's error", err)
	}
}

// compare compares what linux/sysfs reads in a capture with QEMU's configuration, and with the
// fixture. PINFOLD_UPDATE=captures rewrites the fixture; PINFOLD_UPDATE=1 does not, because a
// capture contains its date.
func compare(t *testing.T, s named, capture guest.Ran) {
	if capture.Failed != "" {
		t.Fatalf("pinfold topology capture: %s\n%s", capture.Failed, capture.Output)
	}
	got := machineOf(t, capture.Output)
	if diff := topologytest.Diff(withMemoryOf(t, s.Machine(), got), got); diff != "" {
		t.Errorf("-configured +read:\n%s\nof\n%s", diff, capture.Output)
	}
	name := s.fixture()
	if os.Getenv("PINFOLD_UPDATE") == "captures" {
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
			for _, part := range []string{s.about, told(s.Shape), "\nkernel    Linux ", "\ncaptured  20", "\nby        pinfold "} {
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
		s.about, emulator, told(s.Shape))
	must.Do(t, os.WriteFile(name, []byte(about+capture+"-- machine --\n"), 0o644))
}

// told returns the arguments of QEMU and the kernel and the configuration of the guest for a shape,
// one per line.
func told(s Shape) string {
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
