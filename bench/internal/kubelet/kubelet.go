// Package kubelet asks the code of a kubelet for CPUs: its topology manager and the static policy
// of its CPU manager, combined as in the kubelet.
//
//	k, err := kubelet.New(machine, reserved, kubelet.Variants()[0])
//	cpus, took, err := k.Choose(free, 4)
//
// The machine is passed in cAdvisor's types, and the pod is Guaranteed. The decision starts where a
// scheduled pod arrives, at the topology manager's admission: hints for all sets of NUMA nodes,
// their merge, and the allocation. Writing the state to disk and logging are omitted.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

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

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/internal/command"
)

// Kubelet is the part of a kubelet that chooses CPUs: a topology manager with the CPU manager as
// its only hint provider.
type Kubelet struct {
	Machine  *kubetopology.CPUTopology // as the kubelet sees it
	reserved kubecpuset.CPUSet
	topology topologymanager.Manager
	provider *hintProvider
	ctx      context.Context // carries the logger
}

// New combines the managers of a kubelet on a machine. The reserved CPUs are never exclusive
// (reservedSystemCPUs).
func New(m *topology.Machine, reserved cpuset.Set, v Variant) (*Kubelet, error) {
	info, err := machineInfo(m)
	if err != nil {
		return nil, err
	}
	silent := logr.Discard()
	machine, err := kubetopology.Discover(silent, info)
	if err != nil {
		return nil, fmt.Errorf("%s: discover the machine: %w", v.Name, err)
	}
	manager, err := topologymanager.NewManager(silent, info.Topology, v.TopologyPolicy, topologymanager.ContainerTopologyScope, v.TopologyOptions)
	if err != nil {
		return nil, fmt.Errorf("%s: make the topology manager: %w", v.Name, err)
	}
	policy, err := cpumanager.NewStaticPolicy(silent, machine, reserved.Len(), ToKube(reserved), manager, v.CPUOptions)
	if err != nil {
		return nil, fmt.Errorf("%s: make the CPU manager's static policy: %w", v.Name, err)
	}
	provider := &hintProvider{policy: policy}
	manager.AddHintProvider(silent, provider)
	return &Kubelet{machine, ToKube(reserved), manager, provider, klog.NewContext(context.Background(), silent)}, nil
}

const (
	podName       = "asks"
	containerName = "main"
)

// ErrRejected is wrapped by the error about a pod that the kubelet does not admit.
var ErrRejected = errors.New("the kubelet rejects the pod")

// Choose admits a pod on a machine on which all other CPUs are taken. It returns the pod's CPUs and
// the CPU time of the decision. It is called on a locked thread, so that it can measure CPU time.
func (k *Kubelet) Choose(free cpuset.Set, n int) (cpuset.Set, time.Duration, error) {
	logger := klog.FromContext(k.ctx)
	books := state.NewMemoryState(logger)
	unassigned := ToKube(free).Union(k.reserved)
	books.SetDefaultCPUSet(unassigned)
	if taken := k.Machine.CPUDetails.CPUs().Difference(unassigned); !taken.IsEmpty() {
		books.SetCPUSet("holds-the-rest", containerName, taken)
	}
	if err := k.provider.policy.Start(logger, books); err != nil {
		return cpuset.Set{}, 0, fmt.Errorf("start the kubelet's CPU manager with %v free: %w", free, err)
	}
	k.provider.books = books
	attributes := &lifecycle.PodAdmitAttributes{Pod: guaranteedPod(n), Operation: lifecycle.AddOperation}

	start := command.CPUTime(unix.CLOCK_THREAD_CPUTIME_ID)
	result := k.topology.Admit(k.ctx, attributes)
	took := command.CPUTime(unix.CLOCK_THREAD_CPUTIME_ID) - start

	if !result.Admit {
		return cpuset.Set{}, 0, fmt.Errorf("%w of %d CPUs with %v free: %s: %s", ErrRejected, n, free, result.Reason, result.Message)
	}
	cpus, ok := books.GetCPUSet(podName, containerName)
	if !ok {
		return cpuset.Set{}, 0, fmt.Errorf("the kubelet gave a pod of %d CPUs no exclusive CPUs with %v free", n, free)
	}
	return FromKube(cpus), took, nil
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

// ToKube returns a set in the kubelet's type.
func ToKube(s cpuset.Set) kubecpuset.CPUSet {
	var ids []int
	for cpu := range s.All() {
		ids = append(ids, int(cpu))
	}
	return kubecpuset.New(ids...)
}

// FromKube returns a set of the kubelet's type.
func FromKube(s kubecpuset.CPUSet) cpuset.Set {
	var cpus cpuset.Set
	for _, id := range s.UnsortedList() {
		cpus.Add(cpuset.CPU(id))
	}
	return cpus
}

// Variant is a configuration of a kubelet whose CPU manager policy is static.
type Variant struct {
	Name            string
	TopologyPolicy  string            // topologyManagerPolicy
	TopologyOptions map[string]string // topologyManagerPolicyOptions
	CPUOptions      map[string]string // cpuManagerPolicyOptions
}

// Variants returns the kubelets to compare: the default; with hints; with hints and a preference
// for whole LLCs; and with all options that serve criteria 2 to 5, which adds distance.
// full-pcpus-only is not one of them, because it rejects pods but does not choose differently
// (bench/peers, TestFullCoresOnlyChoosesAlike).
func Variants() []Variant {
	llcs := map[string]string{cpumanager.PreferAlignByUnCoreCacheOption: "true"}
	nearest := map[string]string{topologymanager.PreferClosestNUMANodes: "true"}
	return []Variant{
		{Name: "kubelet, default", TopologyPolicy: topologymanager.PolicyNone},
		{Name: "kubelet, hint", TopologyPolicy: topologymanager.PolicyBestEffort},
		{Name: "kubelet, hint+LLC", TopologyPolicy: topologymanager.PolicyBestEffort, CPUOptions: llcs},
		{Name: "kubelet, hint+LLC+nearest", TopologyPolicy: topologymanager.PolicyBestEffort, TopologyOptions: nearest, CPUOptions: llcs},
	}
}
