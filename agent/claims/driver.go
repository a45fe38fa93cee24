// Package claims is the DRA driver of a node: it publishes the node's CPUs as devices, and asks the
// agent to allocate CPUs to the claims that the kubelet prepares. The agent decides and saves that
// (package allocate); this package tells others about it.
//
// Each step can be repeated. The kubelet prepares a claim again after an error, and after its own
// restart, and gets the same answer. Before a step of its own can be seen, what it depends on is
// saved, so that an agent that is killed in between leaks nothing:
//
//	prepare:    allocate and save, enforce, write files for the runtime, write the claim's status, answer
//	unprepare:  take back and save, enforce, remove the files, answer
//	give back:  decide that a pod never gets CPUs, take the allocation out of the claim's status
package claims

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	resourceapply "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	registrationapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/dra"
)

// Options are the options of [New].
type Options struct {
	Client   kubernetes.Interface
	NodeName string
	// Offers is set if new claims are served. Otherwise those that have CPUs are taken back when
	// their pods end.
	Offers bool
	// KubeletDir is the kubelet's directory. It has the same name for the kubelet and the agent.
	KubeletDir string
	// CDIDir is where the container runtime looks for devices.
	CDIDir string
	// Files is a directory for files that containers see, and HostFiles is its name for the runtime.
	Files, HostFiles string
	// Devices returns the devices of the node and how they are published, or an error while they are
	// not known.
	Devices func() ([]dra.Device, func(dra.Features) []resourceapi.Device, error)
	// Give allocates CPUs to a pod whose claims read returns, and saves and enforces this. Read gets the
	// devices of all groupings, and does not call other options.
	Give func(pod types.UID, read func(*corev1.Pod, []dra.Device) (dra.Request, error)) (api.Allocation, error)
	// Prepared is told whether the claims of a pod were served, and why not.
	Prepared func(pod types.UID, err error)
	// TakeBack takes back what was allocated for claims. Kept returns the UIDs of those that have CPUs.
	TakeBack func(claims []types.UID) error
	Kept     func() map[types.UID]bool
	// Unserved returns the pods with claims that were given no CPUs for any. Forfeit decides that such
	// a pod never gets any, and returns why, or nil if it may. Tell creates an event of a pod.
	Unserved func() []*corev1.Pod
	Forfeit  func(pod types.UID, read func(*corev1.Pod, []dra.Device) (dra.Request, error)) error
	Tell     func(pod *corev1.Pod, text string)

	Now                func() time.Time
	Period, RetryAfter time.Duration
	Log                *slog.Logger
	Dedup              *logdedup.Log
}

// Driver implements [kubeletplugin.DRAPlugin].
type Driver struct {
	Options
	wake   chan struct{}
	failed chan error          // a server has ended
	looks  map[types.UID]*look // at the claims of unserved pods
	// registered is set once the kubelet has registered the driver.
	registered atomic.Bool

	mu       sync.Mutex
	features dra.Features
	known    map[string]cpuset.Set // all CPUs that a device has had since the machine was booted, by its name
	saved    string                // known, as in its file
}

// New returns a driver that does not run yet.
func New(o Options) *Driver {
	d := &Driver{Options: o, wake: make(chan struct{}, 1), failed: make(chan error, 1), features: dra.Features{Lists: true, Requests: true}}
	text, err := os.ReadFile(d.knownFile())
	if err == nil {
		err = json.Unmarshal(text, &d.known)
	}
	if d.saved = string(text); err != nil || d.known == nil { // the first agent since the machine was booted, or damaged
		d.known = map[string]cpuset.Set{}
	}
	return d
}

// Changed makes the driver publish the devices again soon. It does not wait.
func (d *Driver) Changed() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run runs the driver until the context ends.
func (d *Driver) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(d.Log.Handler()))
	for ctx.Err() == nil {
		err := d.serve(ctx)
		d.Dedup.WarnOrClear("claims", "resource claims for CPUs are not served", err)
		sleep.For(ctx, d.RetryAfter)
	}
}

// serve registers the driver with the kubelet and publishes devices until the context ends.
func (d *Driver) serve(ctx context.Context) error {
	data := filepath.Join(d.KubeletDir, "plugins", dra.Driver)
	if err := os.MkdirAll(data, 0o750); err != nil {
		return fmt.Errorf("make the driver's directory: %w", err)
	}
	d.registered.Store(false)
	notice := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if status, ok := request.(*registrationapi.RegistrationStatus); ok {
			d.registered.Store(status.GetPluginRegistered())
		}
		return handler(ctx, request)
	}
	helper, err := kubeletplugin.Start(ctx, d, kubeletplugin.Serialize(false), kubeletplugin.GRPCInterceptor(notice), kubeletplugin.DriverName(dra.Driver), kubeletplugin.KubeClient(d.Client),
		kubeletplugin.NodeName(d.NodeName), kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(d.KubeletDir, "plugins_registry")))
	if err != nil {
		return fmt.Errorf("register with the kubelet (--kubelet-dir): %w", err)
	}
	defer helper.Stop()
	late := time.After(callDelay)
	for {
		err := d.publish(ctx, helper)
		if err == nil {
			err = d.tidy()
		}
		d.Dedup.WarnOrClear("give back", "claims of pods that cannot start keep their devices", d.giveBack(ctx))
		wait := d.Period
		if err != nil {
			wait = d.RetryAfter
		}
		if !errors.Is(err, control.ErrNotYet) {
			d.Dedup.WarnOrClear("devices", "the devices of this node are not up to date", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.failed:
			return err
		case <-late:
			if err := d.Ready(); err != nil {
				return err
			}
			d.Dedup.Clear("claims")
		case <-d.wake:
		case <-time.After(wait):
		}
	}
}

// callDelay is the time in which the kubelet notices the driver's socket. It may miss that the socket
// was made twice within a second, and notices the next one.
const callDelay = 10 * time.Second

// Ready returns an error unless the kubelet has registered the driver.
func (d *Driver) Ready() error {
	if !d.registered.Load() {
		return fmt.Errorf("the kubelet has not registered the driver %s: --kubelet-dir %s must be its directory", dra.Driver, d.KubeletDir)
	}
	return nil
}

// roomDelay is how long the kubelet waits until the agent knows a pod, and there is room for it: the
// pod before it may be ending. Then it tries again, but only after one or two minutes.
const roomDelay = 10 * time.Second

// mayPass reports whether an error may end while the kubelet waits.
func mayPass(err error) bool {
	return errors.Is(err, control.ErrNotYet) || errors.As(err, new(*ledger.ExclusiveError))
}

// PrepareResourceClaims lets the agent allocate CPUs to the claims of a pod.
func (d *Driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	prepared, err := d.prepare(ctx, claims)
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: prepared[claim.UID], Err: err}
	}
	return results, nil
}

func (d *Driver) prepare(ctx context.Context, claims []*resourceapi.ResourceClaim) (_ map[types.UID][]kubeletplugin.Device, err error) {
	uid, err := dra.PodOf(claims)
	if err != nil {
		return nil, err
	}
	defer func() { d.Prepared(uid, err) }()
	var request dra.Request
	var allocation api.Allocation
	_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, roomDelay, true, func(context.Context) (bool, error) {
		allocation, err = d.Give(uid, func(pod *corev1.Pod, devices []dra.Device) (_ dra.Request, err error) {
			request, err = dra.Read(pod, claims, d.NodeName, devices)
			return request, err
		})
		return !mayPass(err), nil
	})
	if err != nil {
		return nil, err
	}
	parts := request.Divide(allocation)
	if err := d.writeFiles(uid, &request, allocation); err != nil {
		return nil, fmt.Errorf("tell the container runtime: %w", err)
	}
	for _, claim := range claims {
		if err := d.writeStatus(ctx, claim, &request, parts); err != nil {
			return nil, fmt.Errorf("write the status of resource claim %s: %w", claim.Name, err)
		}
	}
	return answer(&request), nil
}

// answer returns the prepared devices by claim.
func answer(request *dra.Request) map[types.UID][]kubeletplugin.Device {
	prepared := map[types.UID][]kubeletplugin.Device{}
	for i := range request.Parts {
		p := &request.Parts[i]
		prepared[p.Claim.UID] = append(prepared[p.Claim.UID], kubeletplugin.Device{Requests: []string{p.Result.Request}, PoolName: p.Result.Pool,
			DeviceName: p.Result.Device, ShareID: p.Result.ShareID, CDIDeviceIDs: []string{deviceID(p)}})
	}
	return prepared
}

// DeviceData is what the status of a claim says about a device, as its data.
type DeviceData struct {
	Container string     `json:"container"`
	CPUs      cpuset.Set `json:"cpus"`
}

// writeStatus writes the CPUs of a claim to its status.
func (d *Driver) writeStatus(ctx context.Context, claim *resourceapi.ResourceClaim, request *dra.Request, cpus []cpuset.Set) error {
	status := resourceapply.ResourceClaimStatus()
	for i := range request.Parts {
		p := &request.Parts[i]
		if p.Claim.UID != claim.UID {
			continue
		}
		data, err := json.Marshal(DeviceData{p.Container, cpus[i]})
		if err != nil {
			return err
		}
		device := resourceapply.AllocatedDeviceStatus().WithDriver(dra.Driver).WithPool(p.Result.Pool).WithDevice(p.Result.Device).
			WithData(runtime.RawExtension{Raw: data})
		if p.Result.ShareID != nil {
			device.WithShareID(string(*p.Result.ShareID))
		}
		status.WithDevices(device)
	}
	_, err := d.Client.ResourceV1().ResourceClaims(claim.Namespace).ApplyStatus(ctx,
		resourceapply.ResourceClaim(claim.Name, claim.Namespace).WithUID(claim.UID).WithStatus(status), metav1.ApplyOptions{FieldManager: dra.Driver, Force: true})
	return err
}

// UnprepareResourceClaims takes back what was allocated for claims.
func (d *Driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	var uids []types.UID
	for _, claim := range claims {
		uids = append(uids, claim.UID)
	}
	err := d.TakeBack(uids)
	results := map[types.UID]error{}
	for _, uid := range uids {
		if results[uid] = err; err == nil {
			results[uid] = d.removeFiles(uid)
		}
	}
	return results, nil
}
