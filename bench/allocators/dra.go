package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/kube/dra"
)

// devices are a node's devices, one per NUMA node, and what is allocated of them.
type devices struct {
	*host
	node     *corev1.Node
	slice    *resourceapi.ResourceSlice
	consumed structured.ConsumedCapacityCollection
	cel      *cel.Cache
}

// newDevices publishes devices as Pinfold's driver does. Those of dra-driver-cpu have other names
// and the same capacities.
func newDevices(node *corev1.Node, h *host) *devices {
	spec := resourceapi.ResourceSliceSpec{Driver: dra.Driver, NodeName: &node.Name,
		Pool: resourceapi.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1}}
	for _, d := range h.devices {
		spec.Devices = append(spec.Devices, d.Describe(h.machine, nil, dra.Features{}))
	}
	return &devices{host: h, node: node, slice: &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node.Name}, Spec: spec},
		consumed: structured.NewConsumedCapacityCollection(), cel: cel.NewCache(1, cel.Features{})}
}

func quantity(cpus int) resource.Quantity {
	return *resource.NewQuantity(int64(cpus), resource.DecimalSI)
}

// sort publishes the devices in the order for these free CPUs.
func (d *devices) sort(free cpuset.Set) {
	order := slices.Clone(d.devices)
	dra.Sort(order, d.machine, free)
	slices.SortFunc(d.slice.Spec.Devices, func(a, b resourceapi.Device) int {
		return cmp.Compare(position(order, a.Name), position(order, b.Name))
	})
}

func position(all []dra.Device, name string) int {
	return slices.IndexFunc(all, func(d dra.Device) bool { return d.Name == name })
}

// allocate returns the position among the host's devices of the one from which kube-scheduler's
// allocator takes n CPUs, or -1.
func (d *devices) allocate(ctx context.Context, n int) (at int, err error) {
	features := dynamicresources.AllocatorFeatures(feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	allocator, err := structured.NewAllocator(ctx, features, structured.AllocatedState{AggregatedCapacity: d.consumed},
		classes{}, []*resourceapi.ResourceSlice{d.slice}, d.cel)
	if err != nil {
		return -1, fmt.Errorf("allocate devices: %w", err)
	}
	results, err := allocator.Allocate(ctx, d.node, []*resourceapi.ResourceClaim{claim(n)})
	if err != nil || len(results) == 0 {
		return -1, err
	}
	return position(d.devices, results[0].Devices.Results[0].Device), nil
}

// share is n CPUs of the device at a position.
func (d *devices) share(at, n int) structured.DeviceConsumedCapacity {
	return structured.NewDeviceConsumedCapacity(structured.MakeDeviceID(dra.Driver, d.node.Name, d.devices[at].Name),
		map[resourceapi.QualifiedName]resource.Quantity{dra.Capacity: quantity(n)})
}

// claim asks for n CPUs of one device.
func claim(n int) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "cpus", Namespace: metav1.NamespaceDefault, UID: "cpus"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "cpus",
			Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: dra.Driver,
				AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
				Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{dra.Capacity: quantity(n)}}},
		}}}},
	}
}

// classes is a DeviceClass that selects every device.
type classes struct{}

func (classes) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }

func (classes) Get(name string) (*resourceapi.DeviceClass, error) {
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}
