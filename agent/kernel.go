package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/nri"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/sysfs"
)

// kernel is what the agent reads and writes of the machine.
type kernel struct {
	root   string
	groups *cgroup.FS
	naming kubepods.Naming
	// online is the text by which a change of the CPUs is noticed.
	online string
}

func openKernel(root string) (*kernel, error) {
	groups, err := cgroup.Open(root)
	if err != nil {
		return nil, err
	}
	groups.KeepOpen() // every round reads the same files
	return &kernel{root: root, groups: groups}, nil
}

// machine reads the machine when its CPUs or NUMA nodes have changed since the last
// time, and returns nil when they have not.
func (k *kernel) machine() (*topology.Machine, error) {
	sys := os.DirFS(filepath.Join(k.root, "sys"))
	online, err := onlineText(sys)
	if err != nil || online == k.online {
		return nil, err
	}
	var m *topology.Machine
	for range 3 { // CPUs that go on or off meanwhile look like a contradiction
		if m, err = sysfs.Read(sys); !errors.Is(err, topology.ErrInconsistent) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the machine: %w", err)
	}
	k.online = online
	return m, nil
}

func onlineText(sys fs.FS) (string, error) {
	cpus, err := fs.ReadFile(sys, "devices/system/cpu/online")
	if err != nil {
		return "", fmt.Errorf("read the CPUs that are online: %w", err)
	}
	nodes, err := fs.ReadFile(sys, "devices/system/node/online")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the NUMA nodes that are online: %w", err)
	}
	return string(cpus) + string(nodes), nil
}

// findNaming finds out how groups are named, unless they are still named as before.
func (k *kernel) findNaming(cgroupRoot string) error {
	if k.naming.Driver != 0 && k.naming.Root == cgroupRoot && k.groups.Exists(k.naming.Tier(nodeplan.Burstable)) {
		return nil
	}
	naming, err := kubepods.Find(k.groups, cgroupRoot)
	if err != nil {
		return fmt.Errorf("find the groups of pods: %w", err)
	}
	k.naming = naming
	return nil
}

// view reads all groups of pods; of containers that are not known only their CPUs.
// Groups that vanish meanwhile are left out, and so are those that cannot be read, of
// which partial tells.
func view(groups *cgroup.FS, naming kubepods.Naming, known func(id string) bool) (v control.View, partial, err error) {
	v = control.View{Layout: groups.Layout(), Settings: map[string]cgroup.Settings{}}
	if v.Pods, err = naming.Pods(groups); err != nil {
		return v, nil, fmt.Errorf("list the groups of pods: %w", err)
	}
	var errs []error
	read := func(path string, parts cgroup.Parts) {
		s, err := groups.ReadParts(path, parts)
		switch {
		case err == nil:
			v.Settings[path] = s
		case errors.Is(err, cgroup.ErrNotEnabled) && !isContainer(naming, path): // it goes with its pod's group
		case !errors.Is(err, cgroup.ErrGone):
			errs = append(errs, err)
		}
	}
	for _, t := range nodeplan.Tiers() {
		v.Tiers = append(v.Tiers, naming.Tier(t))
		read(naming.Tier(t), cgroup.Parts{CPUs: true})
	}
	for _, p := range v.Pods {
		read(p.Path, cgroup.Parts{CPUs: true, Bandwidth: true, Idle: true})
		for _, c := range p.Containers {
			read(c.Path, cgroup.Parts{CPUs: true, Bandwidth: known(c.ID)})
		}
		for _, other := range p.Others {
			read(other, cgroup.Parts{CPUs: true})
		}
	}
	return v, errors.Join(errs...), nil
}

func isContainer(n kubepods.Naming, path string) bool {
	_, ok := n.Parse(path)
	return ok
}

// place returns the path of a cgroup as named by the runtime, and the pod or container that it is of.
func (k *kernel) place(told string) (group string, where kubepods.Place, ok bool) {
	group, err := nri.CgroupPath(told)
	if err != nil {
		return "", kubepods.Place{}, false
	}
	where, ok = k.naming.Parse(group)
	return group, where, ok && where.PodUID != ""
}
