package localnode

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/owned"
)

// Name is the name of the node.
const Name = "this-machine"

// Options configure a node.
type Options struct {
	Dir        string   // the node's directory; it does not exist, or an earlier node left it
	Binaries   string   // the directory of the node's programs; see Missing
	Executable string   // the multi-call program that contains the registry
	Registry   string   // host:port on which the registry listens
	Agent      string   // executable of pinfold-agent, which enforces placements; "": no agent, and no pods that ask
	AgentFlags []string // additional flags of "pinfold-agent run"
	Images     []string // directories with OCI image layouts that the registry serves, too

	FeatureGates map[string]bool // of the kubelet
	CgroupDriver kubepods.Driver // of kubelet and containerd; 0 for cgroupfs
}

func (o Options) driver() kubepods.Driver { return cmp.Or(o.CgroupDriver, kubepods.Cgroupfs) }

// Credentials are the files with which node and API server authenticate to each other.
type Credentials struct {
	Kubeconfig       string // of the kubelet, as user system:node:Name
	ClientCA         string // authority of the kubelet's clients
	Certificate, Key string // of the kubelet, for Node.Address
	AgentKubeconfig  string // of the agent
}

// Node is this machine as a node.
type Node struct {
	options Options
	layout  layout
	network network
	ports   ports
	claim   *os.File // a lock, held until Release
}

// layout contains the node's directories.
type layout struct {
	dir string // Options.Dir
	run string // for sockets
}

// The directory of sockets contains a link to the node's directory, which identifies its owner.
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

// New checks that this machine can be a node, claims it, and chooses its addresses. It does not
// change the machine.
func New(options Options) (*Node, error) {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the node's directory: %w", err)
	}
	options.Dir = dir
	if options.Binaries, err = filepath.Abs(options.Binaries); err != nil {
		return nil, fmt.Errorf("find the node's programs: %w", err)
	}
	options.Images = slices.Clone(options.Images)
	for i, images := range options.Images { // components run in another directory
		if options.Images[i], err = filepath.Abs(images); err != nil {
			return nil, fmt.Errorf("find the images: %w", err)
		}
	}
	n := &Node{options: options, layout: layoutOf(dir)}
	if err := checkMachine(options); err != nil {
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

// claimPath is the lock of the machine's node. Only root can create files in /run. The lock also
// detects a node that is starting and has no cgroups yet.
const claimPath = "/run/pinfold-node.lock"

func claimMachine(path string) (*os.File, error) {
	claim, err := owned.Lock(path)
	if errors.Is(err, owned.ErrHeld) {
		return nil, errors.New("this machine is the node of another local cluster: stop that cluster first (pinfold-local down)")
	}
	if err != nil {
		return nil, fmt.Errorf("claim this machine: %w", err)
	}
	return claim, nil
}

// Release releases the claim on this machine, after Restore.
func (n *Node) Release() { release(n.claim) }

func release(claim *os.File) {
	_ = os.Remove(claim.Name()) // while it is locked; an unlocked file does no harm
	_ = claim.Close()           // nothing was written
}

// Address returns the node's address, on which the kubelet serves.
func (n *Node) Address() netip.Addr { return n.network.node }
