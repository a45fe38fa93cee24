package kubepods

import (
	"fmt"
	"path"
	"strings"

	"pinfold.dev/pinfold/core/qos"
)

// Driver is the kubelet's cgroup driver. It determines how the kubelet and the runtime name groups.
type Driver int

// The two drivers.
const (
	Cgroupfs Driver = iota + 1 // kubepods/burstable/podUID/ID
	Systemd                    // kubepods.slice/kubepods-burstable.slice/...
)

func (d Driver) String() string {
	switch d {
	case Cgroupfs:
		return "cgroupfs"
	case Systemd:
		return "systemd"
	}
	return "unknown"
}

// ParseDriver is the inverse of Driver.String.
func ParseDriver(text string) (Driver, error) {
	for _, d := range Drivers() {
		if text == d.String() {
			return d, nil
		}
	}
	return 0, fmt.Errorf("cgroup driver %q: want cgroupfs or systemd", text)
}

// Drivers returns the two drivers.
func Drivers() []Driver { return []Driver{Cgroupfs, Systemd} }

// Naming builds and parses the paths of the kubelet's groups
// (pkg/kubelet/cm/cgroup_manager_linux.go of Kubernetes 1.37). It is unknown if Driver is 0.
type Naming struct {
	Driver Driver
	// Root is the kubelet's --cgroup-root in its own form, names divided by "/"; "" or "/" for the
	// hierarchy's root.
	Root string
}

const (
	kubepods  = "kubepods"
	podPrefix = "pod"
	slice     = ".slice"
	scope     = ".scope"
)

// path joins the names of nested groups as the driver does. The name of a systemd slice repeats the
// names of those above it, with "_" for "-".
func (n Naming) path(names ...string) string {
	above := strings.FieldsFunc(n.Root, func(r rune) bool { return r == '/' })
	names = append(above, names...)
	if n.Driver != Systemd {
		return "/" + path.Join(names...)
	}
	p, name := "/", ""
	for _, part := range names {
		if name != "" {
			name += "-"
		}
		name += strings.ReplaceAll(part, "-", "_")
		p = path.Join(p, name+slice)
	}
	return p
}

// IsTop reports whether a group with a name contains all pods of a kubelet, whatever its
// --cgroup-root: kubepods, kubepods.slice, or kubelet-kubepods.slice.
func IsTop(name string) bool {
	return strings.HasPrefix(name, kubepods) || strings.HasSuffix(name, "-"+kubepods+slice)
}

// deepestFirst returns all tiers. A tier whose group is in that of another one precedes it.
func deepestFirst() []qos.Tier {
	return []qos.Tier{qos.Burstable, qos.BestEffort, qos.Guaranteed}
}

// Tier returns the path of the group that holds the pods of a tier.
func (n Naming) Tier(t qos.Tier) string { return n.path(tierNames(t)...) }

func tierNames(t qos.Tier) []string {
	if t == qos.Guaranteed {
		return []string{kubepods}
	}
	return []string{kubepods, strings.ToLower(string(t))}
}

// Pod returns the path of a pod's group. The UID is the kubelet's, which for static pods is the
// annotation kubernetes.io/config.hash.
func (n Naming) Pod(t qos.Tier, uid string) string {
	return n.path(append(tierNames(t), podPrefix+uid)...)
}

// Container returns the path of a container's group. The runtime is the prefix of the group's name
// ("cri-containerd", "crio"), or "" if there is none, as with containerd and the cgroupfs driver.
func (n Naming) Container(t qos.Tier, uid, runtime, id string) string {
	name := id
	if runtime != "" {
		name = runtime + "-" + id
	}
	if n.Driver == Systemd {
		name += scope
	}
	return path.Join(n.Pod(t, uid), name)
}

// StatusContainer returns the path of the group of a container with the ID of a pod's status,
// RUNTIME://ID, or "" for a container that has not started. It knows containerd and CRI-O.
func (n Naming) StatusContainer(t qos.Tier, uid, containerID string) string {
	runtime, id, ok := strings.Cut(containerID, "://")
	if !ok {
		return ""
	}
	switch {
	case runtime == "cri-o":
		runtime = "crio"
	case n.Driver == Systemd:
		runtime = "cri-" + runtime
	default:
		runtime = ""
	}
	return n.Container(t, uid, runtime, id)
}

// Place is the tier, pod or container that a group belongs to.
type Place struct {
	Tier      qos.Tier
	PodUID    string // "" for a tier
	Runtime   string // prefix of the container's group, may be ""
	Container string // id of the container; "" for a tier or pod
}

// Parse parses the path of a tier, pod or container. It is the inverse of Tier, Pod and Container.
// It returns false for all other paths, including groups within containers.
func (n Naming) Parse(p string) (Place, bool) {
	p = path.Clean("/" + p)
	for _, t := range deepestFirst() {
		group := n.Tier(t)
		if p == group {
			return Place{Tier: t}, true
		}
		rest, ok := strings.CutPrefix(p, group+"/")
		if !ok {
			continue
		}
		pod, container, nested := strings.Cut(rest, "/")
		place := Place{Tier: t}
		if place.PodUID, ok = n.parsePod(t, pod); !ok {
			return Place{}, false
		}
		if nested {
			place.Runtime, place.Container, ok = n.parseContainer(container)
		}
		return place, ok
	}
	return Place{}, false
}

// parsePod parses the name of a pod's group within its tier.
func (n Naming) parsePod(t qos.Tier, name string) (uid string, ok bool) {
	if n.Driver != Systemd {
		uid, ok = strings.CutPrefix(name, podPrefix)
		return uid, ok && uid != ""
	}
	prefix := strings.TrimSuffix(path.Base(n.Tier(t)), slice) + "-" + podPrefix
	uid, ok = strings.CutPrefix(name, prefix)
	if !ok || !strings.HasSuffix(uid, slice) {
		return "", false
	}
	uid = strings.TrimSuffix(uid, slice)
	return strings.ReplaceAll(uid, "_", "-"), uid != "" && !strings.Contains(uid, "-")
}

// parseContainer parses the name of a container's group: an id of 64 hexadecimal digits after an
// optional prefix. CRI-O's monitor ("crio-conmon-ID") is not a container.
func (n Naming) parseContainer(name string) (runtime, id string, ok bool) {
	if n.Driver == Systemd {
		if name, ok = strings.CutSuffix(name, scope); !ok {
			return "", "", false
		}
	}
	if dash := strings.LastIndex(name, "-"); dash >= 0 {
		runtime, name = name[:dash], name[dash+1:]
		if runtime == "" || strings.HasSuffix(runtime, "conmon") {
			return "", "", false
		}
	}
	return runtime, name, len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}
