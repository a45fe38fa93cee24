package localnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/kubepods"
)

// undoTimeout limits Restore. With a hundred pods on an idle machine, the kernel takes a second or
// two to remove namespaces and cgroups.
const undoTimeout = time.Minute

// Restore ends what remains of the node with the given directory and restores the state of the
// machine. The components that a supervisor started should have ended. The error lists what could
// not be restored; the next Restore tries again. The directory itself is kept. What does not belong
// to the node is kept as well, and logged.
//
// Restore changes nothing if the recorded state could have been written by another user, or differs
// in any way from what a node records.
func Restore(dir string, logger *slog.Logger) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find the node's directory: %w", err)
	}
	return restore(host(), layoutOf(dir), logger)
}

// IsChanged reports whether the node with the given directory has changed this machine and did not
// restore it.
func IsChanged(dir string) bool {
	_, err := os.Lstat(layoutOf(dir).path(savedName))
	return err == nil
}

func restore(m machine, l layout, logger *slog.Logger) error {
	before, err := readSaved(m, l)
	if err != nil || before == nil {
		return err
	}
	if m.root == "/" && os.Geteuid() != 0 {
		return fmt.Errorf("restore this machine: %w", errNotRoot)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), undoTimeout, fmt.Errorf("waited %v", undoTimeout))
	defer cancel()
	if err := before.undo(ctx, m, l, logger); err != nil {
		return fmt.Errorf("restore this machine: %w; try again: pinfold-local down", err)
	}
	if err := os.Remove(l.path(savedName)); err != nil {
		return fmt.Errorf("restore this machine: %w", err)
	}
	// A killed supervisor has left the file of its claim. A running one holds the lock.
	if claim, err := claimMachine(m.path(claimPath)); err == nil {
		release(claim)
	}
	return nil
}

// undo undoes the changes in reverse order. After an error it continues with what does not depend
// on the failed step.
func (s *saved) undo(ctx context.Context, m machine, l layout, logger *slog.Logger) error {
	boot, err := m.boot()
	if err != nil {
		return err
	}
	others, err := otherKubelet(m, l)
	if err != nil {
		return err
	}
	if s.Boot == boot {
		if others, err = s.undoKernel(ctx, m, l, others, logger); err != nil && others == unknown {
			return err
		}
	}
	return errors.Join(err, removeOutside(m, l.dir, s.Made, others, logger), removeRun(l, logger))
}

// unknown means that it is not known yet whether there is another kubelet.
const unknown = "unknown"

// undoKernel undoes what lasts until the next boot. Processes come first, because they hold mounts,
// cgroups and network namespaces. others is "", or a sign of another kubelet. If
// there is another kubelet, what it shares with this node is kept: the parent cgroup of all pods,
// the controllers that are passed on to it, and the sysctls. The result is others, or a sign found
// here.
func (s *saved) undoKernel(ctx context.Context, m machine, l layout, others string, logger *slog.Logger) (string, error) {
	roots, err := m.hierarchies()
	if err != nil {
		return unknown, err
	}
	containers, err := containersOf(l)
	if err != nil {
		return unknown, err
	}
	if err := killAll(ctx, l, roots, containers); err != nil {
		return unknown, err
	}
	err = unmountBelow(l.dir)
	if isRunOf(l) {
		err = errors.Join(err, unmountBelow(l.run))
	}
	err = errors.Join(err, removeLinks(ctx, s.Pods), removeAddress(networkOf(s.Pods).node))
	withSlices := false // whether there are groups of the driver systemd
	for _, root := range roots {
		for _, n := range namings() {
			if _, statErr := os.Stat(n.top(root)); statErr == nil && n.Driver == kubepods.Systemd {
				withSlices = true
			}
			sign, removeErr := n.removeContainers(ctx, root, containers)
			err = errors.Join(err, removeErr)
			others = cmp.Or(others, sign)
		}
	}
	if others != "" {
		logger.Warn("kept cgroups and sysctls: there is another kubelet", "groups", "kubepods", "sysctls", "all", "sign", others)
		return others, err
	}
	if withSlices {
		err = errors.Join(err, stopSlice(ctx))
	}
	for _, root := range roots {
		for _, n := range namings() {
			err = errors.Join(err, cgrouptree.RemoveDir(ctx, n.top(root)))
		}
	}
	return "", errors.Join(err, restoreControllers(s.Controllers), writeSysctls(m, s.Sysctls))
}

// removeLinks removes the machine's ends of the pods' links. Most disappear with the network
// namespaces of the pods.
func removeLinks(ctx context.Context, pods netip.Prefix) error {
	return sleep.Until(ctx, undoPause, func() (string, error) {
		interfaces, err := net.Interfaces()
		for _, link := range interfaces {
			addresses, addrErr := link.Addrs()
			if addrErr != nil || !isPodLink(link.Name, addresses, pods) {
				continue // it may have disappeared meanwhile
			}
			device := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: link.Index}}
			if err = netlink.LinkDel(device); err == nil || errors.Is(err, unix.ENODEV) {
				err = errors.New("it remains")
			}
			err = fmt.Errorf("remove network interface %s: %w", link.Name, err)
		}
		return text(err), nil
	})
}

// isPodLink reports whether an interface is the machine's end of a pod's link. CNI's ptp plugin
// names it "veth" and eight digits, and its only address is that of the gateway.
func isPodLink(name string, addresses []net.Addr, pods netip.Prefix) bool {
	gateway := netip.PrefixFrom(pods.Addr().Next(), pods.Addr().BitLen())
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if err == nil && prefix == gateway && strings.HasPrefix(name, "veth") {
			return true
		}
	}
	return false
}
