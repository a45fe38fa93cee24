package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/kube/nri"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/systemd"
	"pinfold.dev/pinfold/test/wait"
)

// managed is a node whose groups a fakeSystemd manages, with an agent that has enforced two pods:
// one has CPU 0 alone, the other one the other CPUs.
type managed struct {
	*world
	tree               *tree
	systemd            *fakeSystemd
	naming             kubepods.Naming
	boundPod, otherPod string // groups
	bound, other       string // of the pods' containers
	handler            nri.Handler
}

// limit is how long decisions wait for a call.
func newManaged(t *testing.T, limit time.Duration) *managed {
	t.Helper()
	m := &managed{tree: newTree(t), naming: kubepods.Naming{Driver: kubepods.Systemd}}
	for _, tier := range qos.Tiers() {
		m.tree.group(m.naming.Tier(tier), "-1")
	}
	web, other := asking("web"), newPod("other")
	run(web, containerID('a'))
	run(other, containerID('b'))
	m.boundPod, m.bound = m.pod("web", 'a')
	m.otherPod, m.other = m.pod("other", 'b')
	m.systemd = newFakeSystemd(t, m.tree, m.boundPod, m.bound, m.otherPod, m.other)
	m.world = newWorld(t, web, other)
	m.root = m.tree.root
	m.more = func(o *Options) { o.CallLimit = limit }
	connected := make(chan nri.Handler, 1)
	m.runtime = func(ctx context.Context, o nri.Options, h nri.Handler) {
		o.OnState(nri.State{Connected: true})
		connected <- h
		<-ctx.Done()
	}
	m.start()
	m.handler = <-connected
	m.eventually(func() error { return errors.Join(m.settled("1-7"), m.ready()) })
	return m
}

// pod makes the groups of a pod and its container.
func (m *managed) pod(name string, id rune) (pod, container string) {
	pod = m.naming.Pod(qos.Burstable, "uid-"+name)
	container = m.naming.Container(qos.Burstable, "uid-"+name, "cri-containerd", containerID(id))
	for _, group := range []string{pod, container} {
		m.tree.group(group, "100000")
		m.tree.ran(group)
	}
	return pod, container
}

// settled returns an error unless the other container has the CPUs, and systemd knows that.
func (m *managed) settled(cpus string) error {
	if _, known := m.systemd.told(m.other); known != cpus {
		return fmt.Errorf("systemd knows CPUs %s of %s, want %s", known, m.other, cpus)
	}
	if _, known := m.systemd.told(m.bound); known != "0" {
		return fmt.Errorf("systemd knows CPUs %s of %s, want 0", known, m.bound)
	}
	return m.tree.cpus(m.other, cpus)
}

// quotas returns an error unless systemd knows that the groups have no quota.
func (m *managed) quotas(groups ...string) error {
	m.systemd.mu.Lock()
	defer m.systemd.mu.Unlock()
	for _, group := range groups {
		if quota := m.systemd.values[path.Base(group)]["CPUQuotaPerSecUSec"].Value(); quota != uint64(math.MaxUint64) {
			return fmt.Errorf("systemd knows the quota %v of %s", quota, group)
		}
	}
	return nil
}

// create lets the runtime create a container of a new pod that has a CPU alone.
func (m *managed) create(cpu string) {
	m.t.Helper()
	pod := asking("new" + cpu)
	if _, err := m.client.CoreV1().Pods(pod.Namespace).Create(m.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		m.t.Fatal(err)
	}
	group := m.naming.Pod(qos.Burstable, string(pod.UID))
	m.tree.group(group, "100000")
	settings, err := m.handler.Create(m.t.Context(), nri.Pod{ID: "s" + cpu, UID: ledger.PodID(pod.UID), Namespace: "default", Name: pod.Name, CgroupParent: group},
		nri.Container{ID: containerID('c'), PodID: "s" + cpu, Name: "app"})
	if err != nil || settings.CPUs.String() != cpu {
		m.t.Errorf("the new container gets CPUs %s (%v), want %s", settings.CPUs, err, cpu)
	}
}

// TestCreateDoesNotWaitForSystemd holds systemd while a container is created: the container does
// not wait, the other one has left its CPU at once, and systemd learns of it later.
func TestCreateDoesNotWaitForSystemd(t *testing.T) {
	m := newManaged(t, time.Hour)
	release := m.systemd.hold(m.other)
	defer release()
	m.create("4") // or it waits for an hour
	if err := m.tree.cpus(m.other, "1-3,5-7"); err != nil {
		t.Error(err)
	}
	release()
	m.eventually(func() error { return m.settled("1-3,5-7") })
}

// hang holds systemd, lets a container with a CPU come, and waits until a call about the other
// container hangs.
func (m *managed) hang() (release func()) {
	m.t.Helper()
	release = m.systemd.hold(m.other)
	before, _ := m.systemd.told(m.other)
	m.create("4")
	m.eventually(func() error {
		if now, _ := m.systemd.told(m.other); now == before {
			return errors.New("systemd was not called")
		}
		return nil
	})
	return release
}

// TestLateCallUndoesNothing holds a call about a group while a newer decision changes the group:
// what the call writes is old. The decision waits for the call.
func TestLateCallUndoesNothing(t *testing.T) {
	m := newManaged(t, time.Hour)
	release := m.hang()
	var released atomic.Bool
	time.AfterFunc(10*time.Millisecond, func() { released.Store(true); release() })
	m.create("1")
	if err := m.tree.cpus(m.other, "2-3,5-7"); err != nil {
		t.Error(err)
	}
	if !released.Load() {
		t.Error("the decision was written before the call had ended")
	}
	for range 100 {
		if err := m.tree.cpus(m.other, "2-3,5-7"); err != nil {
			t.Fatalf("after the late call: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
	m.eventually(func() error { return m.settled("2-3,5-7") })
}

// TestNobodyWaitsWithTheLock holds a call about a group that a new container needs to be moved: while the
// creation waits for the call, what others tell the agent does not wait.
func TestNobodyWaitsWithTheLock(t *testing.T) {
	m := newManaged(t, time.Hour)
	release := m.hang()
	defer release()
	created := make(chan struct{})
	go func() { m.create("1"); close(created) }()
	m.eventually(func() error {
		if text, err := os.ReadFile(allocationsFile(m.runDir)); err != nil || !strings.Contains(string(text), "uid-new1") {
			return fmt.Errorf("the allocation is not saved: %s (%w)", text, err)
		}
		return nil
	})
	for range 100 {
		m.handler.Stopped(t.Context(), nri.Pod{UID: "uid-none"}, nri.Container{Name: "app"}) // or it waits for an hour
		time.Sleep(time.Millisecond)
	}
	select {
	case <-created:
		t.Error("the creation has not waited for the call")
	default:
	}
	release()
	<-created
}

// TestDecisionDoesNotWaitForLong holds a call for longer than the limit: the decision is written,
// and what the call writes is replaced.
func TestDecisionDoesNotWaitForLong(t *testing.T) {
	m := newManaged(t, 10*time.Millisecond)
	release := m.hang()
	defer release()
	m.create("1")
	if err := m.tree.cpus(m.other, "2-3,5-7"); err != nil {
		t.Error(err)
	}
	release()
	m.eventually(func() error { return m.settled("2-3,5-7") })
}

// TestAcceptedUnitsAreNotToldAgain lets a call about one unit fail twice: only that one is
// repeated.
func TestAcceptedUnitsAreNotToldAgain(t *testing.T) {
	m := newManaged(t, callLimit)
	m.eventually(func() error { return m.quotas(m.boundPod, m.bound) }) // the last settings that are told
	calls := map[string]int{}
	for _, group := range []string{m.bound, m.boundPod, m.otherPod} {
		calls[group], _ = m.systemd.told(group)
	}
	before, _ := m.systemd.told(m.other)
	m.systemd.fail(m.other, 2)
	m.create("4")
	m.eventually(func() error { return m.log.Says("set properties of cri-containerd-" + containerID('b')) })
	m.eventually(func() error { return m.settled("1-3,5-7") })
	if now, _ := m.systemd.told(m.other); now != before+3 {
		t.Errorf("systemd was called %d times about the unit that failed twice, want 3", now-before)
	}
	calls[m.otherPod]++ // the CPUs of both pods have changed
	calls[m.boundPod]++
	for group, want := range calls {
		if now, _ := m.systemd.told(group); now > want {
			t.Errorf("systemd was told %s %d times, want %d", group, now, want)
		}
	}
}

// toldUnit is a unit of a systemd, and units that tell it.
type toldUnit struct {
	*units
	systemd *fakeSystemd
	tree    *tree
	group   string
}

func newToldUnit(t *testing.T) *toldUnit {
	t.Helper()
	k := newTree(t)
	group := kubepods.Naming{Driver: kubepods.Systemd}.Container(qos.Burstable, "uid-a", "cri-containerd", containerID('a'))
	k.group(group, "100000")
	return &toldUnit{newUnits(k.root, k.fs), newFakeSystemd(t, k, group), k, group}
}

// write writes settings of the group as kernel.Apply does.
func (u *toldUnit) write(w cgroup.Wanted) {
	wanted := map[string]cgroup.Wanted{u.group: w}
	u.groups.Apply(wanted)
	u.wrote(wanted)
}

func (u *toldUnit) tellAll(t *testing.T) { u.tell(t.Context(), func() {}, func() {}) }

func wantCPUs(of ...cpuset.CPU) cgroup.Wanted { return cgroup.Wanted{CPUs: new(cpuset.Of(of...))} }

func wantQuota(n time.Duration) cgroup.Wanted {
	return cgroup.Wanted{Quota: new(n * time.Millisecond), Period: new(100 * time.Millisecond)}
}

// quota returns the quota that systemd knows, in microseconds per second.
func (u *toldUnit) quota() any {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	return u.systemd.values[path.Base(u.group)]["CPUQuotaPerSecUSec"].Value()
}

// TestOldQuotaDoesNotUndoAResize: the kubelet resizes a container before systemd was told a quota
// of the agent, and has told systemd. What the task tells later is older than that.
func TestOldQuotaDoesNotUndoAResize(t *testing.T) {
	u := newToldUnit(t)
	u.write(wantQuota(50))
	runc, err := systemd.Connect(t.Context(), u.tree.root)
	if err != nil {
		t.Fatal(err)
	}
	defer runc.Close()
	if err := runc.Set(t.Context(), u.group, wantQuota(200)); err != nil {
		t.Fatal(err)
	}
	u.groups.Apply(map[string]cgroup.Wanted{u.group: wantQuota(200)})
	u.tellAll(t)
	if got := u.quota(); got != uint64(2_000_000) {
		t.Errorf("after the resize to 2 CPUs systemd was told a quota of %v us per second", got)
	}
}

// TestNewSettingsDoNotWait: new settings of a unit do not wait for the pause after earlier ones
// that systemd rejected, or whose call was not answered: then the old ones may be in force.
func TestNewSettingsDoNotWait(t *testing.T) {
	u := newToldUnit(t)
	u.systemd.fail(u.group, 1)
	u.write(wantCPUs(0, 1))
	u.tellAll(t)
	u.write(wantCPUs(0))
	u.tellAll(t)
	if _, known := u.systemd.told(u.group); known != "0" {
		t.Errorf("systemd knows CPUs %q of a unit with new settings", known)
	}
	u.write(wantCPUs(0, 1))
	call, _ := u.begin(u.group)
	u.write(wantCPUs(0))
	u.end(call, errors.New("the connection has ended"))
	if next, _ := u.next(); next != u.group {
		t.Error("settings that are newer than a call without an answer wait")
	}
}

// TestCPUsOfRaisedContainersAreTold: a quota may stay raised for minutes. A CPU that the container
// loses meanwhile may belong to another pod, so systemd must know.
func TestCPUsOfRaisedContainersAreTold(t *testing.T) {
	u := newToldUnit(t)
	u.raises([]string{u.group})
	u.write(wantCPUs(1, 2, 3))
	u.tellAll(t)
	if _, known := u.systemd.told(u.group); known != "1-3" {
		t.Errorf("while the quota is raised systemd knows CPUs %q of the container, want 1-3", known)
	}
}

// TestNoCallBeginsDuringADecision: a decision changes many groups one after the other, and must not
// wait for a call about each.
func TestNoCallBeginsDuringADecision(t *testing.T) {
	u := newToldUnit(t)
	resume := u.pause()
	u.write(wantCPUs(0))
	u.tellAll(t)
	if calls, _ := u.systemd.told(u.group); calls != 0 {
		t.Errorf("%d calls during a decision", calls)
	}
	resume()
	u.tellAll(t)
	if calls, known := u.systemd.told(u.group); calls != 1 || known != "0" {
		t.Errorf("%d calls after the decision, and CPUs %q", calls, known)
	}
}

// TestLastDecisionIsTold: when the agent ends, ticks lower the raised quotas of pods, which systemd
// has been told. It must be told of that, too.
func TestLastDecisionIsTold(t *testing.T) {
	u := newToldUnit(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		u.run(ctx, logdedup.New(slog.New(slog.DiscardHandler), time.Now), func() {})
		close(ended)
	}()
	u.write(wantQuota(300))
	wait.True(t, "systemd knows the quota", func() bool { return u.quota() == uint64(3_000_000) })
	cancel()
	<-ended
	u.write(wantQuota(100))
	if err := u.flush(context.WithoutCancel(ctx), flushLimit); err != nil || u.quota() != uint64(1_000_000) {
		t.Errorf("systemd knows the quota %v us per second at the end: %v", u.quota(), err)
	}
}
