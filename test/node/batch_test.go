package node

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/must"
)

// The bound of TestBatch: a share of the CPUs, and the quotas of the tier of batch pods in a period
// of 100 ms that follow from it.
const (
	batchPercent = 90
	batchFloor   = 10 * time.Millisecond
)

func batchMost() time.Duration {
	return 100 * time.Millisecond * time.Duration(runtime.NumCPU()) * batchPercent / 100
}

// TestBatch checks that batch pods have idle priority and one quota together, which follows the
// usage of everything else, also while the agent is killed, that another pod of their tier removes
// it, and that the node offers its capacity to batch pods. A cleanup leaves the settings of the
// kubelet.
func TestBatch(t *testing.T) {
	requireNode(t)
	flags := []string{"--batch-priority=idle", fmt.Sprintf("--batch-percent=%d", batchPercent), "--batch-floor=0.1"}
	traced := canTrace(t)
	measured := traced || must.Get(cgroup.Open("/"))(t).Layout().CPU == cgroup.V2 // version 1 does not measure waiting
	if traced {
		flags = append(flags, "--trace-percent=50")
	}
	if measured {
		flags = append(flags, "--batch-objective=100ms")
	}
	s := &settled{cluster: start(t, flags...), kernel: openKernel(t), pods: map[string]*corev1.Pod{}}
	online := podOf("online", "", container("main", "8001", "64"))
	online.Labels[api.QoSLabel] = string(qos.LS)
	online = s.run(t, online)
	batch := podOf("batch", "", container("main", "8002", ""))
	batch.Labels[api.QoSLabel] = string(qos.BE)
	batch = s.run(t, batch)
	tier := s.kernel.naming.Tier(qos.BestEffort)
	quota := func() time.Duration { return must.Get(s.kernel.groups.Read(tier))(t).Quota }
	for range runtime.NumCPU() {
		s.kernel.spin(t, s.kernel.containerGroup(batch, "main"))
	}
	bounded := func() error {
		if q := quota(); q < batchFloor || q > batchMost() {
			return fmt.Errorf("%s: quota %v, want %v to %v", tier, q, batchFloor, batchMost())
		}
		if pod := must.Get(s.kernel.groups.Read(s.kernel.podGroup(batch)))(t); !pod.Idle {
			return fmt.Errorf("the batch pod has no idle priority: %+v", pod)
		}
		return nil
	}
	eventually(t, "a bound", bounded)

	s.testLimitedBatch(t)
	s.testCapacity(t)
	s.testOnlineFirst(t, tier, s.kernel.containerGroup(online, "main"))
	if !inGuest(true, false) { // where the node's own programs use most of the CPUs
		s.testBatchRises(t, tier)
	}

	s.restart(t, localnode.Agent)
	if err := bounded(); err != nil {
		t.Errorf("after the agent was killed: %v", err)
	}
	eventually(t, "metrics", func() error {
		if text := s.metrics(t); !strings.Contains(text, "\npinfold_batch_budget_cpus ") {
			return fmt.Errorf("no budget of batch pods in\n%s", text)
		} else if waits := strings.Contains(text, "\npinfold_online_wait_seconds_count "); waits != measured ||
			strings.Contains(text, "\npinfold_online_wait_seconds_count 0\n") {
			return fmt.Errorf("the waiting of online pods is in the metrics: %v, want %v, and more than none:\n%s", waits, measured, text)
		}
		return bounded()
	})

	if traced {
		s.eventuallyTraced(t, online, "pinfold_online_wait_seconds_sum ")
	}

	s.run(t, podOf("neither", "", container("main", "8003", "")))
	eventually(t, "no bound beside a pod without a class", func() error {
		if q := quota(); q != bandwidth.Unlimited {
			return fmt.Errorf("%s: quota %v", tier, q)
		}
		return nil
	})
	s.remove(t, "neither")
	eventually(t, "a bound again", bounded)

	s.cleanUp(t)
	if q := quota(); q != bandwidth.Unlimited {
		t.Errorf("after cleanup %s has quota %v", tier, q)
	}
	left, weight := must.Get(s.kernel.groups.Read(s.kernel.podGroup(batch)))(t), kubepods.PodWeight(s.kernel.groups.Layout().CPU, 0)
	if left.Idle || left.Weight != weight {
		t.Errorf("after cleanup the batch pod has %+v, want weight %d", left, weight)
	}
}

// testLimitedBatch checks that the class of a batch pod does not remove the limits of a pod of
// another QoS class.
func (s *settled) testLimitedBatch(t *testing.T) {
	pod := podOf("limited-batch", "", container("main", "8004", "100m"))
	pod.Labels[api.QoSLabel] = string(qos.BE)
	pod = s.run(t, pod)
	defer s.remove(t, pod.Name)
	eventually(t, "idle priority and a quota", func() error {
		if group := must.Get(s.kernel.groups.Read(s.kernel.podGroup(pod)))(t); !group.Idle {
			return fmt.Errorf("the pod has no idle priority: %+v", group)
		}
		return s.kernel.expectSingle(pod, settings{quota: 10 * time.Millisecond})
	})
}

// testCapacity checks what the node offers to batch pods, and that the scheduler counts it.
func (s *settled) testCapacity(t *testing.T) {
	eventually(t, "the capacity for batch pods", func() error {
		node, err := s.client.CoreV1().Nodes().Get(t.Context(), localnode.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		capacity, offered := node.Status.Capacity[api.BatchCPU]
		allocatable, derived := node.Status.Allocatable[api.BatchCPU]
		if most := batchMost().Milliseconds() * 10; !offered || !derived || !capacity.Equal(allocatable) || capacity.Value() > most {
			return fmt.Errorf("the node offers %v of %v, want up to %d", &allocatable, &capacity, most)
		}
		if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == api.BatchStarved }) {
			return fmt.Errorf("the node does not say whether batch pods starve: %+v", node.Status.Conditions)
		}
		return nil
	})
	large := podOf("large", "", container("main", "8004", ""))
	large.Labels[api.QoSLabel] = string(qos.BE)
	request := corev1.ResourceList{api.BatchCPU: *resource.NewQuantity(1_000_000, resource.DecimalSI)}
	large.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: request, Requests: request}
	must.Do(t, s.create(t, large))
	eventually(t, "a pod that requests too much is not scheduled", func() error {
		pod, err := s.client.CoreV1().Pods(large.Namespace).Get(t.Context(), large.Name, metav1.GetOptions{})
		if err == nil && !strings.Contains(fmt.Sprint(pod.Status.Conditions), "Insufficient "+string(api.BatchCPU)) {
			err = fmt.Errorf("its status is %+v", pod.Status)
		}
		return err
	})
	s.remove(t, large.Name)
}

// testOnlineFirst lets an online container use all CPUs. Batch pods then get the least quota only.
func (s *settled) testOnlineFirst(t *testing.T, tier, group string) {
	var ends []func()
	for range runtime.NumCPU() {
		ends = append(ends, s.kernel.spin(t, group))
	}
	eventually(t, "the least quota", func() error {
		if got := must.Get(s.kernel.groups.Read(tier))(t); got.Quota != batchFloor {
			return fmt.Errorf("%s: quota %v, want %v", tier, got.Quota, batchFloor)
		}
		return nil
	})
	before, begun := s.kernel.usage(t, tier), time.Now()
	time.Sleep(3 * time.Second)
	s.kernel.usesAtMost(t, tier, before, begun, func(elapsed time.Duration) time.Duration {
		// A change of the quota refills the bucket, and slices of 5 ms are added.
		return elapsed*batchFloor/(100*time.Millisecond) + 3*batchFloor + 20*time.Millisecond
	})
	for _, end := range ends {
		end()
	}
}

// testBatchRises waits until the quota of batch pods rises. It need not while other programs of
// this machine use its CPUs.
func (s *settled) testBatchRises(t *testing.T, tier string) {
	const enough = 12 * time.Second // two raises
	stat := func() (others time.Duration) {
		groups := []string{"/"}
		if s.kernel.groups.Layout().CPU == cgroup.V2 {
			groups = must.Get(s.kernel.groups.Children(cgroup.CPU, "/"))(t)
		}
		for _, group := range groups {
			others += s.kernel.usage(t, group)
		}
		return others - s.kernel.usage(t, tier)
	}
	before, read, meter := stat(), time.Now(), busy.Start()
	quiet := read
	for range 600 {
		time.Sleep(100 * time.Millisecond)
		if got := must.Get(s.kernel.groups.Read(tier))(t).Quota; got > batchFloor {
			return
		}
		others, now := stat(), time.Now()
		left := batchMost() - (others-before)*100*time.Millisecond/now.Sub(read)
		stolen := meter.Read().Stolen // no group has used this time, and none could
		if before, read, meter = others, now, busy.Start(); left < batchFloor+20*time.Millisecond || stolen > .02 {
			quiet = now
		}
		if now.Sub(quiet) > enough {
			t.Errorf("the quota of batch pods stays at %v although others have left more for %v", batchFloor, enough)
			return
		}
	}
	t.Log("this machine was too busy to see the quota of batch pods rise")
}
