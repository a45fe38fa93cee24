package localnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Prepare records the state of the machine and creates everything that the components need before
// they start. Afterwards, even if it fails, Restore must be called.
func (n *Node) Prepare(credentials Credentials) error {
	if err := os.MkdirAll(n.layout.dir, 0o700); err != nil {
		return fmt.Errorf("create the node's directory: %w", err)
	}
	before, err := stateOf(host(), n.network.pods)
	if err != nil {
		return err
	}
	if err := before.Made.create("/", func() error { return before.write(n.layout) }); err != nil {
		return err
	}
	// It must not exist: components trust its content.
	if err := os.Mkdir(n.layout.run, 0o700); err != nil {
		return fmt.Errorf("create a directory of the node: %w", err)
	}
	for _, dir := range []string{
		n.layout.path("logs"), n.layout.path("static-pods"), n.layout.path("agent"), n.layout.path("containerd", "nri"),
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("create a directory of the node: %w", err)
		}
	}
	if err := os.Symlink(n.layout.dir, filepath.Join(n.layout.run, dirLink)); err != nil {
		return fmt.Errorf("create a directory of the node: %w", err)
	}
	if err := addAddress(n.network.node); err != nil {
		return err
	}
	if n.ports, err = choosePorts(n.network.node); err != nil {
		return err
	}
	files, err := n.configurations(credentials)
	if err != nil {
		return err
	}
	for name, data := range files {
		path := n.layout.path(name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
			return fmt.Errorf("write the node's configuration: %w", err)
		}
	}
	return nil
}
