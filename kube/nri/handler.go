package nri

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// Handler decides about containers. Its methods are called one at a time, block the runtime's
// request, and must return within the runtime's time limit (2 s by default). An error of Create or
// Start fails the container's creation or start, so problems that the container can live with must
// be reported in another way.
type Handler interface {
	// Synchronize is called with all pods and containers whenever the runtime has been connected.
	// It returns, by id, the settings of containers that should be changed.
	Synchronize(ctx context.Context, pods []Pod, containers []Container) map[string]Settings
	// Create is called before a container is created.
	Create(ctx context.Context, pod Pod, c Container) (Settings, error)
	// Start is called when the container's cgroup exists, before the container's first instruction.
	// It writes all settings that differ, including those returned by Create, which the runtime
	// does not always apply: see tracker.
	Start(ctx context.Context, pod Pod, c Container) error
	// Update is called when a container's resources are updated, such as by the kubelet at a
	// resize. The settings returned replace those of the update.
	Update(ctx context.Context, pod Pod, c Container) Settings
	// Stopped is called when a container has stopped or could not be created.
	Stopped(ctx context.Context, pod Pod, c Container)
}

// Pod is a pod sandbox.
type Pod struct {
	ID        string // of the sandbox
	UID       ledger.PodID
	Namespace string
	Name      string
	// CgroupParent is the pod's cgroup as named by the kubelet; see [CgroupPath].
	CgroupParent string
	Annotations  map[string]string
}

// Container is a container of a pod.
type Container struct {
	ID      string
	PodID   string // of the sandbox
	Name    string
	Running bool
	// CgroupsPath is the container's cgroup as named by the OCI runtime; see [CgroupPath].
	CgroupsPath string
}

// Settings are the settings that a handler wants for a container. Zero values leave the runtime's
// values. Settings that the kernel rejects fail the container's creation: CPUs that its pod's
// cgroup does not have and, with cgroup v1, a quota above that of the pod's cgroup.
type Settings struct {
	CPUs cpuset.Set
	// Quota is CPU time per Period, or bandwidth.Unlimited. If it is 0, quota and period are not
	// changed.
	Quota  time.Duration
	Period time.Duration
}

func podOf(p *api.PodSandbox) Pod {
	return Pod{
		ID:           p.GetId(),
		UID:          ledger.PodID(p.GetUid()),
		Namespace:    p.GetNamespace(),
		Name:         p.GetName(),
		CgroupParent: p.GetLinux().GetCgroupParent(),
		Annotations:  p.GetAnnotations(),
	}
}

func containerOf(c *api.Container) Container {
	return Container{
		ID:          c.GetId(),
		PodID:       c.GetPodSandboxId(),
		Name:        c.GetName(),
		Running:     c.GetState() == api.ContainerState_CONTAINER_RUNNING || c.GetState() == api.ContainerState_CONTAINER_PAUSED,
		CgroupsPath: c.GetLinux().GetCgroupsPath(),
	}
}

// CgroupPath returns the path below the root of a hierarchy of a cgroup that a runtime names. With
// the cgroupfs driver that is the name itself. With systemd the name is a slice, or
// "slice:prefix:name" for the scope prefix-name.scope in that slice (runc 1.5, docs/systemd.md).
func CgroupPath(name string) (string, error) {
	parts := strings.Split(name, ":")
	switch {
	case name == "":
		return "", errors.New("the runtime gave no cgroups path")
	case len(parts) == 1 && strings.HasSuffix(name, ".slice"):
		return slicePath(path.Base(name))
	case len(parts) == 1:
		return path.Clean("/" + name), nil
	case len(parts) != 3 || parts[2] == "" || strings.Contains(parts[1]+parts[2], "/"):
		return "", fmt.Errorf("cgroups path %q is neither a path nor slice:prefix:name", name)
	}
	slice, err := slicePath(parts[0])
	if err != nil {
		return "", fmt.Errorf("cgroups path %q: %w", name, err)
	}
	scope := parts[2] + ".scope"
	if parts[1] != "" {
		scope = parts[1] + "-" + scope
	}
	return path.Join(slice, scope), nil
}

// slicePath returns the path of a systemd slice: "a-b.slice" is in "a.slice" (systemd.slice(5)). ""
// is system.slice and "-.slice" is the root.
func slicePath(slice string) (string, error) {
	if slice == "" {
		slice = "system.slice"
	}
	name, ok := strings.CutSuffix(slice, ".slice")
	if !ok || name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("%q is not the name of a slice", slice)
	}
	if name == "-" {
		return "/", nil
	}
	p, above := "/", ""
	for _, part := range strings.Split(name, "-") {
		if part == "" {
			return "", fmt.Errorf("%q is not the name of a slice", slice)
		}
		above += part
		p = path.Join(p, above+".slice")
		above += "-"
	}
	return p, nil
}

// cpu returns the settings as NRI expects them, with times in microseconds. It returns nil if there
// are none. NRI has no fields for burst, idle and pod cgroups. "No quota" is -1: containerd 2.4
// drops a quota of 0 from updates, and runc 1.5 then keeps the old quota. -1 becomes -1 in
// cpu.cfs_quota_us, "max" in cpu.max and infinity for systemd. A period is only sent together with
// a quota.
func (s Settings) cpu() *api.LinuxCPU {
	if s.CPUs.IsEmpty() && s.Quota == 0 {
		return nil
	}
	cpu := &api.LinuxCPU{}
	if !s.CPUs.IsEmpty() {
		cpu.Cpus = s.CPUs.String()
	}
	if s.Quota == 0 {
		return cpu
	}
	quota := s.Quota.Microseconds()
	if s.Quota < 0 {
		quota = -1
	}
	cpu.Quota = api.Int64(quota)
	if s.Period > 0 {
		cpu.Period = api.UInt64(uint64(s.Period / time.Microsecond))
	}
	return cpu
}

func adjustment(cpu *api.LinuxCPU) *api.ContainerAdjustment {
	if cpu == nil {
		return nil
	}
	return &api.ContainerAdjustment{Linux: &api.LinuxContainerAdjustment{Resources: &api.LinuxResources{Cpu: cpu}}}
}

func update(id string, cpu *api.LinuxCPU) *api.ContainerUpdate {
	return &api.ContainerUpdate{
		ContainerId: id,
		Linux:       &api.LinuxContainerUpdate{Resources: &api.LinuxResources{Cpu: cpu}},
	}
}
