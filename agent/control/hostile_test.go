package control

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
)

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
	h.node.play(h.t, line)
	h.node.now = was
}

// round runs one round of the agent.
func (h *hostile) round() {
	h.history = append(h.history, fmt.Sprintf("%v: round", h.now))
	h.reported = strings.Contains(h.node.oneRound(), groups.Postponed) || h.reported
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
	own := h.node.control.cpus.Exclusive()[group]
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
		if h.node.pods["web"].Annotations[api.CPUSetSchedulerAnnotation] != "" {
			h.given += 3 * h.most / 10 // it gives a pod its CPUs at once, and may have to restore the quota
		}
	}
	h.round()
}
