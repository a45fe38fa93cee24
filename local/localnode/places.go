package localnode

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Directories outside of the node's own to which components always write: the kubelet writes
// sockets of device plugins and links to logs, the CNI library of containerd writes records of
// networks.
const (
	devicePlugins = "/var/lib/kubelet/device-plugins"
	cniRecords    = "/var/lib/cni/results"
	podLogLinks   = "/var/log/containers"
)

func outsideDirs() []string { return []string{devicePlugins, cniRecords, podLogLinks} }

// deviceCheckpoint is the kubelet's record in devicePlugins of the devices that pods have.
const deviceCheckpoint = "kubelet_internal_checkpoint"

// checkOutside returns an error if devicePlugins contains files of another kubelet, which the
// node's kubelet would remove at its start.
func checkOutside(m machine) error {
	names, err := namesIn(m.path(devicePlugins))
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("%s exists: a kubelet ran on this machine; remove it when no kubelet needs it any more",
			filepath.Join(devicePlugins, names[0]))
	}
	return err
}

// removeOutside removes what the components left outside of the node's directory: files that are
// known to be the node's, and then the directories that were created for it. Other files and the
// directories that contain them are kept.
func removeOutside(m machine, dir string, made madeDirs, others string, logger *slog.Logger) error {
	return errors.Join(removeTraces(m, dir), removeDevicePlugins(m, made, others, logger), made.remove(m.root, logger))
}

// removeTraces removes the files that refer to the node: links into its directory, and records of
// its network.
func removeTraces(m machine, dir string) error {
	links, err := filepath.Glob(m.path(podLogLinks) + "/*.log")
	failed := []error{err}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir+"/") {
			failed = append(failed, os.Remove(link))
		}
	}
	records, err := filepath.Glob(m.path(cniRecords) + "/" + networkName + "-*")
	failed = append(failed, err)
	for _, record := range records {
		failed = append(failed, os.Remove(record))
	}
	return errors.Join(failed...)
}

// removeDevicePlugins removes the files of the node's kubelet in devicePlugins. Any kubelet has such
// files, so they are kept if there is a sign of another one. Sockets without a server are not a sign:
// each kubelet removes them at its start.
func removeDevicePlugins(m machine, made madeDirs, others string, logger *slog.Logger) error {
	if others == "" {
		if err := removeDeadSockets(m.path(devicePlugins)); err != nil {
			return err
		}
	}
	names, err := namesIn(m.path(devicePlugins))
	if err != nil || len(names) == 0 {
		return err
	}
	if others == "" {
		others, err = otherFiles(m, made, names)
	}
	if err != nil {
		return err
	}
	if others != "" {
		logger.Warn("kept files that another kubelet may need; a node cannot start until they are removed",
			"directory", devicePlugins, "files", names, "sign", others)
		return nil
	}
	return os.Remove(filepath.Join(m.path(devicePlugins), deviceCheckpoint))
}

// removeDeadSockets removes the sockets in a directory that no program serves.
func removeDeadSockets(dir string) error {
	names, err := namesIn(dir)
	failed := []error{err}
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Type() != fs.ModeSocket {
			continue
		}
		connection, err := net.Dial("unix", path)
		switch {
		case err == nil:
			_ = connection.Close() // nothing was written
		case errors.Is(err, unix.ECONNREFUSED): // for a socket of another type it is EPROTOTYPE
			failed = append(failed, os.Remove(path))
		}
	}
	return errors.Join(failed...)
}

// otherFiles looks for another kubelet in and near devicePlugins, which has files with these names. It
// returns "", or what it found: a file that is not deviceCheckpoint, or a file in the parent directory
// that was created for the node.
func otherFiles(m machine, made madeDirs, names []string) (string, error) {
	for _, name := range names {
		if name != deviceCheckpoint {
			return filepath.Join(devicePlugins, name), nil
		}
	}
	parent := filepath.Dir(devicePlugins)
	if _, ours := made[parent]; !ours {
		return "", nil
	}
	names, err := namesIn(m.path(parent))
	for _, name := range names {
		if name != filepath.Base(devicePlugins) {
			return filepath.Join(parent, name), err
		}
	}
	return "", err
}

// namesIn returns the names in a directory, none if it does not exist.
func namesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// removeRun removes the node's directory of sockets, which contains a link that identifies it.
func removeRun(l layout, logger *slog.Logger) error {
	names, err := namesIn(l.run)
	if err != nil {
		return err
	}
	if !isRunOf(l) && len(names) > 0 {
		logger.Warn("kept a directory: it does not belong to this node", "directory", l.run)
		return nil
	}
	mounts, err := MountsBelow(l.run)
	if err == nil && len(mounts) > 0 {
		err = fmt.Errorf("remove %s: %s is mounted", l.run, mounts[0])
	}
	if err == nil {
		err = os.RemoveAll(l.run)
	}
	return err
}

// isRunOf reports whether the directory of sockets belongs to this node.
func isRunOf(l layout) bool {
	target, err := os.Readlink(filepath.Join(l.run, dirLink))
	return err == nil && target == l.dir
}
