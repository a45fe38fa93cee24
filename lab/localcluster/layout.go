package localcluster

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"pinfold.dev/pinfold/lab/localnode"
	"pinfold.dev/pinfold/linux/owned"
)

// layout knows where things are in a data directory.
type layout struct{ dir string }

const (
	stateName      = "state.json"
	kubeconfigName = "kubeconfig"
	socketName     = "etcd.sock"
	peerSocketName = "etcd-peer.sock"

	// supervisorLogName is where a supervisor without a terminal writes. Whoever
	// starts it makes the file, so that a new cluster leaves it alone.
	supervisorLogName = "supervisor.log"

	temporarySuffix = ".new" // see writeFile
)

// entries are the names that a cluster makes in its data directory. Beside the
// lock and the supervisor's log, only these are ever removed, so that a directory
// with other things in it, given by mistake, survives.
var entries = []string{
	"logs", "config", "pki", "etcd", nodeDirName, socketName, peerSocketName, kubeconfigName, stateName,
	kubeconfigName + temporarySuffix, stateName + temporarySuffix,
}

func (l layout) path(elements ...string) string {
	return filepath.Join(append([]string{l.dir}, elements...)...)
}

func (l layout) log(component string) string { return l.path("logs", component+".log") }

func (l layout) kubeconfig(component string) string {
	return l.path("config", component+".kubeconfig")
}

func (l layout) certificate(component string) (certificate, key string) {
	return l.path("pki", component+".crt"), l.path("pki", component+".key")
}

// allocationKey are the files of the key by which the scheduler signs allocations.
func (l layout) allocationKey() (private, public string) {
	return l.path("pki", "allocations.key"), l.path("pki", "allocations.pub")
}

// create makes the directories of an empty cluster. The lock must be held.
func (l layout) create(logger *slog.Logger) error {
	if err := l.clear(logger); err != nil {
		return err
	}
	for _, name := range []string{"logs", "config", "pki", "etcd"} {
		if err := os.Mkdir(l.path(name), 0o700); err != nil {
			return fmt.Errorf("prepare the data directory: %w", err)
		}
	}
	return nil
}

// clear removes what a cluster made. A real node goes first: while it has anything
// mounted or running in the directory, nothing of it is removed. What is mounted there by
// others belongs to them.
func (l layout) clear(logger *slog.Logger) error {
	root, err := owned.Open(l.dir)
	if err != nil {
		return fmt.Errorf("clear the data directory: %w", err)
	}
	defer root.Close()
	if _, err := readHolder(root); err != nil {
		return err
	}
	if err := localnode.Restore(l.path(nodeDirName), logger); err != nil {
		return err
	}
	mounts, err := localnode.MountsBelow(l.dir)
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("clear the data directory: something is mounted on %s: unmount it first", mounts[0])
	}
	for _, name := range entries {
		if err := root.RemoveAll(name); err != nil {
			return fmt.Errorf("clear the data directory: %w", err)
		}
	}
	return nil
}

// remove clears the directory and removes it too when that leaves it empty. The
// lock must be held: it goes last.
func (l layout) remove(logger *slog.Logger) error {
	if err := l.clear(logger); err != nil {
		return err
	}
	for _, name := range []string{supervisorLogName, lockName} {
		if err := os.Remove(l.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("clear the data directory: %w", err)
		}
	}
	_ = os.Remove(l.dir) // stays when something else is in it
	return nil
}

// isOurs tells whether a name in a data directory comes from a local cluster.
func isOurs(name string) bool {
	return name == lockName || name == supervisorLogName || slices.Contains(entries, name)
}

// checkUsable refuses a directory that holds other people's things: files there
// could be taken for ours, and ours would be lost among them.
func (l layout) checkUsable() error {
	names, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("read the data directory: %w", err)
	}
	for _, entry := range names {
		if !isOurs(entry.Name()) {
			return fmt.Errorf("%s contains %q, which is no part of a local cluster; choose an empty or a new directory",
				l.dir, entry.Name())
		}
	}
	return nil
}
