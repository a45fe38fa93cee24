package localnode

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"pinfold.dev/pinfold/linux/owned"
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
	AgentFlags []string          // for its command run, after those of agentFlags
}

// Credentials are files by which the node and the API server know each other.
type Credentials struct {
	Kubeconfig       string // of the kubelet, as user system:node:Name
	ClientCA         string // authority of those who may ask the kubelet
	Certificate, Key string // of the kubelet, for Node.Address
	AgentKubeconfig  string // of the agent
	AllocationKeys   string // public keys of the scheduler's allocations
}

// Node is this machine as a node.
type Node struct {
	options Options
	layout  layout
	network network
	ports   ports
	claim   *os.File // held for as long as this machine is this node
}

// layout knows where things are.
type layout struct {
	dir string // Options.Dir
	run string // for sockets
}

// The directory of sockets has a link to the node's directory, by which it is known
// whose it is.
const (
	runPrefix = "pinfold-node-"
	dirLink   = "dir"
)

func layoutOf(dir string) layout {
	sum := sha256.Sum256([]byte(dir))
	return layout{dir: dir, run: "/run/" + runPrefix + hex.EncodeToString(sum[:4])}
}

func (l layout) path(elements ...string) string {
	return filepath.Join(append([]string{l.dir}, elements...)...)
}

func (l layout) containerdSocket() string { return filepath.Join(l.run, "containerd.sock") }
func (l layout) nriSocket() string        { return filepath.Join(l.run, "nri.sock") }

// New claims this machine, checks that it can be a node, and chooses its addresses. It
// changes nothing.
func New(options Options) (*Node, error) {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the node's directory: %w", err)
	}
	options.Dir = dir
	if options.Binaries, err = filepath.Abs(options.Binaries); err != nil {
		return nil, fmt.Errorf("find the node's programs: %w", err)
	}
	n := &Node{options: options, layout: layoutOf(dir)}
	if err := checkMachine(options.Binaries); err != nil {
		return nil, err
	}
	if n.claim, err = claimMachine(claimPath); err != nil {
		return nil, err
	}
	if n.network, err = freeNetwork(); err != nil {
		n.Release()
		return nil, err
	}
	return n, nil
}

// claimPath is a lock that only root can hold: nobody else makes files in /run. The
// groups of a node that is about to start are not there yet to tell.
const claimPath = "/run/pinfold-node.lock"

func claimMachine(path string) (*os.File, error) {
	claim, err := owned.Lock(path)
	if errors.Is(err, owned.ErrHeld) {
		return nil, errors.New("this machine is the node of another local cluster: end that one first (pinfold-local down)")
	}
	if err != nil {
		return nil, fmt.Errorf("claim this machine: %w", err)
	}
	return claim, nil
}

// Release gives this machine up, after Restore.
func (n *Node) Release() { release(n.claim) }

func release(claim *os.File) {
	_ = os.Remove(claim.Name()) // while it is locked; what stays is an unlocked file
	_ = claim.Close()           // nothing was written
}

// Address is the node's own address, on which the kubelet serves.
func (n *Node) Address() netip.Addr { return n.network.node }
