package nri

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/test/must"
)

// BenchmarkCreateContainer measures how long the runtime waits when it creates a container: one
// round trip with our plugin and one with an empty plugin of NRI's stub, in turns, each with its
// own runtime in this process. It reports the median and the 99th percentile of both, and the
// difference.
func BenchmarkCreateContainer(b *testing.B) {
	ours, empty := newTestRuntime(b), newTestRuntime(b)
	ours.begin()
	empty.begin()
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		Run(ctx, Options{Socket: ours.socket()}, steady{})
	})
	defer ended.Wait()
	defer cancel()
	other := must.Get(stub.New(&other{}, stub.WithPluginName("empty"), stub.WithPluginIdx("10"), stub.WithSocketPath(empty.socket())))(b)
	must.Do(b, other.Start(ctx))
	defer other.Stop()
	ours.await(1)
	empty.await(1)

	pod := &api.PodSandbox{Id: "sandbox", Uid: "5a0c", Name: "web", Namespace: "default"}
	create := func(r *testRuntime) time.Duration {
		c := &api.Container{Id: "c1", PodSandboxId: "sandbox", Name: "main", Linux: &api.LinuxContainer{
			CgroupsPath: "/kubepods/pod5a0c/c1", Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Quota: api.Int64(100000)}}}}
		began := time.Now()
		must.Do(b, r.create(ctx, pod, c))
		took := time.Since(began)
		if r == ours && c.Linux.Resources.Cpu.Cpus != "2-3" {
			b.Fatal("created without our settings")
		}
		must.Do(b, r.start(ctx, pod, c))
		must.Do(b, r.remove(ctx, pod, c))
		return took
	}
	var a, e []time.Duration
	for b.Loop() {
		a, e = append(a, create(ours)), append(e, create(empty))
		e, a = append(e, create(empty)), append(a, create(ours)) // neither always first
	}
	for percent, unit := range map[int]string{50: "p50", 99: "p99"} {
		x, y := percentile(a, percent), percentile(e, percent)
		b.ReportMetric(float64(x.Nanoseconds())/1e3, "us-"+unit)
		b.ReportMetric(float64(y.Nanoseconds())/1e3, "us-empty-"+unit)
		b.ReportMetric(float64((x-y).Nanoseconds())/1e3, "us-more-"+unit)
	}
	b.ReportMetric(0, "ns/op")
}

func percentile(d []time.Duration, percent int) time.Duration {
	slices.Sort(d)
	return d[(len(d)-1)*percent/100]
}

// steady always wants the same settings.
type steady struct{}

func (steady) Synchronize(context.Context, []Pod, []Container) map[string]Settings { return nil }

func (steady) Create(context.Context, Pod, Container) (Settings, error) {
	return Settings{CPUs: cpuset.Range(2, 3), Quota: bandwidth.Unlimited}, nil
}

func (steady) Start(context.Context, Pod, Container) error     { return nil }
func (steady) Update(context.Context, Pod, Container) Settings { return Settings{} }
func (steady) Stopped(context.Context, Pod, Container)         {}
