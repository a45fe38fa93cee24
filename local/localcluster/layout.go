package localcluster

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/owned"
	"pinfold.dev/pinfold/local/localnode"
)

// layout locates the files of a data directory.
type layout struct{ dir string }

const (
	stateName      = "state.json"
	kubeconfigName = "kubeconfig"

	// supervisorLogName is the log of a supervisor without a terminal. The process that starts the
	// supervisor creates it, so a new cluster does not remove it.
	supervisorLogName = "supervisor.log"

	temporarySuffix = ".new" // see writeFile
)

// Names of etcd's data and sockets in the data directory, which is the working directory of all
// components: the path of a Unix socket is limited to 107 bytes (unix(7)).
const (
	EtcdData       = "etcd"
	EtcdSocket     = "etcd.sock"
	EtcdPeerSocket = "etcd-peer.sock"
)

// entries are the names that a cluster creates in its data directory. Besides the lock and the
// supervisor's log, only these are ever removed, so that other files survive if a directory is
// named by mistake.
var entries = []string{
	"logs", "config", "pki", EtcdData, nodeDirName, EtcdSocket, EtcdPeerSocket, kubeconfigName, stateName,
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

// create clears the data directory and creates the directories of a new cluster. The lock must be
// held.
func (l layout) create(logger *slog.Logger) error {
	if err := l.clear(logger); err != nil {
		return err
	}
	for _, name := range []string{"logs", "config", "pki", EtcdData} {
		if err := os.Mkdir(l.path(name), 0o700); err != nil {
			return fmt.Errorf("prepare the data directory: %w", err)
		}
	}
	return nil
}

// clear removes what a cluster created. It restores a real node first, and
// removes nothing while anything is still mounted in the directory.
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

// remove clears the data directory, and removes it if it is empty then. The lock must be held; its
// file is removed last.
func (l layout) remove(logger *slog.Logger) error {
	if err := l.clear(logger); err != nil {
		return err
	}
	for _, name := range []string{supervisorLogName, lockName} {
		if err := os.Remove(l.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("clear the data directory: %w", err)
		}
	}
	if err := os.Remove(l.dir); errors.Is(err, unix.ENOTEMPTY) {
		logger.Warn("kept the data directory, which has other files: no cluster starts in it until they are removed", "directory", l.dir)
	}
	return nil
}

// checkUsable rejects a directory that contains files that are not a local cluster's.
func (l layout) checkUsable() error {
	found, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("read the data directory: %w", err)
	}
	for _, entry := range found {
		if name := entry.Name(); name != lockName && name != supervisorLogName && !slices.Contains(entries, name) {
			return fmt.Errorf("%s contains %q, which does not belong to a local cluster; choose an empty or a new directory", l.dir, name)
		}
	}
	return nil
}
