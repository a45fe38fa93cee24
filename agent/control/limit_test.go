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
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
)

const ms = time.Millisecond

// hostile is a node on which a pod's author does whatever he may, and one container uses all
// that the kernel lets it use. The kernel is that of package bandwidth.
type hostile struct {
	t       rapid.TB
	r       *rand.Rand
	node    *fakeNode
	kernel  bandwidthtest.Controller
	now     time.Duration
	refill  time.Duration // when the kernel's period ends
	threads time.Duration
	before  time.Duration // used in groups that have ended
	allowed float64       // ns, by the limits in force
	most    time.Duration // the highest limit, as time per second
	given   time.Duration // by writes of the kubelet, at restarts and at resizes
	said    []string
	told    bool // of a change that waits
}

func newHostile(t rapid.TB, seed uint64, pod string, words map[string]string) *hostile {
	h := &hostile{t: t, r: rand.New(rand.NewPCG(1, seed)), node: newFakeNode(), threads: time.Duration(1 + seed%4)}
	h.node.config.BatchIdle = true
	h.node.config.Burst = burst.Policy{Mode: burst.None, BurstPercent: 100, QuotaPercent: 300, QuotaBurstSeconds: 60}
	h.node.kernel.wrote = func(path string, s cgroup.Settings) {
		if path == h.group() {
			h.write(s)
		}
	}
	h.node.kernel.usage = func(path string) time.Duration {
		if path == h.group() {
			return h.kernel.Stats().Usage
		}
		return h.before + h.kernel.Stats().Usage
	}
	for _, line := range []string{"machine cores=4 threads=1", "restart", "round", "pod web " + pod} {
		h.run(line)
	}
	h.word(words)
	h.start("create")
	return h
}

func (h *hostile) run(line string) {
	h.said = append(h.said, fmt.Sprintf("%v: %s", h.now, line))
	was := h.node.now
	if _, err := h.node.run(strings.Fields(line)); err != nil {
		h.t.Fatal(err)
	}
	h.node.now = was // commands take no time here
}

// round is one round of the agent, which has no time to try again.
func (h *hostile) round() {
	h.said = append(h.said, fmt.Sprintf("%v: round", h.now))
	h.told = strings.Contains(h.node.oneRound(), Postponed) || h.told
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

// pass lets time go by, in which the container uses all it can.
func (h *hostile) pass(d time.Duration, busy bool) {
	for range d / ms {
		l := h.kernel.Limits()
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
	// Two seconds of the limit as credit; a bucket of a period of one second and a quota.
	slack := 2*h.most + 2*h.most + h.most
	if used := h.before + h.kernel.Stats().Usage; used > time.Duration(h.allowed)+slack+h.given {
		h.t.Fatalf("at %v: used %v; the limit allows %v, its slack is %v, the kubelet gave %v:\n%s", h.now, used, time.Duration(h.allowed),
			slack, h.given, strings.Join(h.said[max(0, len(h.said)-60):], "\n"))
	}
}

// word changes annotations and labels.
func (h *hostile) word(words map[string]string) {
	p := h.node.pods["web"].DeepCopy()
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	for key, value := range words {
		h.said = append(h.said, fmt.Sprintf("%v: %s=%s", h.now, key, value))
		if key == api.QoSLabel {
			p.Labels[key] = value
			continue
		}
		p.Annotations[key] = value
	}
	h.node.pods["web"] = p
}

// resize changes the limit, and the kubelet carries it out somewhat later.
func (h *hostile) resize(limit string) {
	p := h.node.pods["web"].DeepCopy()
	if p.Spec.Containers[0].Resources.Limits.Cpu().String() == limit {
		return
	}
	h.given += 2 * (h.kernel.Limits().Quota + h.kernel.Limits().Burst) // the agent takes back burst that stands in the way
	h.run("resize web app=" + limit)
	h.pass(time.Duration(h.r.IntN(300))*ms, true)
	h.round()
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
}

func (h *hostile) restartContainer() {
	h.before += h.kernel.Stats().Usage
	h.run("end web/app")
	h.kernel, _ = bandwidthtest.NewController(bandwidth.Limits{Quota: ms, Period: 100 * ms})
	h.pass(time.Duration(h.r.IntN(1000))*ms, false)
	h.start("create")
}

// act does one thing that a pod's author, or bad luck, can do.
func (h *hostile) act(kinds []string) {
	switch kind := kinds[h.r.IntN(len(kinds))]; kind {
	case "period":
		h.word(map[string]string{api.CPUPeriodAnnotation: []string{"1s", "999ms", "100ms", "99ms", "20ms"}[h.r.IntN(5)]})
	case "burst":
		h.word(map[string]string{api.CPUBurstAnnotation: []string{`{"policy":"burst","burstPercent":100}`, `{"policy":"burst","burstPercent":99}`,
			`{"policy":"none"}`, `{"policy":"auto"}`, `{"policy":"burst","burstPercent":1}`}[h.r.IntN(5)]})
	case "asks":
		h.word(map[string]string{api.CPUSetSchedulerAnnotation: []string{"true", "false"}[h.r.IntN(2)]})
	case "class":
		h.word(map[string]string{api.QoSLabel: []string{"BE", "LS"}[h.r.IntN(2)]})
	case "resize":
		h.resize([]string{"100m", "50m", "200m"}[h.r.IntN(3)])
	case "container":
		h.restartContainer()
	case "agent":
		h.run("restart")
	}
	h.round()
}

// TestLimitHoldsAgainstAuthors: whatever the author of a pod writes on it, and however
// often, and whatever restarts, a container uses no more than its limit and a constant.
// Resizes and restarts of containers give what the kubelet's own writes give, each time.
func TestLimitHoldsAgainstAuthors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, all := "100m", []string{"period", "burst", "class", "resize", "container", "agent"}
		if rapid.Bool().Draw(t, "static") {
			limit, all = "1@1", []string{"asks", "asks", "period", "burst", "container", "agent"}
		}
		h := newHostile(t, rapid.Uint64().Draw(t, "seed"), "app="+limit, nil)
		for range rapid.IntRange(1, 4).Draw(t, "segments") {
			kinds := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, 4,
				func(s string) string { return s }).Draw(t, "kinds")
			pause := rapid.SampledFrom([]int{100, 200, 1100, 3000}).Draw(t, "pause in ms")
			idle := rapid.IntRange(0, 3).Draw(t, "idle")
			for range rapid.IntRange(1, 40).Draw(t, "acts") {
				h.act(kinds)
				h.pass(time.Duration(1+h.r.IntN(pause))*ms, h.r.IntN(4) >= idle)
			}
		}
	})
}

// TestAttacks are the four that lifted a limit of a tenth of a CPU, for ten seconds each,
// with ten changes a second.
func TestAttacks(t *testing.T) {
	for name, attack := range attacks() {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t, 1, "app=100m", attack[0])
			for i := range 100 {
				h.word(attack[i%2])
				h.round()
				h.pass(100*ms, true)
			}
		})
	}
}

// TestTakingAndGivingCPUs: a pod that asks for its exclusive CPU and gives it up again and
// again, each time with its quota lifted and put back, gets no more by that.
func TestTakingAndGivingCPUs(t *testing.T) {
	h := newHostile(t, 3, "app=1@1", nil)
	for i := range 600 {
		h.word(map[string]string{api.CPUSetSchedulerAnnotation: []string{"false", "true"}[i%2]})
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

// TestChangesOfAnnotations: a change has effect at once in a new pod, also when its
// container is always throttled; one that comes again and again waits, users are told, and
// the last one has effect once the container has been idle.
func TestChangesOfAnnotations(t *testing.T) {
	h := newHostile(t, 1, "app=100m", nil)
	h.pass(5*time.Second, true)
	h.word(map[string]string{api.CPUPeriodAnnotation: "20ms"})
	h.round()
	if got := h.kernel.Limits().Period; got != 20*ms {
		t.Fatalf("the period is %v after a first change", got)
	}
	for i := range 400 {
		h.word(map[string]string{api.CPUPeriodAnnotation: []string{"20ms", "21ms"}[i%2]})
		h.round()
		h.pass(100*ms, true)
	}
	h.word(map[string]string{api.CPUPeriodAnnotation: "1s"})
	for range 30 {
		h.round()
		h.pass(time.Second, true)
	}
	if !h.told || h.kernel.Limits().Period == time.Second {
		t.Fatalf("after many changes the period is %v, and users are told: %v", h.kernel.Limits().Period, h.told)
	}
	for range 3 {
		h.pass(time.Second, false)
		h.round()
	}
	if got := h.kernel.Limits().Period; got != time.Second {
		t.Fatalf("the period is %v after an idle time", got)
	}
}

// TestCeilingsOfPods: words above the ceilings get these, in the kernel and in an event.
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
		n.tell()
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

// TestUnknownAnnotations: a misspelled annotation is an event on the pod, once, and so is one that
// is written later. Of very many only a few are.
func TestUnknownAnnotations(t *testing.T) {
	n := newFakeNode()
	for _, line := range []string{"machine cores=4 threads=1", "restart", "round", "pod web app=100m", "create web/app", "start web/app", "status web/app"} {
		if _, err := n.run(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	told := func(annotations map[string]string) (all []string) {
		before, after := n.pods["web"], n.pods["web"].DeepCopy()
		after.Annotations = annotations
		n.pods["web"] = after
		if n.control.Alike(before, after) {
			t.Errorf("a pod with %v is as it was", annotations)
		}
		n.tell()
		n.decide()
		for _, e := range n.control.Report().Events {
			if e.Reason == UnknownKey && e.Pod.Name == "web" {
				all = append(all, e.Message)
			}
		}
		return all
	}
	const want = "pod default/web: annotation pinfold.dev/cpu-polcy is not known and has no effect: is the annotation pinfold.dev/cpu-policy meant?"
	if got := told(map[string]string{"pinfold.dev/cpu-polcy": "static"}); len(got) != 1 || got[0] != want {
		t.Errorf("%q", got)
	}
	if got := told(map[string]string{"pinfold.dev/cpu-polcy": "static", "pinfold.dev/cpu-brst": "{}"}); len(got) != 1 || !strings.Contains(got[0], "cpu-brst") {
		t.Errorf("%q", got)
	}
	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprintf("pinfold.dev/%d", i)] = ""
	}
	if got := told(many); len(got) != api.MostUnknown {
		t.Errorf("%d events", len(got))
	}
}
