package localnode

import (
	"fmt"
	"os"
	"path/filepath"
)

// Names of configuration files and directories in config/.
const (
	containerdConfigName = "containerd.toml"
	kubeletConfigName    = "kubelet.yaml"
	networkDir           = "cni"
	hostsDir             = "hosts"
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
	if err := before.Made.Make("/", 0o755, func() error { return before.write(n.layout) }); err != nil {
		return err
	}
	// It must not exist: components trust its content.
	if err := os.Mkdir(n.layout.run, 0o700); err != nil {
		return fmt.Errorf("create a directory of the node: %w", err)
	}
	for _, dir := range []string{
		n.layout.path("logs"), n.layout.path("static-pods"), n.layout.path("agent"), n.layout.path("containerd", "nri"),
		n.layout.path("config", networkDir), n.layout.path("config", hostsDir, "_default"),
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
	return n.writeConfigurations(credentials)
}

func (n *Node) writeConfigurations(credentials Credentials) error {
	containerd, err := n.containerdConfig()
	if err != nil {
		return err
	}
	kubelet, err := n.kubeletConfig(credentials)
	if err != nil {
		return err
	}
	network, err := networkConfig(n.network, n.layout.path("addresses"))
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		containerdConfigName: containerd,
		kubeletConfigName:    kubelet,
		filepath.Join(networkDir, networkName+".conflist"): network,
		filepath.Join(hostsDir, "_default", "hosts.toml"):  hostsConfig(n.options.Registry),
	} {
		if err := os.WriteFile(n.layout.path("config", name), data, 0o600); err != nil {
			return fmt.Errorf("write the node's configuration: %w", err)
		}
	}
	return nil
}
