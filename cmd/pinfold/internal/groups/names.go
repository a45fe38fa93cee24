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
	// sandboxes are those of the pods about which it has learned.
	sandboxes map[string]bool
}

// NewNames returns names for a machine with the given root directory, before any link is read.
func NewNames(root string) *Names {
	return &Names{dir: filepath.Join(root, "var/log/containers"), sandboxes: map[string]bool{}}
}

// Learn reads the links for a machine's groups of containers. Containers without a link have no
// name.
func (n *Names) Learn(naming kubepods.Naming, containers []string) {
	byID := map[string]string{}
	entries, _ := os.ReadDir(n.dir) // without the directory there are no links
	for _, e := range entries {
		if id, name, ok := parseLogLink(e.Name()); ok {
			byID[id] = name
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.naming, n.byID = naming, byID
	n.sandboxes = n.sandboxesAmong(containers)
}

// sandboxesAmong returns the sandboxes among all containers of some pods. mu must be locked.
func (n *Names) sandboxesAmong(containers []string) map[string]bool {
	names := map[string]string{}
	for _, group := range containers {
		place, _ := n.naming.Parse(group)
		names[group] = n.byID[place.Container]
	}
	return Sandboxes(names)
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

// parseLogLink parses POD_NAMESPACE_CONTAINER-ID.log.
func parseLogLink(link string) (id, name string, ok bool) {
	link, ok = strings.CutSuffix(link, ".log")
	parts := strings.Split(link, "_")
	if !ok || len(parts) != 3 {
		return "", "", false
	}
	dash := strings.LastIndex(parts[2], "-")
	if dash <= 0 || parts[0] == "" || parts[1] == "" || dash == len(parts[2])-1 {
		return "", "", false
	}
	return parts[2][dash+1:], parts[1] + "/" + parts[0] + "/" + parts[2][:dash], true
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
	if name, ok := n.byID[place.Container]; ok {
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

// Known returns NAMESPACE/POD/CONTAINER, or "" without a link.
func (n *Names) Known(group string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	place, _ := n.naming.Parse(group)
	return n.byID[place.Container]
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
}

// AddFlags adds the flags. verb says what the command does with the containers.
func (s *Options) AddFlags(cmd *cobra.Command, verb string) {
	f := cmd.Flags()
	f.StringArrayVar(&s.Pods, "pod", nil, verb+" the containers of the pod `NAMESPACE/NAME` of this node; may be repeated")
	frame.CompleteFlag(cmd, "pod", func(context.Context) []string { return podNames(s.Root) })
	f.StringVar(&s.Root, "host-root", "/", "the machine's root directory is mounted at `DIR`")
	f.StringVar(&s.CgroupRoot, "cgroup-root", "", "the kubelet's --cgroup-root, a `PATH`, for names and --pod")
	f.BoolVar(&s.Sandboxes, "all", false, "also "+verb+" the sandboxes of pods (pause) that a pattern or --pod selects")
	const remote = "remote"
	f.BoolVar(&s.Remote, remote, false, "end when standard input does, as with ctrl-C, and use little memory")
	_ = f.MarkHidden(remote)
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

// Targets returns the groups that arguments (as [Find] resolves them) and pods (as [Names.OfPod])
// name, each once, and the names of the machine's containers. Sandboxes are left out unless they
// are wanted, or named by their path.
func (s *Options) Targets(fs *cgroup.FS, args []string, stderr io.Writer) ([]Target, *Names, error) {
	names := NewNames(s.Root)
	naming, err := kubepods.Locate(fs, s.CgroupRoot)
	if err != nil && len(s.Pods) > 0 {
		return nil, nil, fmt.Errorf("--pod %s: %w; name its control groups instead", s.Pods[0], err)
	}
	if err == nil { // otherwise there is no kubelet, and groups have no names
		names.Learn(naming, nil)
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

// OfPod returns the containers of a pod of this node. Learn must have been called. A container
// without a name, such as the sandbox, gets the first characters of its ID as name.
func (n *Names) OfPod(fs *cgroup.FS, root, pod string) ([]Target, error) {
	namespace, name, ok := strings.Cut(pod, "/")
	if !ok || namespace == "" || name == "" || strings.ContainsAny(name, "/_") || strings.Contains(namespace, "_") {
		return nil, frame.Usagef("--pod %q: want NAMESPACE/NAME, such as default/web", pod)
	}
	uids, err := n.podUIDs(root, namespace, name)
	if err != nil {
		return nil, err
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
		return nil, fmt.Errorf("--pod %s: it has logs, but no container is running: %s", pod, findPod(namespace, name))
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
	links, _ := os.ReadDir(n.dir) // as in Learn
	var uids []string
	for _, e := range slices.Concat(entries, links) {
		pod := e.Name()
		if target, err := os.Readlink(filepath.Join(n.dir, pod)); err == nil {
			pod = filepath.Base(filepath.Dir(filepath.Dir(target)))
		}
		if uid, ok := strings.CutPrefix(pod, namespace+"_"+name+"_"); ok && !strings.Contains(uid, "_") {
			uids = append(uids, uid)
		}
	}
	return uids, nil
}

// findPod says how to find a pod that is not found here.
func findPod(namespace, name string) string {
	return fmt.Sprintf("see its node and UID with 'kubectl -n %s get pod %s -o custom-columns=N:.spec.nodeName,U:.metadata.uid', "+
		"and give its groups as '/kubepods/*/podUID/*' if it runs here", namespace, name)
}
