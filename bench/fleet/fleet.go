package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/kubelet"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// startEvery is the time between the starts of two agents.
const startEvery = 5 * time.Millisecond

// fleet are the agents of a cluster.
type fleet struct {
	cluster *cluster
	counts  *counts
	root    string // of the machine that all of them have
	agents  *errgroup.Group
	cancel  context.CancelFunc
}

func newFleet(c *cluster) (*fleet, error) {
	f := &fleet{cluster: c, counts: &counts{requests: map[string]int{}}, root: filepath.Join(c.dir, "machine"), agents: &errgroup.Group{}, cancel: func() {}}
	return f, errors.Join(os.Mkdir(filepath.Join(c.dir, "run"), 0o700), makeMachine(f.root))
}

// start starts all agents, and waits until each has renewed its lease and published its topology.
func (f *fleet) start(ctx context.Context) error {
	running, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	for i := range f.cluster.nodes {
		o, err := f.options(i)
		if err != nil {
			return err
		}
		f.agents.Go(func() error { return agent.Run(running, o) })
		if !sleep.For(ctx, startEvery) {
			return context.Cause(ctx)
		}
	}
	config := f.cluster.RESTConfig()
	topologies, err := nodetopology.NewClient(config)
	if err != nil {
		return err
	}
	for {
		leases, err := f.cluster.client.CoordinationV1().Leases(nodetopology.LeaseNamespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return fmt.Errorf("list the agents' leases: %w", err)
		}
		objects, err := topologies.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return fmt.Errorf("list the topologies: %w", err)
		}
		if len(leases.Items) == len(f.cluster.nodes) && len(objects.Items) == len(f.cluster.nodes) {
			return nil
		}
		if !sleep.For(ctx, 5*time.Second) {
			return context.Cause(ctx)
		}
	}
}

// stop ends all agents.
func (f *fleet) stop() error {
	f.cancel()
	return f.agents.Wait()
}

// options returns the options of an agent, which are those of pinfold-agent run, but for rounds, which
// ask the API server nothing.
func (f *fleet) options(i int) (o agent.Options, err error) {
	config := f.cluster.agentConfig(i)
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return o, err
	}
	// Both clients share one connection, as those of pinfold-agent do.
	config.TLSClientConfig = rest.TLSClientConfig{}
	config.Transport = counted{&http.Transport{TLSClientConfig: tls, DialContext: f.counts.dial, ForceAttemptHTTP2: true, TLSHandshakeTimeout: time.Minute}, f.counts}
	topologies, err := nodetopology.NewClient(config)
	if err != nil {
		return o, err
	}
	compact := rest.CopyConfig(config)
	compact.ContentType = runtime.ContentTypeProtobuf
	compact.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(compact)
	if err != nil {
		return o, err
	}
	node := f.cluster.nodes[i].Name
	k := kubelet.Client{NodeName: node, Config: &rest.Config{BearerToken: config.BearerToken}, CAFile: f.cluster.kubeletCA()}
	return agent.Options{Config: control.Config{NodeName: node, MinShared: api.DefaultMinSharedCPUs}, Root: f.root,
		RunDir: filepath.Join(f.cluster.dir, "run", strconv.Itoa(i)), Client: client, Topologies: topologies,
		Kubelet: k.Configuration, StaticPods: k.StaticPods, Period: time.Minute, LeaseNamespace: nodetopology.LeaseNamespace,
		Version: "v0", Log: slog.New(slog.DiscardHandler)}, nil
}

// makeMachine makes the files of a machine with two packages of 26 cores and 104 CPUs, whose kubelet
// has no pods.
func makeMachine(root string) error {
	const packages, cores, cpus = 2, 26, 104
	all := fmt.Sprintf("0-%d", cpus-1)
	files := map[string]string{
		"proc/self/mountinfo": `31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset`,
		"proc/stat": "cpu  8 0 0 8 0 0 0 0 0 0", "sys/devices/system/cpu/online": all, "sys/devices/system/cpu/present": all,
		"sys/devices/system/node/online": fmt.Sprintf("0-%d", packages-1),
	}
	for cpu := range cpus {
		core := cpu % (packages * cores)
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", cpu)
		files[dir+"core_cpus_list"] = fmt.Sprintf("%d,%d", core, core+packages*cores)
		files[dir+"package_cpus_list"] = cpusOf(core/cores, packages, cores)
		files[dir+"physical_package_id"] = strconv.Itoa(core / cores)
	}
	for node := range packages {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/", node)
		files[dir+"cpulist"] = cpusOf(node, packages, cores)
		files[dir+"distance"] = [packages]string{"10 21", "21 10"}[node]
		files[dir+"meminfo"] = fmt.Sprintf("Node %d MemTotal:       201326592 kB", node)
	}
	groups := []string{"/", "/kubepods", "/kubepods/burstable", "/kubepods/besteffort"}
	for _, group := range groups {
		for name, text := range map[string]string{
			"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000", "cpu/cpu.cfs_burst_us": "0", "cpu/cpu.shares": "1024",
			"cpu/cpu.idle": "0", "cpu/cpu.stat": "nr_periods 0", "cpu/cgroup.procs": "", "cpuacct/cgroup.procs": "", "cpuset/cgroup.procs": "",
			"cpuacct/cpuacct.usage": "0", "cpuset/cpuset.cpus": all, "cpuset/cpuset.effective_cpus": all, "cpuset/tasks": "",
		} {
			files[filepath.Join("sys/fs/cgroup", filepath.Dir(name), group, filepath.Base(name))] = text
		}
	}
	var errs []error
	for name, text := range files {
		path := filepath.Join(root, name)
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text+"\n"), 0o600))
	}
	return errors.Join(errs...)
}

// cpusOf returns the CPUs of a package, both threads of each core.
func cpusOf(at, packages, cores int) string {
	first := at * cores
	second := first + packages*cores
	return fmt.Sprintf("%d-%d,%d-%d", first, first+cores-1, second, second+cores-1)
}
