// Package kubepods knows how the kubelet and container runtimes name the cgroups of pods. It finds
// the groups of pods and containers on a node and builds and parses their paths.
//
//	naming, err := kubepods.Find(fs, "")           // which cgroup driver does the kubelet use?
//	pods, err := naming.Pods(fs)                   // the pods and containers that have groups
//	group := naming.Pod(qos.Burstable, uid)   // the path of a pod's group
//	place, ok := naming.Parse(group)               // tier, pod and container of a path
//
// Paths are those of package cgroup. With the driver cgroupfs they look like
// /kubepods/burstable/podUID/ID. With systemd each name is a slice or scope that repeats the names
// above it, and "-" in a UID becomes "_":
//
//	/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/cri-containerd-ID.scope
//
// The group of a guaranteed pod is directly in that of all pods. Groups of containers may have a
// prefix that names the runtime, such as "cri-containerd" and "crio".
//
// The weight that the kubelet derives from a CPU request is here, too: see [PodWeight].
package kubepods
