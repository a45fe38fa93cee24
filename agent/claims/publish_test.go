package claims

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/kube/dra"
)

// TestHealth: a device is unhealthy while CPUs are offline that it has had, or when it has none left.
func TestHealth(t *testing.T) {
	now := []dra.Device{{Name: "numa-0", CPUs: cpuset.Of(0, 1)}, {Name: "numa-1", CPUs: cpuset.Of(2, 3)}}
	o := Options{NodeName: "n1", Files: t.TempDir(), Dedup: logdedup.New(slog.New(slog.DiscardHandler), time.Now), Devices: func() ([]dra.Device, func(dra.Features) []resourceapi.Device, error) { return now, nil, nil }}
	d := New(o)
	expect := func(want map[string]string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		reports := make(chan kubeletplugin.DeviceHealthReport)
		ended := make(chan error, 1)
		go func() { ended <- d.WatchHealthStatus(ctx, reports) }()
		report := <-reports
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if len(report.Devices) != len(want) {
			t.Fatalf("reported %+v", report.Devices)
		}
		for _, h := range report.Devices {
			if message, ok := want[h.DeviceName]; !ok || h.Message != message || h.PoolName != "n1" || (h.Health == kubeletplugin.HealthStatusHealthy) != (message == "") {
				t.Errorf("reported %+v, want %q", h, message)
			}
		}
	}
	expect(map[string]string{"numa-0": "", "numa-1": ""})
	now = []dra.Device{{Name: "numa-0", CPUs: cpuset.Of(0)}}
	for range 2 { // the second time by another agent
		expect(map[string]string{"numa-0": "CPUs 1 are offline", "numa-1": "CPUs 2-3 are offline"})
		d = New(o)
	}
	now = []dra.Device{{Name: "numa-0", CPUs: cpuset.Of(0, 1)}, {Name: "numa-1", CPUs: cpuset.Of(2, 3)}}
	expect(map[string]string{"numa-0": "", "numa-1": ""})
}

// TestMissingFeature: a field of the devices that the API server drops, and without which claims cannot
// work, is a warning that names the feature gate.
func TestMissingFeature(t *testing.T) {
	dedup := logdedup.New(slog.New(slog.DiscardHandler), time.Now)
	d := New(Options{NodeName: "n1", Files: t.TempDir(), Dedup: dedup})
	slice := func(shared *bool) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Devices: []resourceapi.Device{{Name: "numa-0", AllowMultipleAllocations: shared}}}}
	}
	dropped := &resourceslice.DroppedFieldsError{PoolName: "n1", DesiredSlice: slice(new(true)), ActualSlice: slice(nil)}
	d.HandleError(t.Context(), fmt.Errorf("%w: %w", kubeletplugin.ErrRecoverable, dropped), "write")
	if got := dedup.Standing()["features"]; !strings.Contains(got, "DRAConsumableCapacity") {
		t.Errorf("warnings %q", dedup.Standing())
	}
}
