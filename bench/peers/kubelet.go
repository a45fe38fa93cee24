package main

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
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
)

// kubelet is the part of a kubelet that chooses CPUs: a topology manager, of whose
// hint providers the CPU manager is the only one.
type kubelet struct {
	machine  *kubetopology.CPUTopology
	topology topologymanager.Manager
	provider *hintProvider
	ctx      context.Context // carries the logger
}

// newKubelet puts the managers of a kubelet on a machine together.
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

// choose admits a pod on a machine whose other CPUs somebody has already.
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

	start := threadTime()
	result := k.topology.Admit(k.ctx, attributes)
	took := threadTime() - start

	if !result.Admit {
		return answer{}, fmt.Errorf("the kubelet refuses a pod of %d CPUs with %v free: %s: %s", n, free, result.Reason, result.Message)
	}
	cpus, ok := books.GetCPUSet(podName, containerName)
	if !ok {
		return answer{}, fmt.Errorf("the kubelet gave a pod of %d CPUs no CPUs of its own with %v free", n, free)
	}
	return answer{fromKube(cpus), took}, nil
}

// guaranteedPod is a pod that the static policy gives n CPUs.
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

// hintProvider hands the topology manager's questions to the static policy with
// the books of the moment, as the kubelet's CPU manager does.
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
