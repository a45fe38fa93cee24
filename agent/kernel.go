package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/nri"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/sysfs"
)

// kernel is the kernel's interface on this machine. naming and online are used under engine.mu.
type kernel struct {
	root   string
	groups *cgroup.FS
	naming kubepods.Naming // zero until findNaming succeeds
	online string          // what the machine was read with: online CPUs and NUMA nodes
	units  *units          // has its own lock
}

func openKernel(root string) (*kernel, error) {
	groups, err := cgroup.Open(root)
	if err != nil {
		return nil, err
	}
	groups.KeepOpen() // every round reads the same files
	return &kernel{root: root, groups: groups, units: newUnits(root, groups)}, nil
}

// machine returns the machine's topology and notes about damage, or nil if its CPUs and NUMA nodes
// have not changed since the last call.
func (k *kernel) machine() (m *topology.Machine, notes []string, err error) {
	sys := os.DirFS(filepath.Join(k.root, "sys"))
	running := k.running()
	online := onlineText(sys, running)
	if online == k.online {
		return nil, nil, nil
	}
	for range 3 { // CPUs that go online or offline meanwhile look like damage
		if m, notes, err = sysfs.Examine(sys, running); err == nil && len(notes) == 0 {
			break
		}
		running = k.running()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the machine: %w", err)
	}
	k.online = online
	return m, notes, nil
}

// onlineText returns a text that changes with the CPUs and NUMA nodes that are online.
func onlineText(sys fs.FS, running cpuset.Set) string {
	cpus, errCPUs := fs.ReadFile(sys, "devices/system/cpu/online")
	nodes, errNodes := fs.ReadFile(sys, "devices/system/node/online")
	listed, _ := cpuset.Parse(strings.TrimSpace(string(cpus))) // empty if it is damaged
	return fmt.Sprint(string(cpus), errCPUs, string(nodes), errNodes, running.Difference(listed))
}

// running returns the CPUs on which the kernel runs processes. They are online even if a virtual
// /sys (lxcfs) does not list them. The set is empty if it cannot be read.
func (k *kernel) running() cpuset.Set {
	cpus, _ := k.groups.Effective("/")
	return cpus
}

// findNaming determines the naming of the pods' cgroups, unless the last one is still valid.
func (k *kernel) findNaming(cgroupRoot string) error {
	if k.naming.Driver != 0 && k.naming.Root == cgroupRoot && k.groups.Exists(k.naming.Tier(qos.Burstable)) {
		return nil
	}
	naming, err := kubepods.Find(k.groups, cgroupRoot)
	if err != nil {
		return fmt.Errorf("find the groups of pods: %w", err)
	}
	k.naming = naming
	return nil
}

// view reads the cgroups of all pods; of containers whose ids are not in known, only the CPUs and
// the partition. Partitions are read if partitions is set or the group of all pods has exclusive
// CPUs, without which there can be none in it. Cgroups that disappear meanwhile or cannot be read
// are left out. partial is the error of the latter.
func view(groups *cgroup.FS, naming kubepods.Naming, known map[string]bool, partitions bool) (v groups.View, partial, err error) {
	v.Layout, v.Settings, v.Inner = groups.Layout(), map[string]cgroup.Settings{}, map[string]string{}
	if v.Pods, err = naming.Pods(groups); err != nil {
		return v, nil, fmt.Errorf("list the groups of pods: %w", err)
	}
	var errs []error
	read := func(path string, parts cgroup.Parts, ignore error) {
		s, err := groups.ReadParts(path, parts)
		if err == nil {
			v.Settings[path] = s
		} else if !errors.Is(err, cgroup.ErrGone) && !errors.Is(err, ignore) {
			errs = append(errs, err)
		}
	}
	effective := v.Layout.CPUSet == cgroup.V2 // on version 1 they are the same
	for _, t := range qos.Tiers() {
		v.Tiers = append(v.Tiers, naming.Tier(t))
		batch := t == qos.BestEffort
		read(naming.Tier(t), cgroup.Parts{CPUs: true, Effective: effective, Bandwidth: true, Idle: batch, BVT: batch, Partition: true}, nil)
	}
	if root, err := groups.ReadParts("/", cgroup.Parts{Bandwidth: true}); err == nil { // else it is the machine's
		v.Root = root
	}
	if err := groups.CheckBurst(); err != nil {
		v.BurstOff = err.Error()
	}
	bvt := !v.Settings[naming.Tier(qos.BestEffort)].NoBVT
	all := naming.Tier(qos.Guaranteed)
	for _, above := range naming.Above() {
		if above != all {
			v.Above = append(v.Above, above)
			read(above, cgroup.Parts{CPUs: true, Effective: effective, Bandwidth: true, Partition: true}, nil)
		}
	}
	partitions = partitions || !v.Settings[all].Exclusive.IsEmpty()
	for _, p := range v.Pods {
		var ignore error
		if len(p.Containers) == 0 {
			ignore = cgroup.ErrNotEnabled // systemd enables the controllers of a new slice a moment later
		}
		read(p.Path, cgroup.Parts{CPUs: true, Bandwidth: true, Idle: true, BVT: bvt, Partition: partitions}, ignore)
		for _, c := range p.Containers {
			if known[c.ID] {
				if inner := innerGroup(groups, c.Path); inner != "" {
					v.Inner[c.Path] = inner
					read(inner, cgroup.Parts{Bandwidth: true}, cgroup.ErrNotEnabled)
				}
			}
			read(c.Path, cgroup.Parts{CPUs: true, Effective: effective && known[c.ID], Bandwidth: known[c.ID], BVT: bvt && known[c.ID], Partition: partitions}, nil)
		}
		for _, other := range p.Others {
			read(other, cgroup.Parts{CPUs: true, Partition: partitions}, cgroup.ErrNotEnabled) // without a cpuset it is limited by its pod's
		}
	}
	return v, errors.Join(errs...), nil
}

// innerGroup returns the only group in a container's, if that has no processes of its own.
func innerGroup(groups *cgroup.FS, container string) string {
	children, err := groups.Children(cgroup.CPU, container)
	if err != nil || len(children) != 1 {
		return ""
	}
	if own, err := cgrouptree.ProcessesIn(groups.Dir(cgroup.CPU, container)); err != nil || len(own) > 0 {
		return ""
	}
	return children[0]
}

// locate parses a cgroup path as the OCI runtime gets it. It reports whether it is the path of a
// pod or container.
func (k *kernel) locate(cgroupsPath string) (group string, where kubepods.Place, ok bool) {
	group, err := nri.CgroupPath(cgroupsPath)
	if err != nil {
		return "", kubepods.Place{}, false
	}
	where, ok = k.naming.Parse(group)
	return group, where, ok && where.PodUID != ""
}

// bandwidth reads the bandwidth of cgroups.
func (k *kernel) bandwidth(groups []string) map[string]cgroup.Settings {
	present := make(map[string]cgroup.Settings, len(groups))
	for _, group := range groups {
		s, err := k.groups.ReadParts(group, cgroup.Parts{Bandwidth: true})
		if err == nil { // else it has ended, or the next round reports the error
			present[group] = s
		}
	}
	return present
}

// ownShares is the weight that the agent gives its own pod, which has no other container: that of a
// request of a quarter of a CPU. With the weight of a small request, 5 ms of work take seconds
// beside busy neighbours, and the container runtime does not wait that long for an answer. More
// weight would cost more: since Kubernetes 1.36 kubelets report it as the pod's request
// (status.resources), and schedulers count that.
const ownShares = 256

// minTierShares is the weight below which the QoS tier of the agent's pod is too weak: that of the
// request in deploy/manifests. Only the kubelet may set it, which it does each minute and whenever
// a pod is added.
const minTierShares = 100

// keepWeight keeps the agent's own weight until the context ends, while settings of the agent are in
// force. They are from the moment that a pod is known which needs them, and its containers are
// created later. Other programs overwrite the weight, such as the kubelet at a resize.
func keepWeight(ctx context.Context, e *engine) {
	own, err := cgrouptree.Own(e.kernel.groups, cgroup.CPU)
	if err != nil {
		e.reports.dedup.WarnOrClear("weight", "the agent keeps the CPU weight of its request", err)
		return
	}
	var raised bool
	var next time.Time
	wait.NonSlidingUntilWithContext(ctx, func(context.Context) {
		e.with(func(c *control.Control) {
			if e.kernel.naming.Driver == 0 || !e.force.now && !raised || e.force.now && raised && e.Now().Before(next) {
				return
			}
			defer e.kernel.units.pause()()
			if e.kernel.units.unanswered(func(group string) bool { return strings.HasPrefix(own, group) }) != nil {
				return
			}
			err := e.kernel.setWeight(own, e.force.now, c)
			raised, next = e.force.now, e.Now().Add(e.Period)
			e.reports.dedup.WarnOrClear("weight", "the agent may answer the container runtime too late on a busy machine", err)
		})
	}, tickEvery)
}

// setWeight raises the weight of the pod that a cgroup is part of to that of the agent, or gives it
// the kubelet's again. It does nothing for a cgroup that is not part of a pod.
func (k *kernel) setWeight(own string, raise bool, c *control.Control) error {
	where, ok := k.naming.Parse(own)
	for ; !ok && own != "/"; where, ok = k.naming.Parse(own) {
		own = path.Dir(own)
	}
	if !ok || where.Container == "" {
		return nil
	}
	pod := path.Dir(own)
	if raise {
		return k.raiseWeight(pod, k.naming.Tier(where.Tier))
	}
	known, version := c.Pods.Get(ledger.PodID(where.PodUID)), k.groups.Layout().CPU
	s, err := k.groups.ReadParts(pod, cgroup.Parts{Weight: true})
	if err != nil || known == nil || s.Weight != kubepods.PodWeight(version, ownShares) {
		return err
	}
	return k.Apply(map[string]cgroup.Wanted{pod: {Weight: new(kubepods.PodWeight(version, known.Shares()))}}).Err()
}

// raiseWeight raises the weight of a pod to that of the agent. The error includes too low a weight
// of its tier.
func (k *kernel) raiseWeight(pod, tier string) error {
	version := k.groups.Layout().CPU
	least := kubepods.PodWeight(version, ownShares)
	s, err := k.groups.ReadParts(pod, cgroup.Parts{Weight: true, Idle: true})
	if err == nil && s.Weight < least && !s.Idle {
		err = k.Apply(map[string]cgroup.Wanted{pod: {Weight: &least}}).Err()
	}
	if err != nil {
		return err
	}
	s, err = k.groups.ReadParts(tier, cgroup.Parts{Weight: true})
	if err == nil && s.Weight < kubepods.PodWeight(version, minTierShares) {
		err = fmt.Errorf("%s has a weight of %d for all its pods: give the agent a CPU request of 100m", tier, s.Weight)
	}
	return err
}
