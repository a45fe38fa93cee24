package control

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
)

const ms = time.Millisecond

// hostile is a node on which the author of a pod does everything that users may do, and the pod's
// container uses all CPU time that the kernel lets it use. The kernel is the model of package
// bandwidth.
type hostile struct {
	t        rapid.TB
	r        *rand.Rand
	node     *fakeNode
	kernel   bandwidthtest.Controller
	now      time.Duration
	refill   time.Duration // when the kernel's period ends
	threads  time.Duration
	before   time.Duration // used in cgroups that have ended
	allowed  float64       // ns, by the limits in force
	most     time.Duration // the highest limit, as time per second
	limit    string        // that the kubelet has in force
	given    time.Duration // by writes of the kubelet, at restarts and at resizes
	history  []string
	reported bool // that a change is postponed
}

func newHostile(t rapid.TB, seed uint64, pod string, annotations map[string]string) *hostile {
	h := &hostile{t: t, r: rand.New(rand.NewPCG(1, seed)), node: newFakeNode(), threads: time.Duration(1 + seed%4)}
	_, h.limit, _ = strings.Cut(pod, "=")
	h.limit, _, _ = strings.Cut(h.limit, "@")
	h.node.config.Priority, _ = colocation.ParsePriority([]string{"idle", "bvt"}[seed%2])
	h.node.config.Burst = burst.Policy{Mode: burst.None, BurstPercent: 100, QuotaPercent: 300, QuotaBurstSeconds: 60}
	h.node.kernel.wrote = func(path string, s cgroup.Settings) {
		if path == h.group() {
			h.history = append(h.history, fmt.Sprintf("%v: written %+v", h.now, s.Limits))
			h.write(s)
		}
	}
	h.node.kernel.usage = func(path string) time.Duration {
		if path == h.group() {
			return h.kernel.Stats().Usage
		}
		return h.before + h.kernel.Stats().Usage
	}
	for _, line := range []string{"machine cores=4 threads=1 has=idle,bvt", "restart", "round", "pod web " + pod} {
		h.run(line)
	}
	h.annotate(annotations)
	if seed%8 < 4 { // the agent sees the pod before the kubelet makes its cgroup
		h.round()
	}
	h.start("create")
	return h
}

func (h *hostile) run(line string) {
	h.history = append(h.history, fmt.Sprintf("%v: %s", h.now, line))
	was := h.node.now
	h.node.now = was.Add(-time.Second) // commands take no time
	if _, err := h.node.run(strings.Fields(line)); err != nil {
		h.t.Fatal(err)
	}
	h.node.now = was
}

// round runs one round of the agent.
func (h *hostile) round() {
	h.history = append(h.history, fmt.Sprintf("%v: round", h.now))
	h.reported = strings.Contains(h.node.oneRound(), Postponed) || h.reported
}

func (h *hostile) group() string { return h.node.kernel.pathOf("web/app") }

// start starts the container, as the runtime does with NRI.
func (h *hostile) start(how string) {
	h.run(how + " web/app")
	s := h.node.kernel.groups[h.group()]
	kernel, err := bandwidthtest.NewController(s.Limits)
	if err != nil {
		h.t.Fatal(err)
	}
	h.kernel, h.refill = kernel, h.now+s.Period
	h.given += max(0, s.Quota) + s.Burst
	h.run("start web/app")
	h.run("status web/app")
	h.given += h.kernel.Limits().Burst
}

func (h *hostile) write(s cgroup.Settings) {
	if err := h.kernel.Write(s.Limits); err != nil {
		h.t.Fatal(err)
	}
}

// pass lets time pass, in which the container uses all CPU time that it can if busy is set.
func (h *hostile) pass(d time.Duration, busy bool) {
	for range d / ms {
		l := h.kernel.Limits()
		if h.node.ids["web/app"] == "" { // the pod has its limit between two containers, too
			limit := resource.MustParse(h.limit)
			l.Quota = time.Duration(limit.MilliValue()) * l.Period / 1000
		}
		h.checkQuota(l)
		if h.now >= h.refill {
			h.kernel.Tick()
			h.refill += l.Period
		}
		used := time.Duration(0)
		if busy {
			used = h.kernel.Use(max(0, h.threads*ms-h.kernel.Backlog()))
		}
		h.now += ms
		h.node.now = h.node.now.Add(ms)
		if l.Quota <= 0 {
			h.allowed += float64(used)
			continue
		}
		h.allowed += float64(ms) * float64(l.Quota) / float64(l.Period)
		h.most = max(h.most, time.Duration(float64(time.Second)*float64(l.Quota)/float64(l.Period)))
	}
	// When a removed quota is restored: quota, burst, and the quota of a period that ends right then.
	slack := 3 * h.most / 10
	if used := h.before + h.kernel.Stats().Usage; used > time.Duration(h.allowed)+slack+h.given {
		h.t.Fatalf("at %v: used %v; the limit allows %v, the slack is %v, the kubelet granted %v:\n%s", h.now, used, time.Duration(h.allowed),
			slack, h.given, strings.Join(h.history[max(0, len(h.history)-60):], "\n"))
	}
}

// checkQuota checks that the quota in force is at most the limit that the kubelet has in force, and
// unlimited only on exclusive CPUs.
func (h *hostile) checkQuota(l bandwidth.Limits) {
	group, limit := h.group(), resource.MustParse(h.limit)
	own := h.node.control.exclusive[group]
	shared := own.IsEmpty() || !h.node.kernel.groups[group].CPUs.IsSubsetOf(own)
	if l.Quota <= 0 && shared || l.Quota > 0 && int64(l.Quota/time.Microsecond)*1000 > limit.MilliValue()*int64(l.Period/time.Microsecond) {
		h.t.Fatalf("at %v: %+v on CPUs %s, of which %s are exclusive; the limit is %s:\n%s", h.now, l, h.node.kernel.groups[group].CPUs, own, h.limit,
			strings.Join(h.history[max(0, len(h.history)-60):], "\n"))
	}
}

// annotate changes annotations and labels.
func (h *hostile) annotate(annotations map[string]string) {
	p := h.node.pods["web"].DeepCopy()
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	for key, value := range annotations {
		h.history = append(h.history, fmt.Sprintf("%v: %s=%s", h.now, key, value))
		if key == api.QoSLabel {
			p.Labels[key] = value
			continue
		}
		p.Annotations[key] = value
	}
	h.node.pods["web"] = p
}

// resize changes the limit, which the kubelet carries out after a random time.
func (h *hostile) resize(limit string) {
	p := h.node.pods["web"].DeepCopy()
	if p.Spec.Containers[0].Resources.Limits.Cpu().String() == limit {
		return
	}
	h.given += 2 * max(0, h.kernel.Limits().Quota+h.kernel.Limits().Burst) // the agent removes burst above the new quota
	h.run("resize web app=" + limit)
	if limit == "100" { // more than the node has
		h.round()
		h.run("deferred web")
		return
	}
	h.pass(time.Duration(h.r.IntN(300))*ms, true)
	h.round()
	if was := resource.MustParse(h.limit); was.Cmp(resource.MustParse(limit)) < 0 {
		h.limit = limit
	}
	quantity := resource.MustParse(limit)
	quota := time.Duration(quantity.MilliValue()) * 100 * time.Microsecond
	for _, group := range []string{h.node.kernel.podPath("web"), h.group()} {
		s := h.node.kernel.groups[group]
		if s.Burst > quota {
			continue
		}
		s.Quota, s.Period = quota, 100*ms
		h.node.kernel.groups[group] = s
		if group == h.group() {
			h.write(s)
			h.given += 2 * (s.Quota + s.Burst)
		}
	}
	h.run("resized web")
	h.limit = limit
}

func (h *hostile) restartContainer() {
	h.before += h.kernel.Stats().Usage
	h.run("end web/app")
	h.kernel, _ = bandwidthtest.NewController(bandwidth.Limits{Quota: ms, Period: 100 * ms})
	h.pass(time.Duration(h.r.IntN(1000))*ms, false)
	h.start("create")
}

// act does one random thing of the given kinds.
func (h *hostile) act(kinds []string) {
	switch kind := kinds[h.r.IntN(len(kinds))]; kind {
	case "period":
		h.annotate(map[string]string{api.CPUPeriodAnnotation: []string{"1s", "999ms", "100ms", "99ms", "20ms"}[h.r.IntN(5)]})
	case "burst":
		h.annotate(map[string]string{api.CPUBurstAnnotation: []string{`{"policy":"burst","burstPercent":100}`, `{"policy":"burst","burstPercent":99}`,
			`{"policy":"none"}`, `{"policy":"auto"}`, `{"policy":"burst","burstPercent":1}`}[h.r.IntN(5)]})
	case "asks":
		h.annotate(map[string]string{api.CPUSetSchedulerAnnotation: []string{"true", "false"}[h.r.IntN(2)]})
	case "class":
		h.annotate(map[string]string{api.QoSLabel: []string{"BE", "LS"}[h.r.IntN(2)]})
	case "resize":
		h.resize([]string{"100m", "50m", "200m", "100"}[h.r.IntN(4)])
	case "resize of CPUs":
		h.resize([]string{"1", "500m", "2", "100"}[h.r.IntN(4)])
	case "edit":
		h.run("edit web")
	case "container":
		h.restartContainer()
	case "agent":
		h.run("restart")
		if h.node.pods["web"].Annotations[api.AllocationAnnotation] != "" {
			h.given += 3 * h.most / 10 // it gives a pod its CPUs at once, and may have to restore the quota
		}
	}
	h.round()
}

// TestLimitHoldsAgainstAuthors checks that a container uses no more than its limit plus a constant,
// whatever the author of the pod changes, however often, and whatever restarts. Each resize and
// each restart of a container adds the CPU time that the kubelet's own writes grant.
func TestLimitHoldsAgainstAuthors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, all := "100m", []string{"period", "burst", "class", "resize", "edit", "container", "agent"}
		if rapid.Bool().Draw(t, "static") {
			limit, all = "1@1", []string{"asks", "asks", "period", "burst", "resize of CPUs", "edit", "container", "agent"}
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

// TestAttacks runs the four attacks that could lift a limit without write budgets, each for ten
// seconds with ten changes per second.
func TestAttacks(t *testing.T) {
	for name, attack := range attacks() {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t, 1, "app=100m", attack[0])
			for i := range 100 {
				h.annotate(attack[i%2])
				h.round()
				h.pass(100*ms, true)
			}
		})
	}
}

// TestRecreatedPods checks that a pod uses at most its limit x its life + two quotas of the kubelet's
// period, whatever its annotations are, however short it lives, and whenever it idles: pods that are
// created again and again use no more than that each.
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

// TestTakingAndGivingCPUs checks that a pod gets no additional CPU time by requesting its exclusive
// CPU and giving it up repeatedly, although its quota is lifted and restored each time.
func TestTakingAndGivingCPUs(t *testing.T) {
	h := newHostile(t, 3, "app=1@1", nil)
	for i := range 600 {
		h.annotate(map[string]string{api.CPUSetSchedulerAnnotation: []string{"false", "true"}[i%2]})
		h.round()
		h.pass(50*ms, true)
	}
}

func attacks() map[string][2]map[string]string {
	period := func(text string) map[string]string { return map[string]string{api.CPUPeriodAnnotation: text} }
	burst := func(text string) map[string]string { return map[string]string{api.CPUBurstAnnotation: text} }
	return map[string][2]map[string]string{
		"long periods":  {period("1s"), period("999ms")},
		"short periods": {period("100ms"), period("99ms")},
		"burstPercent":  {burst(`{"policy":"burst","burstPercent":100}`), burst(`{"policy":"burst","burstPercent":99}`)},
		"policy":        {burst(`{"policy":"none"}`), burst(`{"policy":"burst","burstPercent":100}`)},
	}
}

// TestChangesOfAnnotations checks that a change takes effect after the container has used less than its
// limit, also in a new pod; that repeated changes are postponed and users told; and that the last one
// takes effect after the container has been idle.
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
	ceilings, err := api.ParseCeilings([]byte("default: {burst: {policy: none}, period: {max: 50ms}}\nnamespaces: {trusted: {burst: {policy: auto}}}"))
	if err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]struct {
		burst  time.Duration
		events int
	}{"default": {0, 2}, "trusted": {5 * ms, 1}} {
		n := newFakeNode()
		n.config.Ceilings = ceilings
		n.config.Burst = burst.Policy{Mode: burst.None, BurstPercent: 100, QuotaPercent: 300, QuotaBurstSeconds: 60}
		for _, line := range []string{"machine cores=4 threads=1", "restart", "round", `pod web app=100m period=1s burst={"policy":"auto"}`} {
			if _, err := n.run(strings.Fields(line)); err != nil {
				t.Fatal(err)
			}
		}
		n.pods["web"].Namespace = namespace
		for _, line := range []string{"create web/app", "start web/app", "status web/app"} {
			if _, err := n.run(strings.Fields(line)); err != nil {
				t.Fatal(err)
			}
		}
		n.observe()
		n.decide()
		events := n.control.Report().Events
		got := n.kernel.groups[n.kernel.pathOf("web/app")]
		if got.Burst != want.burst || got.Period != 50*ms || got.Quota != 5*ms {
			t.Errorf("%s: %+v", namespace, got)
		}
		if len(events) != want.events || events[len(events)-1].Reason != AboveCeiling || events[0].Pod.Name != "web" ||
			!strings.Contains(events[len(events)-1].Message, "cpu-period asks for 1s, and the administrator allows 5ms to 50ms") {
			t.Errorf("%s: %+v", namespace, events)
		}
	}
}

// TestUnknownAnnotations checks that each misspelled annotation causes one event on the pod, also
// if it is added later, and that very many of them cause only a few events.
func TestUnknownAnnotations(t *testing.T) {
	n := newFakeNode()
	for _, line := range []string{"machine cores=4 threads=1", "restart", "round", "pod web app=100m", "create web/app", "start web/app", "status web/app"} {
		if _, err := n.run(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	eventsOf := func(annotations map[string]string) (all []string) {
		before, after := n.pods["web"], n.pods["web"].DeepCopy()
		after.Annotations = annotations
		n.pods["web"] = after
		if n.control.Alike(before, after) {
			t.Errorf("a pod with annotations %v counts as unchanged", annotations)
		}
		n.observe()
		n.decide()
		for _, e := range n.control.Report().Events {
			if e.Reason == UnknownKey && e.Pod.Name == "web" {
				all = append(all, e.Message)
			}
		}
		return all
	}
	const want = "pod default/web: annotation pinfold.dev/cpu-polcy is not known and has no effect: is the annotation pinfold.dev/cpu-policy meant?"
	if got := eventsOf(map[string]string{"pinfold.dev/cpu-polcy": "static"}); len(got) != 1 || got[0] != want {
		t.Errorf("%q", got)
	}
	if got := eventsOf(map[string]string{"pinfold.dev/cpu-polcy": "static", "pinfold.dev/cpu-brst": "{}"}); len(got) != 1 || !strings.Contains(got[0], "cpu-brst") {
		t.Errorf("%q", got)
	}
	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprintf("pinfold.dev/%d", i)] = ""
	}
	if got := eventsOf(many); len(got) != api.MostUnknown {
		t.Errorf("%d events", len(got))
	}
}
