package main

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	cadvisor "github.com/google/cadvisor/lib/model"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	kubetopology "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	kubecpuset "k8s.io/utils/cpuset"

	"pinfold.dev/pinfold/bench/internal/command"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// kubelet is the part of a kubelet that chooses CPUs: a topology manager with the CPU manager as
// its only hint provider.
type kubelet struct {
	machine  *kubetopology.CPUTopology
	topology topologymanager.Manager
	provider *hintProvider
	ctx      context.Context // carries the logger
}

// newKubelet combines the managers of a kubelet on a machine.
func newKubelet(m *topology.Machine, v variant) (*kubelet, error) {
	info, err := machineInfo(m)
	if err != nil {
		return nil, err
	}
	silent := logr.Discard()
	machine, err := kubetopology.Discover(silent, info)
	if err != nil {
		return nil, fmt.Errorf("%s: discover the machine: %w", v.name, err)
	}
	manager, err := topologymanager.NewManager(silent, info.Topology, v.topologyPolicy, topologymanager.ContainerTopologyScope, v.topologyOptions)
	if err != nil {
		return nil, fmt.Errorf("%s: make the topology manager: %w", v.name, err)
	}
	policy, err := cpumanager.NewStaticPolicy(silent, machine, 0, kubecpuset.New(), manager, v.cpuOptions)
	if err != nil {
		return nil, fmt.Errorf("%s: make the CPU manager's static policy: %w", v.name, err)
	}
	provider := &hintProvider{policy: policy}
	manager.AddHintProvider(silent, provider)
	return &kubelet{machine, manager, provider, klog.NewContext(context.Background(), silent)}, nil
}

const (
	podName       = "asks"
	containerName = "main"
)

// choose admits a pod on a machine on which all other CPUs are taken.
func (k *kubelet) choose(free cpuset.Set, n int) (answer, error) {
	logger := klog.FromContext(k.ctx)
	books := state.NewMemoryState(logger)
	unassigned := toKube(free)
	books.SetDefaultCPUSet(unassigned)
	if taken := k.machine.CPUDetails.CPUs().Difference(unassigned); !taken.IsEmpty() {
		books.SetCPUSet("holds-the-rest", containerName, taken)
	}
	if err := k.provider.policy.Start(logger, books); err != nil {
		return answer{}, fmt.Errorf("start the kubelet's CPU manager with %v free: %w", free, err)
	}
	k.provider.books = books
	attributes := &lifecycle.PodAdmitAttributes{Pod: guaranteedPod(n), Operation: lifecycle.AddOperation}

	start := command.CPUTime(unix.CLOCK_THREAD_CPUTIME_ID)
	result := k.topology.Admit(k.ctx, attributes)
	took := command.CPUTime(unix.CLOCK_THREAD_CPUTIME_ID) - start

	if !result.Admit {
		return answer{}, fmt.Errorf("the kubelet rejects a pod of %d CPUs with %v free: %s: %s", n, free, result.Reason, result.Message)
	}
	cpus, ok := books.GetCPUSet(podName, containerName)
	if !ok {
		return answer{}, fmt.Errorf("the kubelet gave a pod of %d CPUs no exclusive CPUs with %v free", n, free)
	}
	return answer{fromKube(cpus), took}, nil
}

// guaranteedPod returns a pod to which the static policy gives n CPUs.
func guaranteedPod(n int) *v1.Pod {
	amounts := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(n), resource.DecimalSI),
		v1.ResourceMemory: resource.MustParse("1Gi"),
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName, Namespace: metav1.NamespaceDefault, UID: podName},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name:      containerName,
			Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts},
		}}},
	}
}

// hintProvider passes the topology manager's calls to the static policy with the current state, as
// the kubelet's CPU manager does.
type hintProvider struct {
	policy cpumanager.Policy
	books  state.State
}

var _ topologymanager.HintProvider = (*hintProvider)(nil)

func (p *hintProvider) GetTopologyHints(logger klog.Logger, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return p.policy.GetTopologyHints(logger, p.books, pod, container, operation)
}

func (p *hintProvider) GetPodTopologyHints(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return p.policy.GetPodTopologyHints(logger, p.books, pod, operation)
}

func (p *hintProvider) AllocatePod(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) error {
	return p.policy.AllocatePod(logger, p.books, pod, operation)
}

func (p *hintProvider) Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) error {
	return p.policy.Allocate(klog.FromContext(ctx), p.books, pod, container, operation)
}

// lastLevel is the cache level of LLCs for cAdvisor, which recognises caches of several cores by a
// level above 2.
const lastLevel = 3

// machineInfo describes a machine as cAdvisor does to the kubelet (lib/utils/sysinfo, v0.60.5): an
// LLC is a core's "uncore cache" unless it has exactly as many CPUs as the NUMA node. It returns an
// error for CPUs without a NUMA node, which cAdvisor's types cannot express.
func machineInfo(m *topology.Machine) (*cadvisor.MachineInfo, error) {
	info := &cadvisor.MachineInfo{
		NumCores:         len(m.CPUs), // logical CPUs, in spite of the name
		NumPhysicalCores: len(m.Cores()),
		NumSockets:       len(m.Packages()),
	}
	llcCPUs := map[topology.LLCID]int{}
	for _, llc := range m.LLCs() {
		llcCPUs[llc.ID] = llc.CPUs.Len()
	}
	nodeAt := map[topology.NUMAID]int{}
	for i, n := range m.NUMANodes {
		nodeAt[n.ID] = i
		node := cadvisor.Node{Id: int(n.ID), Memory: n.MemoryBytes}
		for _, d := range n.Distances {
			node.Distances = append(node.Distances, uint64(d))
		}
		info.Topology = append(info.Topology, node)
	}
	for _, group := range m.Cores() {
		first, _ := m.CPU(group.CPUs.First())
		at, ok := nodeAt[first.NUMA]
		if !ok {
			return nil, fmt.Errorf("tell the kubelet of the machine: CPU %d has no NUMA node", first.ID)
		}
		core := cadvisor.Core{Id: int(first.Core), SocketID: int(first.Package)}
		for cpu := range group.CPUs.All() {
			core.Threads = append(core.Threads, int(cpu))
		}
		llc := cadvisor.Cache{Id: int(first.LLC), Type: "Unified", Level: lastLevel}
		node := &info.Topology[at]
		switch {
		case llcCPUs[first.LLC] != m.NUMANodes[at].CPUs.Len():
			core.UncoreCaches = []cadvisor.Cache{llc}
		case len(node.Caches) == 0:
			node.Caches = []cadvisor.Cache{llc}
		}
		node.Cores = append(node.Cores, core)
	}
	return info, nil
}

func toKube(s cpuset.Set) kubecpuset.CPUSet {
	var ids []int
	for cpu := range s.All() {
		ids = append(ids, int(cpu))
	}
	return kubecpuset.New(ids...)
}

func fromKube(s kubecpuset.CPUSet) cpuset.Set {
	var cpus cpuset.Set
	for _, id := range s.UnsortedList() {
		cpus.Add(cpuset.CPU(id))
	}
	return cpus
}

// variant is a configuration of a kubelet whose CPU manager policy is static.
type variant struct {
	name            string
	topologyPolicy  string            // topologyManagerPolicy
	topologyOptions map[string]string // topologyManagerPolicyOptions
	cpuOptions      map[string]string // cpuManagerPolicyOptions
}

// variants returns the kubelets to compare: the default; with hints; with hints and a preference
// for whole LLCs; and with all options that serve criteria 2 to 5, which adds distance.
// full-pcpus-only is not one of them, because it rejects pods but does not choose differently
// (TestFullCoresOnlyChoosesAlike).
func variants() []variant {
	llcs := map[string]string{cpumanager.PreferAlignByUnCoreCacheOption: "true"}
	nearest := map[string]string{topologymanager.PreferClosestNUMANodes: "true"}
	return []variant{
		{name: "kubelet, default", topologyPolicy: topologymanager.PolicyNone},
		{name: "kubelet, hint", topologyPolicy: topologymanager.PolicyBestEffort},
		{name: "kubelet, hint+LLC", topologyPolicy: topologymanager.PolicyBestEffort, cpuOptions: llcs},
		{name: "kubelet, hint+LLC+nearest", topologyPolicy: topologymanager.PolicyBestEffort, topologyOptions: nearest, cpuOptions: llcs},
	}
}
