package localnode

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/owned"
)

// The directories outside the node's own that the components write to whatever they are
// told: the kubelet the sockets of device plugins and links to logs, containerd's CNI
// library records of networks.
const (
	devicePlugins = "/var/lib/kubelet/device-plugins"
	cniRecords    = "/var/lib/cni/results"
	podLogLinks   = "/var/log/containers"
)

// devicePluginFiles are all that a kubelet makes in devicePlugins when there are no
// device plugins.
func devicePluginFiles() []string { return []string{"kubelet.sock", "kubelet_internal_checkpoint"} }

// outsideDirs returns these directories and those above them, parents first.
func outsideDirs() []string {
	var dirs []string
	for _, dir := range []string{devicePlugins, cniRecords, podLogLinks} {
		for ; dir != "/"; dir = filepath.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// checkOutside refuses a machine on which a kubelet has left what the node's kubelet, at
// its start, would remove.
func checkOutside(m machine) error {
	names, err := namesIn(m.path(devicePlugins))
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("%s exists: a kubelet ran on this machine; remove it when none needs it any more",
			filepath.Join(devicePlugins, names[0]))
	}
	return err
}

// absentDirs returns those of outsideDirs that do not exist, as saved.Made before they are
// made.
func absentDirs(m machine) map[string]string {
	absent := map[string]string{}
	for _, dir := range outsideDirs() {
		if _, err := os.Lstat(m.path(dir)); errors.Is(err, fs.ErrNotExist) {
			absent[dir] = ""
		}
	}
	return absent
}

// makeOutside makes directories before the components do, and notes what tells each from
// one that somebody else makes in its place later.
func makeOutside(m machine, made map[string]string) error {
	for _, dir := range slices.Sorted(maps.Keys(made)) { // parents first
		err := os.Mkdir(m.path(dir), 0o755)
		if errors.Is(err, fs.ErrExist) {
			delete(made, dir) // somebody was faster
			continue
		}
		if err == nil {
			made[dir], err = identityOf(m.path(dir))
		}
		if err != nil {
			return fmt.Errorf("make a directory of the node: %w", err)
		}
	}
	return nil
}

func identityOf(dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	return owned.Identity(root)
}

// removeOutside removes what the components left outside the node's directory: files that
// are known to be the node's, and then the directories that were made for it, as far as
// they are empty. What somebody else has put there stays, with the directories above it.
func removeOutside(m machine, dir string, made map[string]string, others string, logger *slog.Logger) error {
	failed := []error{removeTraces(m, dir), removeDevicePlugins(m, made, others, logger)}
	for _, dir := range slices.Backward(slices.Sorted(maps.Keys(made))) { // children first
		path := m.path(dir)
		identity, err := identityOf(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil && made[dir] != "" && made[dir] != identity:
			logger.Warn("stays: somebody else has made it since", "directory", dir)
			continue
		case err == nil:
			err = unix.Rmdir(path)
		}
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EBUSY) {
			logger.Warn("stays: somebody else uses it", "directory", dir)
		} else if err != nil {
			failed = append(failed, fmt.Errorf("remove directory %s: %w", dir, err))
		}
	}
	return errors.Join(failed...)
}

// removeTraces removes files that name the node: links into its own directory, and records
// of its network.
func removeTraces(m machine, dir string) error {
	var failed []error
	links, err := filepath.Glob(m.path(podLogLinks) + "/*.log")
	failed = append(failed, err)
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

// removeDevicePlugins removes the files of the node's kubelet in devicePlugins. They look
// like any kubelet's, so they stay as soon as there is a sign of another one.
func removeDevicePlugins(m machine, made map[string]string, others string, logger *slog.Logger) error {
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
		logger.Warn("stays: another kubelet may need it", "directory", devicePlugins, "sign", others)
		return nil
	}
	var failed []error
	for _, name := range names {
		failed = append(failed, os.Remove(filepath.Join(m.path(devicePlugins), name)))
	}
	return errors.Join(failed...)
}

// otherFiles returns a sign of another kubelet in the files beside those of the node's, ""
// when there is none.
func otherFiles(m machine, made map[string]string, names []string) (string, error) {
	for _, name := range names {
		if !slices.Contains(devicePluginFiles(), name) {
			return filepath.Join(devicePlugins, name), nil
		}
	}
	socket := m.path(filepath.Join(devicePlugins, devicePluginFiles()[0]))
	if connection, err := net.Dial("unix", socket); err == nil {
		_ = connection.Close() // nothing was written
		return "somebody serves " + socket, nil
	}
	above := filepath.Dir(devicePlugins)
	if _, ours := made[above]; !ours {
		return "", nil
	}
	names, err := namesIn(m.path(above))
	for _, name := range names {
		if name != filepath.Base(devicePlugins) {
			return filepath.Join(above, name), err
		}
	}
	return "", err
}

// namesIn returns the names in a directory, none when it does not exist.
func namesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look at %s: %w", dir, err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// removeRun removes the directory of sockets, which a link in it tells from others.
func removeRun(l layout, logger *slog.Logger) error {
	names, err := namesIn(l.run)
	if err != nil {
		return err
	}
	if !isRunOf(l) && len(names) > 0 {
		logger.Warn("stays: it is not of this node", "directory", l.run)
		return nil
	}
	mounts, err := MountsBelow(l.run)
	if err == nil && len(mounts) > 0 {
		err = fmt.Errorf("%s stays, since %s is mounted", l.run, mounts[0])
	}
	if err == nil {
		err = os.RemoveAll(l.run)
	}
	return err
}

// isRunOf reports whether the directory of sockets is that of this node.
func isRunOf(l layout) bool {
	target, err := os.Readlink(filepath.Join(l.run, dirLink))
	return err == nil && target == l.dir
}
