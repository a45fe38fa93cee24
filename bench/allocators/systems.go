package main

import (
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/kubernetes-sigs/dra-driver-cpu/pkg/cpuinfo"
	"github.com/kubernetes-sigs/dra-driver-cpu/pkg/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"

	"pinfold.dev/pinfold/bench/internal/kubelet"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/dra"
)

// system is a way to choose a pod's node and CPUs.
type system struct {
	name string
	// byDevice is true if the scheduler chooses a NUMA node, which is a device.
	byDevice bool
	// pinfold is true if Pinfold's scheduler chooses the node.
	pinfold bool
	// allocator returns what chooses CPUs on a host.
	allocator func(h *host) (allocator, error)
}

// allocator chooses n of the free CPUs, of those within a set unless it is empty. The error wraps
// errFailed if the pod fails at the node.
type allocator func(free, within cpuset.Set, n int) (cpuset.Set, error)

var errFailed = errors.New("the pod fails at the node")

// host is what all nodes have in common.
type host struct {
	machine  *topology.Machine
	index    *placement.Index
	reserved cpuset.Set   // of which no pod gets a CPU
	devices  []dra.Device // one per NUMA node
}

func newHost(shape topology.Shape) (*host, error) {
	m, err := shape.Build()
	if err != nil {
		return nil, err
	}
	h := &host{m, placement.NewIndex(m), m.Cores()[0].CPUs, dra.Devices(m, dra.ByNUMA)}
	for i := range h.devices {
		h.devices[i].Size = h.devices[i].CPUs.Difference(h.reserved).Len()
	}
	return h, nil
}

// allocatable returns the CPUs that pods can get.
func (h *host) allocatable() cpuset.Set { return h.machine.Online().Difference(h.reserved) }

// systems returns the systems to compare. Pinfold's scheduler is the last one.
func systems() []system {
	standard, all := kubelet.Variants()[0], kubelet.Variants()[3]
	single := all
	single.TopologyPolicy = topologymanager.PolicySingleNumaNode
	return []system{
		{name: "stock + kubelet, default", allocator: ofKubelet(standard)},
		{name: "stock + kubelet, all options", allocator: ofKubelet(all)},
		{name: "stock + kubelet, single-numa-node", allocator: ofKubelet(single)},
		{name: "stock + dra-driver-cpu", byDevice: true, allocator: ofDRADriverCPU},
		{name: "stock + Pinfold's agent", allocator: ofLedger},
		{name: "stock + Pinfold's DRA driver", byDevice: true, allocator: ofLedger},
		{name: "Pinfold's scheduler", pinfold: true, allocator: ofLedger},
	}
}

func ofKubelet(v kubelet.Variant) func(*host) (allocator, error) {
	return func(h *host) (allocator, error) {
		k, err := kubelet.New(h.machine, h.reserved, v)
		return func(free, _ cpuset.Set, n int) (cpuset.Set, error) {
			cpus, _, err := k.Choose(free, n)
			if errors.Is(err, kubelet.ErrRejected) {
				err = fmt.Errorf("%w: %w", errFailed, err)
			}
			return cpus, err
		}, err
	}
}

// ofDRADriverCPU takes CPUs like dra-driver-cpu in mode "grouped" by NUMA node.
func ofDRADriverCPU(h *host) (allocator, error) {
	machine := &cpuinfo.CPUTopology{
		NumCPUs: len(h.machine.CPUs), NumCores: len(h.machine.Cores()), NumUncoreCache: len(h.machine.LLCs()),
		NumSockets: len(h.machine.Packages()), NumNUMANodes: len(h.machine.NUMANodes), CPUDetails: cpuinfo.CPUDetails{},
	}
	machine.SMTEnabled = machine.NumCPUs > machine.NumCores
	for _, c := range h.machine.CPUs {
		machine.CPUDetails[int(c.ID)] = cpuinfo.CPUInfo{CpuID: int(c.ID), CoreID: int(c.Core), SocketID: int(c.Package),
			ClusterID: -1, NUMANodeID: int(c.NUMA), CoreType: cpuinfo.CoreTypeStandard, UncoreCacheID: int(c.LLC)}
	}
	return func(free, within cpuset.Set, n int) (cpuset.Set, error) {
		cpus, err := cpumanager.TakeByTopologyNUMAPacked(logr.Discard(), machine, kubelet.ToKube(free.Intersection(within)), n, cpumanager.CPUSortingStrategyPacked, true)
		if err != nil {
			return cpuset.Set{}, fmt.Errorf("%w: %w", errFailed, err)
		}
		return kubelet.FromKube(cpus), nil
	}, nil
}

// ofLedger decides as Pinfold's agent does, with one other pod that has all CPUs that are not free.
func ofLedger(h *host) (allocator, error) {
	config := ledger.Config{Reserved: ledger.MilliCPU(1000 * h.reserved.Len()), ReservedCPUs: h.reserved, MinShared: 1}
	return func(free, within cpuset.Set, n int) (cpuset.Set, error) {
		books := ledger.New(h.index, config)
		if taken := h.allocatable().Difference(free); !taken.IsEmpty() {
			books.Add(ledger.Claim{ID: "others", Containers: []ledger.ContainerClaim{
				{Name: containerName, Policy: placement.Static, Limit: taken.Len(), CPUs: taken}}})
		}
		decision, err := books.Decide(ledger.Ask{Within: within, Containers: []ledger.ContainerAsk{{Name: containerName, CPUs: n}}})
		if errors.As(err, new(*ledger.ExclusiveError)) {
			err = fmt.Errorf("%w: %w", errFailed, err)
		}
		return decision.CPUs, err
	}, nil
}
