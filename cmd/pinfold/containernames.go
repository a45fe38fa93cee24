//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"pinfold.dev/pinfold/linux/kubepods"
)

// containerNames are the names of containers, out of the links to their logs that every
// kubelet makes (legacyLogSymlink of pkg/kubelet/kuberuntime): no API is asked.
type containerNames struct {
	dir string

	mu     sync.Mutex // of these
	naming kubepods.Naming
	byID   map[string]string
}

func newContainerNames(root string) *containerNames {
	return &containerNames{dir: filepath.Join(root, "var/log/containers")}
}

// learn reads the links. Without them containers have ids only.
func (n *containerNames) learn(naming kubepods.Naming) {
	byID := map[string]string{}
	entries, _ := os.ReadDir(n.dir) // none where there is no such folder
	for _, e := range entries {
		if id, name, ok := parseLogLink(e.Name()); ok {
			byID[id] = name
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.naming, n.byID = naming, byID
}

// parseLogLink reads POD_NAMESPACE_CONTAINER-ID.log.
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

// of returns the name of a container's group: "namespace/pod/container", or the beginnings
// of the pod's UID and of the container's id.
func (n *containerNames) of(group string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	place, ok := n.naming.Parse(group)
	if !ok || place.Container == "" {
		return group
	}
	if name, ok := n.byID[place.Container]; ok {
		return name
	}
	return beginning(place.PodUID, 8) + "/" + beginning(place.Container, 12)
}

// known is of, but "" where no link has the name.
func (n *containerNames) known(group string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	place, _ := n.naming.Parse(group)
	return n.byID[place.Container]
}

func beginning(text string, n int) string { return text[:min(n, len(text))] }
