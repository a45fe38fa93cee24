package control

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/agent/control/controltest"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/test/must"
)

const ms = time.Millisecond

// TestLimitHoldsAgainstAuthors checks that a container uses no more than its limit plus a constant,
// whatever the author of the pod changes, however often, and whatever restarts. Each resize and
// each restart of a container adds the CPU time that the kubelet's own writes grant.
func TestLimitHoldsAgainstAuthors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, all := "100m", []string{"period", "burst", "class", "resize", "edit", "container", "agent"}
		if static := rapid.SampledFrom([]string{"", "1@1", "1@?"}).Draw(t, "static"); static != "" {
			limit, all = static, []string{"asks", "asks", "period", "burst", "resize of CPUs", "edit", "container", "agent"}
		}
		h := newHostile(t, rapid.Uint64().Draw(t, "seed"), "app="+limit, nil)
		for range rapid.IntRange(1, 4).Draw(t, "segments") {
			kinds := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, 4,
				func(s string) string { return s }).Draw(t, "kinds")
			pause := rapid.SampledFrom([]int{100, 200, 1100, 3000}).Draw(t, "pause in ms")
			idle := rapid.IntRange(0, 3).Draw(t, "idle")
			if rapid.IntRange(0, 3).Draw(t, "owner") == 3 {
				h.node.config.QuotaOwner = OwnerOther // of agents that start
			}
			for range rapid.IntRange(1, 40).Draw(t, "acts") {
				h.act(kinds)
				h.pass(time.Duration(1+h.r.IntN(pause))*ms, h.r.IntN(4) >= idle)
			}
		}
	})
}

// TestRecreatedPods checks that a pod uses at most its limit x its life + two quotas of the
// kubelet's period, whatever its annotations are, however short it lives, and whenever it idles:
// pods that are created again and again use no more than that each.
func TestRecreatedPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		annotations := map[string]string{
			api.CPUPeriodAnnotation: rapid.SampledFrom([]string{"1s", "500ms", "100ms", "20ms"}).Draw(t, "period"),
			api.CPUBurstAnnotation:  rapid.SampledFrom([]string{`{"policy":"burst","burstPercent":100}`, `{"policy":"none"}`}).Draw(t, "burst"),
		}
		h := newHostile(t, rapid.Uint64().Draw(t, "seed"), "app=500m", annotations)
		if rapid.Bool().Draw(t, "class") {
			h.annotate(map[string]string{api.QoSLabel: "BE"})
		}
		life := time.Duration(rapid.IntRange(1, 100).Draw(t, "life")) * 50 * ms
		idle := rapid.IntRange(0, 100).Draw(t, "idle at first, of 50 ms")
		for i := range int(life / (50 * ms)) {
			h.round()
			h.pass(50*ms, i >= idle)
		}
		if used, most := h.kernel.Stats().Usage, life/2+2*50*ms; used > most {
			t.Fatalf("used %v in %v, want at most %v:\n%s", used, life, most, strings.Join(h.history, "\n"))
		}
	})
}

// TestChangesOfAnnotations checks that a change takes effect after the container has used less than
// its limit, also in a new pod; that repeated changes are postponed and users told; and that the
// last one takes effect after the container has been idle.
func TestChangesOfAnnotations(t *testing.T) {
	h := newHostile(t, 1, "app=100m", nil)
	h.pass(5*time.Second, true)
	h.annotate(map[string]string{api.CPUPeriodAnnotation: "20ms"})
	h.round()
	if got := h.kernel.Limits().Period; got != 100*ms {
		t.Fatalf("the period is %v after a first change of a pod that is always throttled", got)
	}
	h.pass(500*ms, false)
	h.round()
	if got := h.kernel.Limits().Period; got != 20*ms {
		t.Fatalf("the period is %v after a first change and a short pause", got)
	}
	for i := range 400 {
		h.annotate(map[string]string{api.CPUPeriodAnnotation: []string{"20ms", "21ms"}[i%2]})
		h.round()
		h.pass(100*ms, true)
	}
	h.annotate(map[string]string{api.CPUPeriodAnnotation: "1s"})
	for range 30 {
		h.round()
		h.pass(time.Second, true)
	}
	if !h.reported || h.kernel.Limits().Period == time.Second {
		t.Fatalf("after many changes the period is %v; users were told: %v", h.kernel.Limits().Period, h.reported)
	}
	for range 4 {
		h.pass(time.Second, false)
		h.round()
	}
	if got := h.kernel.Limits().Period; got != time.Second {
		t.Fatalf("the period is %v after the container was idle", got)
	}
}

// TestCeilingsOfPods checks that annotations above the ceilings get the ceilings, and an event.
func TestCeilingsOfPods(t *testing.T) {
	ceilings := must.Get(api.ParseCeilings([]byte("default: {burst: {policy: none}, period: {max: 50ms}}\nnamespaces: {trusted: {burst: {policy: auto}}}")))(t)
	for namespace, want := range map[string]struct {
		burst  time.Duration
		events int
	}{"default": {0, 2}, "trusted": {5 * ms, 1}} {
		n := newFakeNode()
		n.config.Ceilings = ceilings
		n.config.Burst = burst.Policy{Mode: burst.None, BurstPercent: 100, QuotaPercent: 300, QuotaBurstSeconds: 60}
		n.play(t, "machine cores=4 threads=1", "restart", "round", `pod web app=100m period=1s burst={"policy":"auto"}`)
		n.pods["web"].Namespace = namespace
		n.play(t, "create web/app", "start web/app", "status web/app")
		n.observe()
		n.decide()
		got, events := n.kernel.groups[n.kernel.pathOf("web/app")], n.events
		if got.Burst != want.burst || got.Period != 50*ms || got.Quota != 5*ms {
			t.Errorf("%s: %+v", namespace, got)
		}
		if len(events) != want.events || events[len(events)-1].Reason != groups.AboveCeiling || events[0].Pod.Name != "web" {
			t.Errorf("%s: %+v", namespace, events)
		}
	}
}

// TestCeilingsChange checks that ceilings which are lowered or raised apply to pods that run, and that a pod
// keeps CPUs of its own above them.
func TestCeilingsChange(t *testing.T) {
	n := newFakeNode()
	n.config.Burst = burst.Policy{Mode: burst.None, BurstPercent: 100, QuotaPercent: 300, QuotaBurstSeconds: 60}
	n.play(t, "machine cores=8 threads=1", "restart", "round", `pod web app=100m burst={"policy":"auto"}`, "create web/app", "start web/app", "status web/app",
		"agent", "pod first app=3@?", "create first/app", "start first/app", "round")
	for _, step := range []struct {
		ceilings string
		commands []string
		burst    time.Duration
		cpus     int // of the second pod
	}{
		{"{default: {burst: {policy: none}, exclusiveCPUs: {perPod: 2}}}", []string{"pod second app=3@?", "create second/app", "start second/app"}, 0, 0},
		{"{default: {exclusiveCPUs: {perPod: 3}}}", nil, 10 * ms, 3},
	} {
		n.control.Step(Event{Ceilings: new(must.Get(api.ParseCeilings([]byte(step.ceilings)))(t))})
		n.play(t, append(step.commands, "wait 10m", "round")...)
		if got := n.kernel.groups[n.kernel.pathOf("web/app")].Burst; got != step.burst {
			t.Errorf("%s: the burst is %v, want %v", step.ceilings, got, step.burst)
		}
		for pod, want := range map[string]int{"first": 3, "second": step.cpus} {
			if got := n.control.allocate.InForce()[n.pods[pod].UID].CPUs().Len(); got != want {
				t.Errorf("%s: pod %s has %d CPUs, want %d", step.ceilings, pod, got, want)
			}
		}
	}
}

// TestCeilingsOfExclusiveCPUs checks that ceilings hold for pods and for claims, also of what other
// pods of the namespace have on the node.
func TestCeilingsOfExclusiveCPUs(t *testing.T) {
	n := newFakeNode()
	n.config.Ceilings = must.Get(api.ParseCeilings([]byte("default: {exclusiveCPUs: {perPod: 2, perNamespace: 3}}")))(t)
	n.play(t, "agent", "restart", "machine cores=8 threads=1", "pod large app=3@=3", "pod claimant app=2@=2", "pod second app=2@=2", "pod asks app=2@?", "create asks/app")
	for _, step := range []struct{ command, want string }{
		{"claim large app=3@numa-0", "the pod asks for 3 exclusive CPUs: the administrator allows 2 per pod in its namespace"},
		{"claim claimant app=2@numa-0", "the pod asks for 2 exclusive CPUs and its namespace has or wants 2: the administrator allows the namespace 3"},
		{"remove asks", ""}, {"end asks/app", ""}, {"round", ""},
		{"claim claimant app=2@numa-0", ""},
		{"claim second app=2@numa-0", "its namespace has or wants 2"},
	} {
		if got := must.Get(n.run(strings.Fields(step.command)))(t); !strings.Contains(got, step.want) {
			t.Errorf("%s: %q, want %q", step.command, got, step.want)
		}
	}
}

// TestManyLongAllocations checks that what an agent publishes can be read, whatever the names of
// containers are, and that pods with short ones still get CPUs then.
func TestManyLongAllocations(t *testing.T) {
	c := New(Config{NodeName: "n1"})
	machine := topology.Intel104().MustBuild()
	v := groups.View{Layout: cgroup.Layout{CPU: cgroup.V1, CPUSet: cgroup.V1}, Tiers: []string{"/kubepods", "/kubepods/burstable", "/kubepods/besteffort"},
		Settings: map[string]cgroup.Settings{}}
	for _, tier := range v.Tiers {
		v.Settings[tier] = cgroup.Settings{CPUs: machine.Online()}
	}
	var all []*corev1.Pod
	const pods = 400
	for i := range pods {
		container := strings.Repeat("x", 2900)
		if i == pods-1 {
			container = "short"
		}
		pod, _, err := controltest.Pod([]string{fmt.Sprint("p", i), container + "=1@?1m", "policy=static-burst"}, time.Unix(int64(i), 0))
		must.Do(t, err)
		all, v.Pods = append(all, pod), append(v.Pods, kubepods.Pod{Path: "/kubepods/burstable/" + pod.Name, UID: string(pod.UID), Tier: "Burstable"})
		v.Settings["/kubepods/burstable/"+pod.Name] = cgroup.Settings{CPUs: machine.Online()}
	}
	c.Step(Event{Machine: machine, Kubelet: &Kubelet{CPUManagerPolicy: "none"}, Reserved: new(ledger.MilliCPU), Pods: all, Groups: &v})
	given := c.Ready(time.Unix(pods, 0)).Save
	object := must.Get(nodetopology.FromMachine("n1", machine, nodetopology.State{AgentHealth: nodetopology.AgentHealthy, Allocations: given}))(t)
	if _, _, err := nodetopology.ToMachine(object); err != nil {
		t.Error(err)
	}
	if _, last := given[all[pods-1].UID]; !last || len(given) < 250 {
		t.Errorf("%d pods have CPUs, the last one: %v", len(given), last)
	}
}
