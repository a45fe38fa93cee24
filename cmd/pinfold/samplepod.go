//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// podLogs is where the kubelet has a directory NAMESPACE_NAME_UID for the logs of each
// pod of the node (pkg/kubelet/kuberuntime/helpers.go of Kubernetes 1.37). So a pod's UID
// is found without asking the API server.
const podLogs = "var/log/pods"

// podTargets returns the containers of a pod of this node, its sandbox included, which has no
// name of its own: instead it has the beginning of its id.
func podTargets(fs *cgroup.FS, naming kubepods.Naming, root, pod string, names *containerNames) ([]target, error) {
	namespace, name, ok := strings.Cut(pod, "/")
	if !ok || namespace == "" || name == "" || strings.ContainsAny(name, "/_") || strings.Contains(namespace, "_") {
		return nil, &wrongUsage{fmt.Sprintf("--pod %q: want NAMESPACE/NAME, such as default/web", pod)}
	}
	uids, err := podUIDs(root, namespace, name)
	if err != nil {
		return nil, err
	}
	pods, err := naming.Pods(fs)
	if err != nil {
		return nil, err
	}
	var found []target
	for _, p := range pods {
		if !slices.Contains(uids, p.UID) {
			continue
		}
		for _, c := range p.Containers {
			container := names.known(c.Path)
			if container == "" {
				container = path.Join(namespace, name, beginning(c.ID, 12))
			}
			found = append(found, target{c.Path, container})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("--pod %s: it has logs, and no container runs: %s", pod, elsewhere(namespace, name))
	}
	return found, nil
}

// podUIDs are those of the pods of a name that have run here and have logs.
func podUIDs(root, namespace, name string) ([]string, error) {
	dir := filepath.Join(root, podLogs)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("--pod: look for the pod: %w", err)
	}
	var uids []string
	for _, e := range entries {
		if uid, ok := strings.CutPrefix(e.Name(), namespace+"_"+name+"_"); ok && !strings.Contains(uid, "_") {
			uids = append(uids, uid)
		}
	}
	if len(uids) == 0 {
		return nil, fmt.Errorf("--pod %s/%s: no pod of this node has that name, by %s: %s", namespace, name, dir, elsewhere(namespace, name))
	}
	return uids, nil
}

// elsewhere says what to do about a pod that is not found.
func elsewhere(namespace, name string) string {
	return fmt.Sprintf("see its node and UID with 'kubectl -n %s get pod %s -o custom-columns=N:.spec.nodeName,U:.metadata.uid', "+
		"and give its groups as '/kubepods/*/podUID/*' if the kubelet writes its logs elsewhere", namespace, name)
}
