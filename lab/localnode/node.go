package localnode

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"path/filepath"
)

// Name is the name of the node.
const Name = "this-machine"

// Options say what the node is made of.
type Options struct {
	Dir        string            // where it keeps everything: absent or left by an earlier node
	Binaries   string            // the directory of its programs, see Missing
	Executable string            // the multi-call program that has the registry as a component
	Registry   string            // host:port where the registry is to listen
	Labels     map[string]string // of the node
	Agent      string            // pinfold-agent, which enforces placements; empty: nobody does
}

// Credentials are files by which the node and the API server know each other.
type Credentials struct {
	Kubeconfig       string // of the kubelet, as user system:node:Name
	ClientCA         string // authority of those who may ask the kubelet
	Certificate, Key string // of the kubelet, for Node.Address
	AgentKubeconfig  string // of the agent
}

// Node is this machine as a node.
type Node struct {
	options Options
	layout  layout
	network network
	ports   ports
}

// layout knows where things are.
type layout struct {
	dir string // Options.Dir
	run string // for sockets
}

func layoutOf(dir string) layout {
	sum := sha256.Sum256([]byte(dir))
	return layout{dir: dir, run: "/run/pinfold-" + hex.EncodeToString(sum[:4])}
}

func (l layout) path(elements ...string) string {
	return filepath.Join(append([]string{l.dir}, elements...)...)
}

func (l layout) containerdSocket() string { return filepath.Join(l.run, "containerd.sock") }
func (l layout) nriSocket() string        { return filepath.Join(l.run, "nri.sock") }

// New checks that this machine can be a node and chooses its addresses. It changes
// nothing.
func New(options Options) (*Node, error) {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the node's directory: %w", err)
	}
	options.Dir = dir
	if options.Binaries, err = filepath.Abs(options.Binaries); err != nil {
		return nil, fmt.Errorf("find the node's programs: %w", err)
	}
	if err := checkMachine(options.Binaries); err != nil {
		return nil, err
	}
	network, err := freeNetwork()
	if err != nil {
		return nil, err
	}
	return &Node{options: options, layout: layoutOf(dir), network: network}, nil
}

// Address is the node's own address, on which the kubelet serves.
func (n *Node) Address() netip.Addr { return n.network.node }
