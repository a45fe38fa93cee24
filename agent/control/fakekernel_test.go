package control

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/kube/nri"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// fakeKernel is a kernel with cgroups in memory, of version 1 unless v2 is set. Its writes are
// planned by package cgroup.
type fakeKernel struct {
	node   *fakeNode
	naming kubepods.Naming
	groups map[string]cgroup.Settings
	names  map[string]string // of the cgroups of containers and pods, in scenarios
	faults map[string]string
	made   int
	v2     bool
	// noBurst is set if the kernel does not support burst, burstOff if it is switched off.
	noBurst, burstOff bool
	has               []string // mechanisms for batch pods
	// noPartition is set if the kernel does not support partitions. taken are the CPUs of a partition
	// that is not the agent's.
	noPartition bool
	taken       cpuset.Set
	// wrote is called after each write of bandwidth, and usage returns the CPU time of a cgroup.
	// Both may be nil.
	wrote func(path string, s cgroup.Settings)
	usage func(path string) time.Duration
	// affinity is what the threads of a cgroup have inherited.
	affinity map[string]cpuset.Set
	// granted are the CPUs that a cgroup has exclusively.
	granted map[string]cpuset.Set
}

func newFakeKernel(n *fakeNode) *fakeKernel {
	return &fakeKernel{node: n, naming: kubepods.Naming{Driver: kubepods.Cgroupfs}, groups: map[string]cgroup.Settings{},
		names: map[string]string{}, faults: map[string]string{}, granted: map[string]cpuset.Set{}, affinity: map[string]cpuset.Set{}}
}

func (k *fakeKernel) layout() cgroup.Layout {
	if k.v2 {
		return cgroup.Layout{CPU: cgroup.V2, CPUSet: cgroup.V2}
	}
	return cgroup.Layout{CPU: cgroup.V1, CPUSet: cgroup.V1}
}

// newGroup returns the settings of a new cgroup.
func (k *fakeKernel) newGroup(group string) cgroup.Settings {
	s := cgroup.Settings{Limits: bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond}, NoBurst: k.noBurst,
		NoIdle: !slices.Contains(k.has, "idle"), NoBVT: !slices.Contains(k.has, "bvt"), BVT: k.groups[path.Dir(group)].BVT}
	if s.NoPartition = !k.v2 || k.noPartition; !s.NoPartition {
		s.Partition.Kind = cgroup.PartitionMember
	}
	if above, ok := k.groups[path.Dir(group)]; !k.v2 && ok { // runc and the kubelet copy it
		s.CPUs = above.CPUs
	} else if !k.v2 {
		s.CPUs = k.node.machine().Online()
	}
	return s
}

func (k *fakeKernel) makeTiers() {
	for _, t := range qos.Tiers() {
		k.groups[k.naming.Tier(t)] = k.newGroup(k.naming.Tier(t))
	}
}

func (k *fakeKernel) newID(of string) string {
	k.made++
	k.node.ids[of] = fmt.Sprintf("%064x", k.made)
	return k.node.ids[of]
}

func (k *fakeKernel) podPath(name string) string {
	return k.naming.Pod(k.tierOf(name), k.node.idOf(name))
}

// tierOf returns the tier of a pod, Burstable if it is not known.
func (k *fakeKernel) tierOf(pod string) qos.Tier {
	if p := k.node.pods[pod]; p != nil {
		return qos.Tier(p.Status.QOSClass)
	}
	return qos.Burstable
}

// pathOf returns the path of POD, POD/CONTAINER or a tier.
func (k *fakeKernel) pathOf(of string) string {
	for path, name := range k.names {
		if name == of {
			return path
		}
	}
	return "/" + of
}

func (k *fakeKernel) name(path string) string {
	if name := k.names[path]; name != "" {
		return name
	}
	return strings.TrimPrefix(path, "/")
}

// named replaces the paths of cgroups in a text by their names.
func (k *fakeKernel) named(text string) string {
	paths := slices.Sorted(maps.Keys(k.names))
	slices.Reverse(paths) // children first
	for _, path := range paths {
		text = strings.ReplaceAll(text, path, k.names[path])
	}
	return text
}

// makePod makes a pod's cgroup as the kubelet does, unless it exists.
func (k *fakeKernel) makePod(pod string) {
	path := k.podPath(pod)
	if _, ok := k.groups[path]; ok {
		return
	}
	s := k.newGroup(path)
	if p := k.node.pods[pod]; p != nil {
		all, declared := time.Duration(0), true
		for _, c := range containersOf(p) {
			all, declared = all+kubeletsQuota(c.Limit), declared && c.Limit > 0
		}
		if declared {
			s.Quota = all
		}
	}
	k.groups[path], k.names[path] = s, pod
}

// containersOf returns the containers of a pod with the limits in force.
func containersOf(p *corev1.Pod) []nodeplan.Container {
	all := pods.New(pods.Config{})
	all.SetPods([]*corev1.Pod{p}, nil)
	return all.All[0].Plan.Containers
}

func kubeletsQuota(limit ledger.MilliCPU) time.Duration {
	return time.Duration(limit) * 100 * time.Microsecond
}

// create makes a container's cgroup with the given settings, as the runtime does, and that of its
// pod if it does not exist.
func (k *fakeKernel) create(of string, given nri.Settings) {
	pod, container, _ := strings.Cut(of, "/")
	if k.node.ids[of] == "" {
		k.newID(of)
	}
	path := k.naming.Container(k.tierOf(pod), k.node.idOf(pod), "", k.node.ids[of])
	k.makePod(pod)
	s := k.newGroup(path)
	if p := k.node.pods[pod]; p != nil {
		for _, c := range containersOf(p) {
			if c.Name == container && c.Limit > 0 {
				s.Quota = kubeletsQuota(c.Limit)
			}
		}
	}
	if !given.CPUs.IsEmpty() {
		s.CPUs = given.CPUs
	}
	plain := s
	if given.Quota != 0 {
		s.Quota = given.Quota
	}
	if given.Period != 0 {
		s.Period = given.Period
	}
	if err := k.rejects(path, s); err != nil && (k.node.inForce || k.rejects(path, plain) == nil) { // else another program is to blame
		k.node.broken = append(k.node.broken, fmt.Sprintf("%s cannot be created: %v", of, err))
	}
	if given.Quota == bandwidth.Unlimited {
		k.granted[path] = given.CPUs
		k.check(path, given.CPUs)
	}
	delete(k.names, k.pathOf(of)) // of the previous cgroup
	k.groups[path], k.names[path] = s, of
}

// other makes a cgroup in a pod whose name is not a container's, and containers of the pod that run
// in it.
func (k *fakeKernel) other(of string, containers []string) {
	pod, name, _ := strings.Cut(of, "/")
	k.makePod(pod)
	group := k.podPath(pod) + "/" + name
	k.groups[group], k.names[group] = k.newGroup(group), of
	for _, container := range containers {
		k.newID(pod + "/" + container)
	}
}

func (k *fakeKernel) below(path string) []string {
	var found []string
	for group := range k.groups {
		if strings.HasPrefix(group, path+"/") {
			found = append(found, group)
		}
	}
	slices.Sort(found)
	return found
}

func (k *fakeKernel) remove(path string) { delete(k.groups, path) }

func (k *fakeKernel) view() groups.View {
	v := groups.View{Layout: k.layout(), Settings: maps.Clone(k.groups), Lacking: map[colocation.Mechanism]string{}, Inner: map[string]string{}}
	if k.burstOff {
		v.BurstOff = "CPU Burst is switched off"
	}
	for _, m := range colocation.Mechanisms() {
		if !slices.Contains(k.has, string(m)) {
			v.Lacking[m] = "this kernel has no " + string(m)
		}
	}
	for group, s := range v.Settings {
		if place, _ := k.naming.Parse(group); k.v2 && (place.Container != "" || place.PodUID == "") {
			s.Effective = k.cpus(group, s)
			v.Settings[group] = s
		}
	}
	for _, t := range qos.Tiers() {
		v.Tiers = append(v.Tiers, k.naming.Tier(t))
	}
	for _, group := range slices.Sorted(maps.Keys(k.groups)) {
		place, ok := k.naming.Parse(group)
		switch {
		case path.Base(group) == "some":
			v.Inner[path.Dir(group)] = group
		case !ok && len(v.Pods) > 0 && path.Dir(group) == v.Pods[len(v.Pods)-1].Path:
			last := &v.Pods[len(v.Pods)-1]
			last.Others = append(last.Others, group)
		case !ok || place.PodUID == "":
		case place.Container == "":
			v.Pods = append(v.Pods, kubepods.Pod{Path: group, UID: place.PodUID, Tier: place.Tier})
		default:
			last := &v.Pods[len(v.Pods)-1]
			last.Containers = append(last.Containers, kubepods.Container{Path: group, ID: place.Container})
		}
	}
	return v
}

// Effective implements [Kernel].
func (k *fakeKernel) Effective(group string) (cpuset.Set, error) {
	return k.cpus(group, k.groups[group]), nil
}

// Apply does what [cgroup.FS.Apply] does.
func (k *fakeKernel) Apply(wanted map[string]cgroup.Wanted) cgroup.Outcome {
	o := cgroup.Outcome{Failed: map[string]error{}}
	var changes []cgroup.Change
	for _, path := range slices.Sorted(maps.Keys(wanted)) {
		switch k.faults[path] {
		case "vanish":
			k.remove(path)
			delete(k.faults, path)
		case "refuse":
			if wanted[path].CPUs != nil {
				o.Failed[path] = &cgroup.WriteError{Write: cgroup.Write{Path: path, File: cgroup.CPUSetCPUs, Value: wanted[path].CPUs.String()}, Err: syscall.EBUSY}
				continue
			}
		}
		present, ok := k.groups[path]
		if !ok {
			o.Failed[path] = fmt.Errorf("%s: %w", path, cgroup.ErrGone)
			continue
		}
		changes = append(changes, cgroup.Change{Path: path, Present: present, Wanted: wanted[path]})
	}
	writes, err := cgroup.Plan(k.layout(), changes)
	if err != nil {
		k.node.broken = append(k.node.broken, fmt.Sprintf("the wanted settings are contradictory: %v", err))
	}
	for _, w := range writes {
		if w.IfDiffers && (w.File != cgroup.CPUBVT || w.Value == strconv.Itoa(k.groups[w.Path].BVT)) { // this kernel keeps the burst
			continue
		}
		if err := k.write(w); err != nil {
			k.node.broken = append(k.node.broken, fmt.Sprintf("the kernel rejects %+v: %v", w, err))
			o.Failed[w.Path] = err
			continue
		}
		o.Written = append(o.Written, w)
		if p := k.groups[w.Path].Partition; w.File == cgroup.CPUSetPartition && p.Invalid != "" {
			o.Failed[w.Path] = &cgroup.PartitionError{Path: w.Path, Wanted: cgroup.Partition(w.Value), Found: p}
		}
	}
	for _, c := range changes {
		if c.Wanted.CPUs == nil {
			continue
		}
		delete(k.granted, c.Path)
		if !k.node.control.cpus.Exclusive()[c.Path].IsEmpty() {
			k.granted[c.Path] = k.groups[c.Path].CPUs
		}
		k.check(c.Path, k.cpus(c.Path, c.Target()).Difference(k.cpus(c.Path, c.Present)))
		now := k.groups[c.Path]
		effective, want := k.cpus(c.Path, now), *c.Wanted.CPUs
		if k.v2 && !want.IsEmpty() && o.Failed[c.Path] == nil && effective != want && effective != want.Difference(now.Exclusive) {
			o.Failed[c.Path] = &cgroup.EffectiveError{Path: c.Path, Wanted: want, Effective: effective}
		}
	}
	return o
}

// checkAll checks all cgroups after a round in which nothing failed: all CPUs of an exclusive
// cgroup are exclusive to its pod.
func (k *fakeKernel) checkAll() {
	if len(k.node.control.failures) > 0 || k.node.control.hold() != "" {
		return
	}
	for path, own := range k.node.control.cpus.Exclusive() {
		if s, ok := k.groups[path]; ok && !own.IsEmpty() {
			k.granted[path] = s.CPUs
		}
	}
	if k.node.control.stakes.cpusets.held {
		k.checkPartitions()
	}
	for path, s := range k.groups {
		k.check(path, k.cpus(path, s))
	}
}

// check checks that none of the given CPUs of a cgroup is exclusive to another pod, or will be
// exclusive to this one while another pod has it.
func (k *fakeKernel) check(path string, cpus cpuset.Set) {
	place, _ := k.naming.Parse(path)
	for other, s := range k.groups {
		at, ok := k.naming.Parse(other)
		if !ok || at.Container == "" || at.PodUID == place.PodUID || place.Container == "" {
			continue
		}
		both := k.cpus(other, s).Intersection(cpus)
		mine, theirs := !k.node.control.cpus.Exclusive()[path].IsEmpty(), !k.node.control.cpus.Exclusive()[other].IsEmpty()
		if !mine {
			both = both.Intersection(k.granted[other])
		}
		if !both.IsEmpty() && (mine || theirs) {
			k.node.broken = append(k.node.broken, fmt.Sprintf("%s and %s both have CPUs %s, which are exclusive to one of them",
				k.name(path), k.name(other), both))
		}
	}
}

func (k *fakeKernel) print() string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(k.groups)) {
		s := k.groups[path]
		cpus := s.CPUs.String()
		if k.v2 && s.CPUs.IsEmpty() {
			cpus = "inherit"
		}
		fmt.Fprintf(&b, "%-12s CPUs %-8s quota %s", k.name(path), cpus, quotaText(s.Quota))
		if s.Period != 100*time.Millisecond {
			fmt.Fprintf(&b, " in %v", s.Period)
		}
		if s.Burst != 0 {
			fmt.Fprintf(&b, ", burst %v", s.Burst)
		}
		if s.BVT != 0 {
			fmt.Fprintf(&b, ", bvt %d", s.BVT)
		}
		if s.Partition.Is() {
			fmt.Fprintf(&b, ", partition %s", strings.TrimSpace(string(s.Partition.Kind)+" "+s.Partition.Invalid))
		}
		if !s.Exclusive.IsEmpty() {
			fmt.Fprintf(&b, ", exclusive %s", s.Exclusive)
		}
		b.WriteString("\n")
	}
	return b.String()
}
