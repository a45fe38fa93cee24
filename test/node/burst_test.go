package node

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/deploy"
	"pinfold.dev/pinfold/local/load"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/must"
)

// The published experiment about CPU Burst, shortened: the time until quotas are raised, and the
// time of the measurement.
const (
	burstWarmUp   = 6 * time.Second
	burstMeasured = 20 * time.Second
	burstEvery    = 503 * time.Millisecond
	burstBatches  = int(burstMeasured/burstEvery) + 1
)

// fewBurstBatches is the number of batches that may be throttled in rows without expected
// throttling: other load can delay one batch until the next one arrives.
const fewBurstBatches = burstBatches / 10

// burstRow is one pod of the experiment.
type burstRow struct {
	pod string        // of the example manifest
	cpu time.Duration // of each of the four requests of a batch
	// throttled means that the limit must throttle its batches. Otherwise at most one in ten batches
	// may be throttled.
	throttled bool
	// kernel and raised are how it may burst.
	kernel, raised bool
}

func burstRows() []burstRow {
	const small, large = 3200 * time.Microsecond, 4500 * time.Microsecond
	return []burstRow{
		{pod: "httpd-none", cpu: small, throttled: true}, // must be first: the others are compared with it
		{pod: "httpd-unlimited", cpu: small},
		{pod: "httpd-burst", cpu: small, kernel: true},
		{pod: "httpd-quota", cpu: small, raised: true},
		{pod: "httpd-auto", cpu: small, kernel: true, raised: true},
		{pod: "httpd-ack", cpu: small, kernel: true, raised: true},
		{pod: "httpd-koordinator", cpu: small, kernel: true, raised: true},
		{pod: "httpd-auto", cpu: large, kernel: true, raised: true},
	}
}

// name returns a name that distinguishes rows of one example.
func (r burstRow) name() string { return strings.ReplaceAll(r.pod+"-"+r.cpu.String(), ".", "-") }

// TestBurst repeats the published experiment with pods. A server whose usage is a third of its
// limit is throttled in a third of its periods, and in none if it may burst, with every spelling
// and method. All pods receive requests at the same time, so that other load on the machine affects
// all. Of the latencies only the order is asserted; the table is logged.
func TestBurst(t *testing.T) {
	requireNode(t)
	c := start(t)
	k := openKernel(t)
	pods := examplePods(t, "burst.yaml")
	servers := make([]server, len(burstRows()))
	for _, row := range burstRows() {
		pod := pods[row.pod].DeepCopy()
		pod.Name, pod.Namespace = row.name(), metav1.NamespaceDefault
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: localnode.Name}
		must.Do(t, c.create(t, pod))
	}
	for i, row := range burstRows() {
		servers[i] = k.serverOf(c.awaitRunning(t, row.name()), row.cpu)
	}
	t.Run("settings", func(t *testing.T) {
		for i, row := range burstRows() {
			row.checkSettings(t, k, servers[i])
		}
	})
	busy.Repeat(t, 3, func() string {
		idle := watchIdle(t) // from the warm-up on, because after losing a raised quota a pod must wait for the next one
		plan := load.Plan{Batch: 4, Every: burstEvery, Duration: burstWarmUp, Timeout: time.Minute}
		k.ask(t, servers, plan)
		plan.Duration = burstMeasured
		meter := busy.Start()
		rows := k.ask(t, servers, plan)
		least := idle()
		c.logRaises(t)
		if d := meter.Read(); least < burstIdle || d.Stolen > .02 {
			return fmt.Sprintf("it had %.2f idle CPUs in its busiest second: %v", least, d)
		}
		for i, row := range burstRows() {
			t.Run(row.name(), func(t *testing.T) { row.check(t, rows[i], rows[0]) })
		}
		return ""
	})
}

// burstIdle is the number of idle CPUs that are necessary for all raised quotas: three limits for
// each pod that needs one, including its usage, and the CPUs that stay idle anyway. With less, other
// load delays batches until the next ones arrive.
const burstIdle = 0.7

// watchIdle measures the number of idle CPUs in each second until the returned function is called,
// which returns the minimum.
func watchIdle(t *testing.T) func() float64 {
	t.Helper()
	begin, before := time.Now(), cpuIdle(t)
	tick, end, ended := time.NewTicker(time.Second), make(chan struct{}), make(chan float64)
	go func() {
		defer tick.Stop()
		least := math.Inf(1)
		for {
			select {
			case <-tick.C:
				now, idle := time.Now(), cpuIdle(t)
				least = min(least, (idle-before).Seconds()/now.Sub(begin).Seconds())
				begin, before = now, idle
			case <-end:
				ended <- least
				return
			}
		}
	}()
	return func() float64 {
		close(end)
		return <-ended
	}
}

// cpuIdle returns for how long all CPUs together have been idle.
func cpuIdle(t *testing.T) time.Duration {
	proc, err := procfs.NewDefaultFS()
	var stat procfs.Stat
	if err == nil {
		stat, err = proc.Stat()
	}
	if err != nil {
		t.Error(err)
	}
	return time.Duration(stat.CPUTotal.Idle * float64(time.Second))
}

// logRaises logs how often the agent raised and lowered quotas, and why.
func (c *cluster) logRaises(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(c.metrics(t)) {
		if strings.HasPrefix(line, "pinfold_container_cpu_quota_raises") || strings.HasPrefix(line, "pinfold_container_cpu_quota_lowers") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// check compares a measurement with the guarantees of its policy, and with the row of the limit
// alone.
func (r burstRow) check(t *testing.T, got, alone served) {
	throttled := int(got.throttled)
	if r.throttled && throttled < burstBatches/2 {
		t.Errorf("throttled in %d periods, want one for most of %d batches: each needs more than the quota", throttled, burstBatches)
	}
	if !r.throttled && throttled > fewBurstBatches {
		t.Errorf("throttled in %d periods of %d batches, want almost none", throttled, burstBatches)
	}
	if !r.throttled && got.load.Mean() >= alone.load.Mean() {
		t.Errorf("mean %v and p99 %v, with the limit alone %v and %v: want less", got.load.Mean(), got.load.Quantile(0.99), alone.load.Mean(), alone.load.Quantile(0.99))
	}
	if got.used > 1 {
		t.Errorf("used %.0f%% of the limit on average", 100*got.used)
	}
	if failed := got.load.Failures; got.load.Failed() > 0 {
		t.Errorf("requests failed: %v", failed)
	}
}

// checkSettings checks container and pod: the kernel's burst is set only if the policy says so, and
// no quota is below the limit.
func (r burstRow) checkSettings(t *testing.T, k kernel, s server) {
	for _, group := range s.groups {
		set := must.Get(k.groups.Read(group))(t)
		if (set.Burst > 0) != r.kernel && !set.NoBurst {
			t.Errorf("%s: burst %v", group, set.Burst)
		}
		if limit := cmp.Or(s.quota, bandwidth.Unlimited); set.Quota < limit || !r.raised && set.Quota > limit {
			t.Errorf("%s: quota %v, and the limit is %v", group, set.Quota, limit)
		}
	}
}

// examplePods returns the pods of an example manifest by name.
func examplePods(t *testing.T, file string) map[string]*corev1.Pod {
	t.Helper()
	text := must.Get(fs.ReadFile(deploy.Examples(), file))(t)
	pods := map[string]*corev1.Pod{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	for {
		pod := &corev1.Pod{}
		if err := decoder.Decode(pod); errors.Is(err, io.EOF) {
			return pods
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		pods[pod.Name] = pod
	}
}
