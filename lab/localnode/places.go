package localnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// outsidePlaces are files and directories outside the node's own that the components make or
// write to whatever they are told: the kubelet the sockets of device plugins and links
// to logs, containerd's CNI library records of networks.
func outsidePlaces() []string {
	return []string{
		"/var/lib/kubelet/device-plugins/kubelet.sock",
		"/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
		"/var/lib/cni/results",
		"/var/log/containers",
	}
}

// absentPlaces returns those of the paths, and of the directories above them, that
// do not exist: topmost only.
func absentPlaces(paths []string) []string {
	seen := map[string]bool{}
	var absent []string
	for _, path := range paths {
		top := ""
		for ; path != "/" && path != "."; path = filepath.Dir(path) {
			if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
				top = path
			}
		}
		if top != "" && !seen[top] {
			seen[top] = true
			absent = append(absent, top)
		}
	}
	return absent
}

// removePlaces removes directories that were not there before, unless something is
// mounted in one: that would not be the node's any more.
func removePlaces(paths []string) error {
	var failed []error
	for _, path := range paths {
		mounts, err := mountsBelow(path)
		switch {
		case err != nil:
		case len(mounts) > 0:
			err = fmt.Errorf("%s was not there before the node and stays, since %s is mounted", path, mounts[0])
		default:
			err = os.RemoveAll(path)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("remove a directory: %w", err))
		}
	}
	return errors.Join(failed...)
}

// removeTraces removes the node's files from directories that were there before:
// links into its own directory, and records of its network.
func removeTraces(dir string) error {
	var failed []error
	links, err := filepath.Glob("/var/log/containers/*.log")
	failed = append(failed, err)
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir+"/") {
			failed = append(failed, os.Remove(link))
		}
	}
	records, err := filepath.Glob("/var/lib/cni/results/" + networkName + "-*")
	failed = append(failed, err)
	for _, record := range records {
		failed = append(failed, os.Remove(record))
	}
	return errors.Join(failed...)
}
