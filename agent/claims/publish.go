package claims

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"pinfold.dev/pinfold/core/cpuset"
)

// publish passes the devices to the helper, which writes them when they have changed.
func (d *Driver) publish(ctx context.Context, helper *kubeletplugin.Helper) error {
	pools := map[string]resourceslice.Pool{}
	if d.Offers {
		_, describe, err := d.Devices()
		if err != nil {
			return err
		}
		d.mu.Lock()
		features := d.features
		d.mu.Unlock()
		pool := resourceslice.Pool{}
		for devices := range slices.Chunk(describe(features), resourceapi.ResourceSliceMaxDevices) {
			pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: devices})
		}
		pools[d.NodeName] = pool
	}
	return helper.PublishResources(ctx, resourceslice.DriverResources{Pools: pools})
}

// HandleError is called for errors in the background. The API server drops fields of features that
// the cluster does not have: these are then left out. It refuses an attribute whose list it has
// dropped, and claims that count as requests if the kubelet does not know them.
func (d *Driver) HandleError(_ context.Context, err error, message string) {
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		select {
		case d.failed <- fmt.Errorf("%s: %w", message, err):
		default:
		}
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var dropped *resourceslice.DroppedFieldsError
	switch {
	case apierrors.IsInvalid(err) && d.features.Lists:
		d.features.Lists = false
	case apierrors.IsForbidden(err) && d.features.Requests && strings.Contains(err.Error(), "DRANodeAllocatableResources"):
		d.features.Requests = false
	case !errors.As(err, &dropped):
		d.Dedup.Warn("dra", "serving resource claims: "+message, err)
		return
	case lacksMapping(dropped): // also a slice that was written before
		d.features.Requests = false
	default:
		d.Dedup.Warn("features", "resource claims need a feature gate that the cluster lacks: set it for API server and scheduler", err)
		return
	}
	d.Changed()
}

// lacksMapping reports whether the API server has dropped that claims count as requests.
func lacksMapping(dropped *resourceslice.DroppedFieldsError) bool {
	wanted := dropped.DesiredSlice.Spec.Devices
	for i, device := range dropped.ActualSlice.Spec.Devices {
		if i < len(wanted) && len(device.NodeAllocatableResources) < len(wanted[i].NodeAllocatableResources) {
			return true
		}
	}
	return false
}

// healthEvery is the interval of reports on the health of devices, which the kubelet forgets after
// 30 s.
const healthEvery = 10 * time.Second

// WatchHealthStatus reports a device as unhealthy while some of its CPUs are offline.
func (d *Driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	for {
		if report, ok := d.health(); ok {
			select {
			case <-ctx.Done():
				return nil
			case reports <- report:
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(healthEvery):
		}
	}
}

// knownFile has what CPUs the devices have had, for the next agent.
func (d *Driver) knownFile() string { return filepath.Join(d.Files, "devices.json") }

func (d *Driver) health() (report kubeletplugin.DeviceHealthReport, ok bool) {
	devices, _, err := d.Devices()
	if err != nil {
		return report, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var now cpuset.Set
	for _, device := range devices {
		now = now.Union(device.CPUs)
		d.known[device.Name] = d.known[device.Name].Union(device.CPUs)
	}
	if text, err := json.Marshal(d.known); err == nil && string(text) != d.saved {
		d.saved = string(text)
		d.Dedup.WarnOrClear("known", "an agent that starts after this one does not know which CPUs are offline", write(d.knownFile(), text))
	}
	for name, all := range d.known {
		health := kubeletplugin.DeviceHealth{PoolName: d.NodeName, DeviceName: name, Health: kubeletplugin.HealthStatusHealthy, LastUpdated: time.Now()}
		if off := all.Difference(now); !off.IsEmpty() {
			health.Health, health.Message = kubeletplugin.HealthStatusUnhealthy, fmt.Sprintf("CPUs %s are offline", off)
		}
		report.Devices = append(report.Devices, health)
	}
	return report, true
}
