package nri

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/containerd/nri/pkg/api"

	"pinfold.dev/pinfold/core/ledger"
)

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

// Group returns the path of the container's group below the root of a hierarchy. CgroupsPath is
// that path itself with the cgroupfs driver, and "slice:prefix:name" with systemd, for the scope
// prefix-name.scope in that slice (runc 1.5, docs/systemd.md).
func (c Container) Group() (string, error) {
	if c.CgroupsPath == "" {
		return "", fmt.Errorf("container %s: the runtime gave no cgroups path", c.ID)
	}
	parts := strings.Split(c.CgroupsPath, ":")
	if len(parts) == 1 {
		return path.Clean("/" + c.CgroupsPath), nil
	}
	if len(parts) != 3 || parts[2] == "" || strings.Contains(parts[1]+parts[2], "/") {
		return "", fmt.Errorf("container %s: cgroups path %q is neither a path nor slice:prefix:name", c.ID, c.CgroupsPath)
	}
	slice, err := slicePath(parts[0])
	if err != nil {
		return "", fmt.Errorf("container %s: cgroups path %q: %w", c.ID, c.CgroupsPath, err)
	}
	name := parts[2] + ".scope"
	if parts[1] != "" {
		name = parts[1] + "-" + name
	}
	return path.Join(slice, name), nil
}

// slicePath returns the path of a systemd slice: "a-b.slice" is in "a.slice". "" is system.slice
// and "-.slice" the root.
func slicePath(slice string) (string, error) {
	if slice == "" {
		slice = "system.slice"
	}
	name, ok := strings.CutSuffix(slice, ".slice")
	if !ok || name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("%q is no name of a slice", slice)
	}
	if name == "-" {
		return "/", nil
	}
	p, above := "/", ""
	for _, part := range strings.Split(name, "-") {
		if part == "" {
			return "", fmt.Errorf("%q is no name of a slice", slice)
		}
		above += part
		p = path.Join(p, above+".slice")
		above += "-"
	}
	return p, nil
}

// cpu returns the settings in the runtime's form, nil when there are none. Times are in
// microseconds.
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
