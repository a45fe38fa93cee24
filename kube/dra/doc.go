// Package dra translates between Dynamic Resource Allocation (DRA, resource.k8s.io/v1) and CPUs.
//
//	devices := dra.Devices(machine, dra.ByNUMA)       // what a node offers
//	request, err := dra.Read(pod, claims, node, devices)  // what a pod's claims ask for
//	parts := request.Divide(allocation)                 // which CPUs each result of a claim has
//
// A device is a part of a machine, such as a NUMA node. Its CPUs are a capacity that many claims
// consume, so the scheduler chooses devices and amounts, and the node's agent chooses CPUs.
package dra

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// Driver is the name of the driver, and of the device class of all its devices.
const Driver = "cpu.pinfold.dev"

// Capacity is the name of the capacity of which a claim requests a number of CPUs. Without one, it
// gets one CPU.
const Capacity resourceapi.QualifiedName = "cpu"

// Grouping determines which CPUs make a device.
type Grouping string

// The groupings.
const (
	ByNUMA    Grouping = "numa"
	ByPackage Grouping = "package"
	ByMachine Grouping = "machine"
)

// Device is the part of a machine that a device stands for.
type Device struct {
	Name string
	CPUs cpuset.Set // online
	Size int        // CPUs that claims can have at most, which may be less
}

// Devices returns the devices of a machine, in the order of their ids.
func Devices(m *topology.Machine, by Grouping) (devices []Device) {
	add := func(name string, cpus cpuset.Set) {
		if !cpus.IsEmpty() {
			devices = append(devices, Device{name, cpus, cpus.Len()})
		}
	}
	switch by {
	case ByMachine:
		add("machine", m.Online())
	case ByPackage:
		for _, p := range m.Packages() {
			add(fmt.Sprintf("package-%d", p.ID), p.CPUs)
		}
	default:
		for _, n := range m.NUMANodes {
			add(fmt.Sprintf("numa-%d", n.ID), n.CPUs)
		}
		add("numa-none", m.CPUsOfNUMA(topology.NoNUMA))
	}
	return devices
}

// smallClaim is how many CPUs a small claim asks for.
const smallClaim = 4

// Sort orders devices as they are to be published, by their free CPUs: kube-scheduler takes the
// first device that has enough. The fewest free CPUs in whole cores come first, so that large claims
// find room in the others. But a device that has less than a small claim of these comes last, because
// the claim would get parts of cores.
func Sort(devices []Device, m *topology.Machine, free cpuset.Set) {
	whole := map[string]int{}
	for _, d := range devices {
		own := free.Intersection(d.CPUs)
		for _, core := range m.Cores() {
			if core.CPUs.IsSubsetOf(own) {
				whole[d.Name] += core.CPUs.Len()
			}
		}
	}
	slices.SortStableFunc(devices, func(a, b Device) int {
		x, y := whole[a.Name], whole[b.Name]
		if x < smallClaim || y < smallClaim {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(x, y)
	})
}

// Features are optional features of the cluster.
type Features struct {
	// Lists are attributes with several values (DRAListTypeAttributes).
	Lists bool
	// Requests count claims for CPUs as requests of their pods (DRANodeAllocatableResources).
	Requests bool
}

// maxRoots is the number of PCIe roots that are published. All attributes of a device together may
// have 48 values.
const maxRoots = 32

// Describe returns the device as it is published. roots are the PCIe roots near its CPUs. A device
// without room cannot be published.
func (d Device) Describe(m *topology.Machine, roots []string, f Features) resourceapi.Device {
	one := resource.NewQuantity(1, resource.DecimalSI)
	policy := &resourceapi.CapacityRequestPolicy{Default: one, ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: one, Step: one}}
	if d.Size == 1 { // the API server wants room for a step
		policy = &resourceapi.CapacityRequestPolicy{Default: one, ValidValues: []resource.Quantity{*one}}
	}
	device := resourceapi.Device{
		Name:                     d.Name,
		AllowMultipleAllocations: new(true),
		Attributes:               d.attributes(m),
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{Capacity: {
			Value:         *resource.NewQuantity(int64(d.Size), resource.DecimalSI),
			RequestPolicy: policy,
		}},
	}
	if f.Lists && len(roots) > 0 && len(roots) <= maxRoots { // a part of them would exclude other devices near
		device.Attributes[deviceattribute.StandardDeviceAttributePCIeRoot] = resourceapi.DeviceAttribute{StringValues: roots}
	}
	if f.Requests {
		device.NodeAllocatableResources = map[corev1.ResourceName]resourceapi.NodeAllocatableResource{corev1.ResourceCPU: {
			Mapping: &resourceapi.NodeAllocatableMapping{CapacityKey: new(Capacity), CapacityMultiplier: one}}}
	}
	return device
}

// attributes returns what all CPUs of the device have in common.
func (d Device) attributes(m *topology.Machine) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	all := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	number := func(name resourceapi.QualifiedName, value int64) {
		all[name] = resourceapi.DeviceAttribute{IntValue: &value}
	}
	if nodes := m.NUMANodesOf(d.CPUs); len(nodes) == 1 && nodes[0] != topology.NoNUMA {
		number("numaNode", int64(nodes[0]))
		number(deviceattribute.StandardDeviceAttributeNUMANode, int64(nodes[0]))
	}
	var first *topology.CPU
	samePackage, sameKind, sameSize := true, true, true
	cores := map[topology.CoreID]bool{}
	for i := range m.CPUs {
		cpu := &m.CPUs[i]
		if !d.CPUs.Contains(cpu.ID) {
			continue
		}
		first = cmp.Or(first, cpu)
		cores[cpu.Core] = true
		samePackage = samePackage && cpu.Package == first.Package
		sameKind = sameKind && cpu.Kind == first.Kind
		sameSize = sameSize && m.LLCBytes[cpu.LLC] == m.LLCBytes[first.LLC]
	}
	if first == nil {
		return all
	}
	number("cores", int64(len(cores)))
	all["smt"] = resourceapi.DeviceAttribute{BoolValue: new(len(cores) < d.CPUs.Len())}
	if samePackage {
		number("package", int64(first.Package))
	}
	if sameKind && first.Kind != "" {
		all["coreKind"] = resourceapi.DeviceAttribute{StringValue: new(string(first.Kind))}
	}
	if size := m.LLCBytes[first.LLC]; sameSize && size > 0 {
		number("llcBytes", int64(size))
	}
	return all
}
