package kubepods

import (
	"os"
	"path"
	"strings"

	"pinfold.dev/pinfold/linux/cgroup"
)

// innerName is the name of the group that crun makes in a container's scope.
const innerName = "container"

// Inner returns the group that crun makes in a container's scope for the processes, or "" if there
// is none. crun does that with the cgroup driver systemd (pull request 305; also 1.28, because 1768
// was reverted) unless the annotation run.oci.systemd.subgroup says otherwise. It writes quota and
// CPUs to this group and, since 1.11, to the scope. The container sees it as the root of its cgroup
// namespace.
//
// A tenant whose container may write to its cgroups can make a group of this name in any scope. So
// what is set in it may restrict more than the scope does, and must never count instead of it.
func Inner(fs *cgroup.FS, group string) string {
	if _, _, ok := (Naming{Driver: Systemd}).parseContainer(path.Base(group)); !ok {
		return ""
	}
	inner := group + "/" + innerName
	if info, err := os.Stat(fs.Dir(cgroup.CPU, inner)); err != nil || !info.IsDir() {
		return ""
	}
	return inner
}

// Scope returns the scope of a group that [Inner] returns, and any other group as it is.
func Scope(group string) string { return strings.TrimSuffix(group, "/"+innerName) }
