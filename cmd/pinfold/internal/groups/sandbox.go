package groups

import (
	"path"
	"strings"
)

// Sandboxes returns those of some groups that are sandboxes of pods (pause). names has the groups'
// NAMESPACE/POD/CONTAINER by path, "" if unknown. The kubelet makes a link to the logs of every
// container, which has its name, and none for sandboxes. So a sandbox is the only container without
// a name, in a pod with another container that has one.
func Sandboxes(names map[string]string) map[string]bool {
	named, nameless := map[string]bool{}, map[string]int{} // by pod
	for group, name := range names {
		if id := containerID(group); id != "" && isName(name, id) {
			named[path.Dir(group)] = true
		} else if id != "" {
			nameless[path.Dir(group)]++
		}
	}
	found := map[string]bool{}
	for group, name := range names {
		if id, pod := containerID(group), path.Dir(group); id != "" && !isName(name, id) && named[pod] && nameless[pod] == 1 {
			found[group] = true
		}
	}
	return found
}

// isName reports whether a name is a container's, and not what [Names.OfPod] makes of an ID.
func isName(name, id string) bool { return name != "" && path.Base(name) != prefix(id, idLength) }

// containerID returns the ID in the name of a container's group, with any cgroup driver of the
// kubelet, or "". CRI-O's monitor (crio-conmon-ID) is not a container.
func containerID(group string) string {
	name := strings.TrimSuffix(path.Base(group), ".scope")
	dash := strings.LastIndex(name, "-")
	id := name[dash+1:]
	if len(id) != 64 || strings.Trim(id, "0123456789abcdef") != "" || strings.HasSuffix(name[:dash+1], "conmon-") {
		return ""
	}
	return id
}

// idLength is the number of characters of a container's ID that are shown.
const idLength = 12

func prefix(text string, n int) string { return text[:min(n, len(text))] }
