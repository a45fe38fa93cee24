//go:build linux

package groups

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/report/why"
)

// Names are the names of containers, from the links to their logs that every kubelet makes
// (legacyLogSymlink of pkg/kubelet/kuberuntime). Learn, Of and Known may be called concurrently.
type Names struct {
	dir string

	mu     sync.Mutex // protects the following
	naming kubepods.Naming
	byID   map[string]string
	// cut has the names by pod and the beginning of the ID: the kubelet cuts names of links after 255
	// bytes.
	cut map[string]map[string]string
	// sandboxes are those of the pods about which it has learned.
	sandboxes map[string]bool
}

// NewNames returns names for a machine with the given root directory, before any link is read.
func NewNames(root string) *Names {
	return &Names{dir: filepath.Join(root, "var/log/containers"), sandboxes: map[string]bool{}}
}

// Learn reads the links for a machine's groups of containers. Containers without a link have no
// name. On an error none has one.
func (n *Names) Learn(naming kubepods.Naming, containers []string) error {
	byID, cut := map[string]string{}, map[string]map[string]string{}
	entries, err := os.ReadDir(n.dir)
	if errors.Is(err, os.ErrNotExist) {
		err = nil // there are no links
	}
	for _, e := range entries {
		if len(e.Name()) == maxLink {
			n.readCut(e.Name(), cut)
		} else if id, name, ok := parseLogLink(e.Name()); ok {
			byID[id] = name
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.naming, n.byID, n.cut = naming, byID, cut
	n.sandboxes = n.sandboxesAmong(containers)
	return err
}

// sandboxesAmong returns the sandboxes among all containers of some pods. mu must be locked.
func (n *Names) sandboxesAmong(containers []string) map[string]bool {
	names := map[string]string{}
	for _, group := range containers {
		names[group] = n.nameOf(group)
	}
	return Sandboxes(names)
}

// nameOf returns NAMESPACE/POD/CONTAINER, or "" without a link. mu must be locked.
func (n *Names) nameOf(group string) string {
	place, _ := n.naming.Parse(group)
	if name, ok := n.byID[place.Container]; ok {
		return name
	}
	for begin, name := range n.cut[place.PodUID] {
		if strings.HasPrefix(place.Container, begin) {
			return name
		}
	}
	return ""
}

// learnSandboxes learns which containers of the pods of groups are sandboxes.
func (n *Names) learnSandboxes(fs *cgroup.FS, groups []string) error {
	read := map[string]bool{} // pods
	for _, group := range groups {
		pod := path.Dir(group)
		if read[pod] || containerID(group) == "" {
			continue
		}
		read[pod] = true
		containers, err := fs.Children(cgroup.CPU, pod)
		if err != nil {
			return err
		}
		n.mu.Lock()
		maps.Copy(n.sandboxes, n.sandboxesAmong(containers))
		n.mu.Unlock()
	}
	return nil
}

// Of returns the name of a container's group: NAMESPACE/POD/CONTAINER, or the first characters of
// the pod's UID and the container's ID. Other groups keep their path.
func (n *Names) Of(group string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	place, ok := n.naming.Parse(group)
	if !ok || place.Container == "" {
		return group
	}
	if name := n.nameOf(group); name != "" {
		return name
	}
	return prefix(place.PodUID, 8) + "/" + prefix(place.Container, idLength)
}

// IsSandbox reports whether a group is the sandbox of a pod.
func (n *Names) IsSandbox(group string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sandboxes[group]
}

// Kind returns what made a group, or one above it.
func (n *Names) Kind(group string) why.Kind {
	n.mu.Lock()
	defer n.mu.Unlock()
	if group = path.Clean("/" + group); group == "/" {
		return why.NoGroup
	}
	for ; group != "/"; group = path.Dir(group) {
		if confine.IsRun(group) {
			return why.Run
		}
		if place, ok := n.naming.Parse(group); ok && place.PodUID != "" {
			return why.Pod
		}
	}
	return why.AnyGroup
}

// Yields reports whether a group that is made batch work leaves its CPUs to another one. The agent sees
// to that among pods. Elsewhere the kernel compares the groups that are in one group.
func (n *Names) Yields(group, to string) bool {
	kind := n.Kind(group)
	if kind == why.Pod {
		return n.Kind(to) == why.Pod
	}
	group = path.Clean("/" + group)
	for kind == why.Run && !confine.IsRun(group) {
		group = path.Dir(group)
	}
	parent := path.Dir(group)
	return parent == "/" || strings.HasPrefix(path.Clean("/"+to), parent+"/")
}

// Known returns NAMESPACE/POD/CONTAINER, or "" without a link.
func (n *Names) Known(group string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nameOf(group)
}

// Target is a group to sample.
type Target struct {
	Group string // path in the hierarchy
	Name  string // NAMESPACE/POD/CONTAINER, "" if unknown
}

// Options is how flags name containers of a machine.
type Options struct {
	Pods             []string
	Root, CgroupRoot string
	// Sandboxes includes the sandboxes of pods.
	Sandboxes bool
	// Remote is set by "kubectl pinfold", which runs the command in the agent's container.
	Remote bool

	pid      int // 0: not given
	measured process
}

// AddFlags adds the flags. verb says what the command does with the containers.
func (s *Options) AddFlags(cmd *cobra.Command, verb string) {
	f := cmd.Flags()
	f.StringArrayVar(&s.Pods, "pod", nil, verb+" the containers of the pod `NAMESPACE/NAME` of this node, or NAMESPACE/NAME/UID; may be repeated")
	frame.CompleteFlag(cmd, "pod", func(context.Context) []string { return podNames(s.Root) })
	frame.Var(f, &s.pid, "pid", "PID", verb+" the control group of the process PID, with all that is in it", frame.ParseCount)
	f.StringVar(&s.Root, "host-root", "/", "the machine's root directory is mounted at `DIR`")
	f.StringVar(&s.CgroupRoot, "cgroup-root", "", "the kubelet's --cgroup-root, a `PATH`, for names and --pod")
	f.BoolVar(&s.Sandboxes, "all", false, "also "+verb+" the sandboxes of pods (pause) that a pattern or --pod selects")
	const remote = "remote"
	f.BoolVar(&s.Remote, remote, false, "end when standard input does, as with ctrl-C, and use little memory")
	_ = f.MarkHidden(remote)
	awaitInput(cmd)
}

// Context returns the context of a command. A command that "kubectl pinfold" runs on a node gets no
// signals: it ends when its input does, which is also so when the connection breaks, or when a log
// follows there.
func (s *Options) Context(ctx context.Context, stdin *bufio.Reader) context.Context {
	if !s.Remote {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = stdin.Peek(1)
	}()
	return ctx
}

// Given reports whether arguments or flags name groups.
func (s *Options) Given(args []string) bool { return len(args)+len(s.Pods)+s.pid > 0 }

// Targets returns the groups that arguments (as [Find] resolves them), pods (as [Names.OfPod]) and
// the process name, each once, and the names of the machine's containers. Sandboxes are left out unless they
// are wanted, or named by their path.
func (s *Options) Targets(fs *cgroup.FS, args []string, stderr io.Writer) ([]Target, *Names, error) {
	names := NewNames(s.Root)
	naming, err := kubepods.Locate(fs, s.CgroupRoot)
	if err != nil && len(s.Pods) > 0 {
		return nil, nil, fmt.Errorf("--pod %s: %w; name its control groups instead", s.Pods[0], err)
	}
	if err == nil { // otherwise there is no kubelet, and groups have no names
		if err := names.Learn(naming, nil); err != nil {
			frame.Notef(stderr, "containers have no names: %v", err)
		}
	}
	var all []Target
	for _, arg := range args {
		found, err := Find(fs, s.Root, arg, stderr)
		if err != nil {
			return nil, nil, err
		}
		pattern := isPattern(fs, s.Root, arg)
		if pattern {
			if err := names.learnSandboxes(fs, found); err != nil {
				return nil, nil, err
			}
		}
		for _, group := range found {
			if s.Sandboxes || !pattern || !names.IsSandbox(group) {
				all = append(all, Target{Group: group, Name: names.Known(group)})
			}
		}
	}
	group, err := s.OfPID(fs)
	if err != nil {
		return nil, nil, err
	}
	if group != "" {
		all = append(all, Target{Group: group, Name: names.Known(group)})
	}
	pods, err := s.OfPods(fs, names)
	if err != nil {
		return nil, nil, err
	}
	if all = append(all, pods...); len(all) == 0 {
		return nil, nil, fmt.Errorf("%s: only sandboxes of pods match: include them with --all", strings.Join(slices.Concat(args, s.Pods), ", "))
	}
	var once []Target
	for _, t := range all {
		if !slices.ContainsFunc(once, func(o Target) bool { return o.Group == t.Group }) {
			once = append(once, t)
		}
	}
	return once, names, nil
}

// OfPods returns the containers of the pods, without sandboxes unless these are wanted.
func (s *Options) OfPods(fs *cgroup.FS, names *Names) (all []Target, err error) {
	for _, pod := range s.Pods {
		found, err := names.OfPod(fs, s.Root, pod)
		if err != nil {
			return nil, err
		}
		var paths []string
		for _, t := range found {
			paths = append(paths, t.Group)
		}
		if err := names.learnSandboxes(fs, paths); err != nil {
			return nil, err
		}
		for _, t := range found {
			if s.Sandboxes || !names.IsSandbox(t.Group) {
				all = append(all, t)
			}
		}
	}
	return all, nil
}

// OfPod returns the containers of a pod of this node, NAMESPACE/NAME or NAMESPACE/NAME/UID. Learn
// must have been called. A container without a name, such as the sandbox, gets the first characters
// of its ID as name.
func (n *Names) OfPod(fs *cgroup.FS, root, pod string) ([]Target, error) {
	parts := strings.Split(pod, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") || strings.Contains(pod, "_") {
		return nil, frame.Usagef("--pod %q: want NAMESPACE/NAME, such as default/web, or NAMESPACE/NAME/UID", pod)
	}
	namespace, name, uids := parts[0], parts[1], parts[2:]
	if len(uids) == 0 {
		var err error
		if uids, err = n.podUIDs(root, namespace, name); err != nil {
			return nil, err
		}
	}
	pods, err := n.naming.Pods(fs, uids...)
	if err != nil {
		return nil, err
	}
	if len(uids) == 0 { // the logs are elsewhere, but the links have names
		pods = slices.DeleteFunc(pods, func(p kubepods.Pod) bool {
			return !slices.ContainsFunc(p.Containers, func(c kubepods.Container) bool { return strings.HasPrefix(n.Known(c.Path), pod+"/") })
		})
		if len(pods) == 0 {
			return nil, fmt.Errorf("--pod %s: no pod of this node has that name, according to %s and %s: %s", pod, filepath.Join(root, podLogs), n.dir, findPod(namespace, name))
		}
	}
	var found []Target
	for _, p := range pods {
		for _, c := range p.Containers {
			container := n.Known(c.Path)
			if container == "" {
				container = path.Join(namespace, name, prefix(c.ID, idLength))
			}
			found = append(found, Target{c.Path, container})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("--pod %s: no container of it is running: %s", pod, findPod(namespace, name))
	}
	return found, nil
}

// podLogs contains a directory NAMESPACE_NAME_UID for the logs of each pod of the node
// (pkg/kubelet/kuberuntime/helpers.go of Kubernetes 1.37).
const podLogs = "var/log/pods"

// podNames returns the pods that have logs here, as NAMESPACE/NAME.
func podNames(root string) []string {
	entries, _ := os.ReadDir(filepath.Join(root, podLogs)) // without the directory there are no pods
	var names []string
	for _, e := range entries {
		if parts := strings.Split(e.Name(), "_"); len(parts) == 3 {
			names = append(names, parts[0]+"/"+parts[1])
		}
	}
	return slices.Compact(names)
}

// podUIDs returns the UIDs of all pods of a name that have logs here, or anywhere else (podLogsDir)
// according to the links: NAMESPACE_NAME_UID/CONTAINER/COUNT.log.
func (n *Names) podUIDs(root, namespace, name string) ([]string, error) {
	dir := filepath.Join(root, podLogs)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("--pod: look for the pod: %w", err)
	}
	links, errLinks := os.ReadDir(n.dir)
	var uids []string
	for _, e := range slices.Concat(entries, links) {
		pod := e.Name()
		if of, _ := n.target(pod); of != "." {
			pod = of
		}
		if uid, ok := strings.CutPrefix(pod, namespace+"_"+name+"_"); ok && !strings.Contains(uid, "_") {
			uids = append(uids, uid)
		}
	}
	if len(uids) == 0 && errLinks != nil && !errors.Is(errLinks, os.ErrNotExist) {
		return nil, fmt.Errorf("--pod: look for the pod: %w", errLinks)
	}
	return uids, nil
}

// findPod says how to find a pod that is not found here. The UID of a static pod is its hash.
func findPod(namespace, name string) string {
	return fmt.Sprintf("see its node and UID with 'kubectl -n %s get pod %s -o custom-columns="+
		`N:.spec.nodeName,U:.metadata.uid,STATIC:.metadata.annotations.kubernetes\.io/config\.hash', `+
		"and give --pod %[1]s/%[2]s/UID if it runs here", namespace, name)
}
