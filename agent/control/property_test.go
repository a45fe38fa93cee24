package control

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/kube/api"
)

// TestNoCPUIsEnforcedForTwo runs random operations on a node: pods with random and conflicting
// allocations, of a scheduler or the agent, with and without NRI, foreign writes, rejected writes,
// disappearing cgroups, restarts in both modes, and failures of the API server. No write may give a
// cgroup CPUs that are exclusive to another pod, or a quota, period or burst that the kernel
// rejects. When the failures end, one round must correct everything and the next one have nothing
// to do; then batch pods, and only these, run behind all others. When the pods that ask have gone,
// all groups have all CPUs. Nothing is written before the first one.
func TestNoCPUIsEnforcedForTwo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newFakeNode()
		var history []string
		do := func(format string, args ...any) string {
			line := fmt.Sprintf(format, args...)
			history = append(history, line)
			out, err := n.run(strings.Fields(line))
			if err != nil { // for example, there is no such container
				history[len(history)-1] += " (failed)"
			}
			return out
		}
		cgroups := rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "cgroup")
		do("machine numa=2 cores=2 threads=2 cgroup=%s has=%s", cgroups, rapid.SampledFrom([]string{"none", "idle", "bvt", "idle,core-scheduling"}).Draw(t, "mechanisms"))
		partition := rapid.SampledFrom(map[string][]string{"v1": {"", "member"}, "v2": {"", "root", "isolated"}}[cgroups])
		priority := rapid.SampledFrom([]string{"none", "auto", "idle", "bvt"})
		flags := func() string {
			return fmt.Sprintf("agent repack=%s mode=%s burst=%s percent=%d partition=%s batch-priority=%s",
				rapid.SampledFrom([]string{"none", "cores", "llcs", "numa-nodes"}).Draw(t, "repack"), rapid.SampledFrom([]string{"enforce", "enforce", "observe"}).Draw(t, "mode"), rapid.SampledFrom([]string{"none", "burst", "quota", "auto"}).Draw(t, "burst"),
				rapid.IntRange(1, 120).Draw(t, "percent"), partition.Draw(t, "partition"), priority.Draw(t, "priority"))
		}
		do("%s", flags())
		if rapid.IntRange(0, 3).Draw(t, "owner") == 3 {
			n.config.QuotaOwner = OwnerOther
		}
		do("restart")
		name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		claim := rapid.SampledFrom([]string{"", "@?", "@?", "@?0", "@?1500m", "@?2 policy=static-burst", "@=2"})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			pod := name.Draw(t, "pod")
			switch rapid.IntRange(0, 29).Draw(t, "what") {
			case 27, 28:
				if n.pods[pod] != nil && n.ids[pod+"/app"] == "" {
					do("claim %s app=%d@numa-%d of=%s", pod, rapid.IntRange(1, 2).Draw(t, "claimed"), rapid.IntRange(0, 1).Draw(t, "device"),
						rapid.SampledFrom([]string{pod, pod, pod, "a"}).Draw(t, "of"))
				}
			case 29:
				if n.ids[pod+"/app"] == "" { // the kubelet waits for the end of the containers
					do("unclaim %s", pod)
				}
			case 25, 26: // of containers that the agent knows
				if n.pods[pod] != nil && len(n.pods[pod].Status.ContainerStatuses) > 0 && n.ids[pod+"/app"] != "" {
					do("%s %s app=%d", rapid.SampledFrom([]string{"resize", "request"}).Draw(t, "change"), pod, rapid.IntRange(1, 3).Draw(t, "to"))
					do("%s %s", rapid.SampledFrom([]string{"resized", "resized", "deferred", "infeasible"}).Draw(t, "kubelet"), pod)
				}
			case 23:
				do("disk %s", rapid.SampledFrom([]string{"full", "free"}).Draw(t, "disk"))
			case 24:
				do("forget") // comes true with the next restart
			case 21, 22:
				do("class %s %s", pod, rapid.SampledFrom([]string{"", "LS", "BE"}).Draw(t, "class"))
			case 0, 1:
				if n.pods[pod] == nil {
					do("pod %s app=2%s%s", pod, claim.Draw(t, "claim"), rapid.SampledFrom([]string{"", " period=10ms", " side=1", " move=false"}).Draw(t, "more"))
				}
			case 2, 3:
				if n.pods[pod] != nil && n.ids[pod+"/app"] == "" {
					do("%s %s/app", rapid.SampledFrom([]string{"create", "runtime"}).Draw(t, "how"), pod)
				}
			case 4, 5:
				do("status %s/app", pod)
			case 6:
				if n.ids[pod+"/app"] != "" {
					do("end %s/app", pod)
				}
			case 7:
				do("remove %s", pod)
			case 8:
				do("write %s/app cpuset=%s", pod, rapid.SampledFrom([]string{"0-7", "0", "4-5"}).Draw(t, "cpus"))
			case 9:
				do("%s %s/app", rapid.SampledFrom([]string{"refuse", "vanish", "unpartition"}).Draw(t, "fault"), pod)
			case 10:
				if rapid.Bool().Draw(t, "other flags") {
					owner := n.config.QuotaOwner
					do("%s", flags())
					n.config.QuotaOwner = owner
				}
				do("restart")
			case 18:
				do("write %s/app partition=%s", pod, partition.Draw(t, "foreign partition"))
			case 19:
				do("write %s exclusive=%s", rapid.SampledFrom([]string{"kubepods", pod, pod + "/app"}).Draw(t, "group"),
					rapid.SampledFrom([]string{"", "0,4", "6"}).Draw(t, "exclusive"))
			case 20:
				do("wait 20m")
			case 11:
				do("api %s", rapid.SampledFrom([]string{"gone", "back"}).Draw(t, "api"))
			case 12:
				do("write %s quota=%s", rapid.SampledFrom([]string{pod, pod + "/app"}).Draw(t, "group"), rapid.SampledFrom([]string{"50ms", "500ms"}).Draw(t, "quota"))
			case 13, 14, 15:
				for range rapid.IntRange(1, 3).Draw(t, "loads") {
					do("tick %d %s/app=%s idle=%s", rapid.SampledFrom([]int{1, 5, 200}).Draw(t, "ticks"), pod,
						rapid.SampledFrom([]string{"1ms", "200ms!", "400ms"}).Draw(t, "used"), rapid.SampledFrom([]string{"100%", "20%", "0%"}).Draw(t, "idle"))
				}
			default:
				do("round")
			}
			if len(n.broken) > 0 {
				t.Fatalf("%s\nafter\n%s", strings.Join(n.broken, "\n"), strings.Join(history, "\n"))
			}
		}
		if n.config.Observe {
			n.config.Observe = false
			do("restart")
		}
		clear(n.kernel.faults)
		n.kernel.validate()
		do("api back")
		do("disk free")
		do("wait 20m")
		do("round")
		if out := do("round"); out != "nothing to do\n" || len(n.broken) > 0 {
			t.Fatalf("%s%s\nafter\n%s\n%s", out, strings.Join(n.broken, "\n"), strings.Join(history, "\n"), n.kernel.print())
		}
		for name, p := range n.pods {
			group, used := n.kernel.groups[n.kernel.podPath(name)], n.control.batch.Mechanisms(n.control.round.Groups)
			class := qos.Class(p.Labels[api.QoSLabel])
			if class == qos.BE && p.Annotations[api.CPUSetSchedulerAnnotation] != "" {
				class = "" // batch pods get no CPUs of their own: the pod contradicts itself
			}
			if problem := n.control.allocate.Problem(p.UID); p.Annotations[api.CPUSetSchedulerAnnotation] == "true" && n.ids[name+"/app"] != "" && !api.HasEnded(p) {
				_, allocated := n.last.Allocations[p.UID]
				if keeps := strings.HasPrefix(fmt.Sprint(problem), "it keeps"); allocated != (keeps || problem == nil) {
					t.Fatalf("pod %s was allocated CPUs: %v, its problem: %v, after\n%s", name, allocated, problem, strings.Join(history, "\n"))
				}
			}
			bvt := 0
			if used.Uses(colocation.BVT) {
				bvt = map[qos.Class]int{qos.LS: 2, qos.BE: -1}[class]
			}
			idle := class == qos.BE && used.Uses(colocation.Idle)
			if n.ids[name+"/app"] != "" && (group.Idle != idle || group.BVT != bvt) {
				t.Fatalf("pod %s with labels %v has %+v with %v, after\n%s", name, p.Labels, group, used, strings.Join(history, "\n"))
			}
		}
		if !n.control.stakes.cpusets.held {
			return
		}
		for of := range n.ids { // the kubelet ends pods that are gone
			if n.pods[strings.TrimSuffix(of, "/app")] == nil {
				do("end %s", of)
			}
		}
		for name := range n.pods { // the last ones that ask leave
			if p := n.pods[name]; p.Annotations[api.CPUSetSchedulerAnnotation] != "" || len(p.Spec.ResourceClaims) > 0 {
				do("end %s/app", name)
				do("remove %s", name)
			}
		}
		do("round")
		for path, s := range n.kernel.groups {
			if !s.CPUs.IsEmpty() && (n.kernel.v2 || s.CPUs != n.machine().Online()) {
				t.Fatalf("%s has CPUs %s although no pod asks, after\n%s", path, s.CPUs, strings.Join(history, "\n"))
			}
		}
	})
}
