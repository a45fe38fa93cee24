//go:build linux

package groups

import (
	"os"
	"path"
	"path/filepath"
	"strings"
)

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

const (
	maxLink  = 255 // ext4MaxFileNameLen in pkg/kubelet/kuberuntime/legacy.go of Kubernetes 1.37
	minBegin = 12  // of a container's ID: fewer digits may be those of the sandbox, too
)

// readCut reads a link whose name may have been cut, from where it leads.
func (n *Names) readCut(link string, cut map[string]map[string]string) {
	pod, container := n.target(link)
	parts := strings.Split(pod, "_")
	if len(parts) != 3 {
		return
	}
	begin, ok := strings.CutPrefix(strings.TrimSuffix(link, ".log"), parts[1]+"_"+parts[0]+"_"+container+"-")
	if !ok || len(begin) < minBegin {
		return
	}
	if cut[parts[2]] == nil {
		cut[parts[2]] = map[string]string{}
	}
	cut[parts[2]][begin] = path.Join(parts[0], parts[1], container)
}

// target returns where a link leads: NAMESPACE_NAME_UID/CONTAINER/COUNT.log.
func (n *Names) target(link string) (pod, container string) {
	target, _ := os.Readlink(filepath.Join(n.dir, link)) // "" if it is no link, or gone
	target = filepath.Dir(target)
	return filepath.Base(filepath.Dir(target)), filepath.Base(target)
}
