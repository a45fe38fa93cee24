package localnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// Restore ends what is left of the node whose directory this is and puts the machine
// back as it was. The components that a supervisor started should have ended. What
// cannot be put back is in the error, and is tried again by the next Restore; the
// directory itself stays. What is not the node's stays as well: the logger is told.
//
// The file in which a node wrote down how the machine was is believed only when it belongs
// to this user, when nobody else could have written it, and when all of it is what a node
// writes down. Otherwise nothing is changed.
func Restore(dir string, logger *slog.Logger) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find the node's directory: %w", err)
	}
	return restore(host(), layoutOf(dir), logger)
}

func restore(m machine, l layout, logger *slog.Logger) error {
	before, err := readSaved(m, l)
	if err != nil || before == nil {
		return err
	}
	if m.root == "/" && os.Geteuid() != 0 {
		return fmt.Errorf("put this machine back as it was: %w", ErrNotRoot)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), undoTimeout, fmt.Errorf("waited %v", undoTimeout))
	defer cancel()
	if err := before.undo(ctx, m, l, logger); err != nil {
		return fmt.Errorf("put this machine back as it was: %w; try again: pinfold-local down", err)
	}
	if err := os.Remove(l.path(savedName)); err != nil {
		return fmt.Errorf("put this machine back as it was: %w", err)
	}
	// A supervisor that was killed has left its claim. One that lives holds it.
	if claim, err := claimMachine(m.path(claimPath)); err == nil {
		release(claim)
	}
	return nil
}

// undo goes backwards through what the components did. What depends on nothing is done
// even when something else fails.
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

// unknown says that signs of other kubelets could not be looked for yet.
const unknown = "unknown"

// undoKernel puts back what the kernel keeps until it is started again. Processes come
// first, since they hold mounts, groups and network namespaces. When there is another
// kubelet, what it uses as well stays: the group above all pods, the controllers that
// are passed on to it, and sysctls.
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
	for _, root := range roots {
		sign, removeErr := removeContainers(ctx, filepath.Join(root, podsGroup), containers)
		err = errors.Join(err, removeErr)
		if others == "" {
			others = sign
		}
	}
	if others != "" {
		logger.Warn("stays: another kubelet has come since", "groups", podsGroup, "sysctls", "all", "sign", others)
		return others, err
	}
	for _, root := range roots {
		err = errors.Join(err, removeGroups(ctx, filepath.Join(root, podsGroup)))
	}
	return "", errors.Join(err, withdrawControllers(s.Controllers), writeSysctls(m, s.Sysctls))
}

// removeLinks deletes the machine's ends of the pods' links. Most go by themselves,
// with the pods' network namespaces.
func removeLinks(ctx context.Context, pods netip.Prefix) error {
	return retry(ctx, func() error {
		interfaces, err := net.Interfaces()
		if err != nil {
			return fmt.Errorf("list the network interfaces: %w", err)
		}
		left := 0
		for _, link := range interfaces {
			addresses, err := link.Addrs()
			if err != nil || !isPodLink(link.Name, addresses, pods) {
				continue // it may have gone meanwhile
			}
			left++
			if err := removeLink(link.Index); err != nil {
				return fmt.Errorf("remove network interface %s: %w", link.Name, err)
			}
		}
		if left > 0 {
			return fmt.Errorf("%d network interfaces of pods stay", left)
		}
		return nil
	})
}

// isPodLink reports whether an interface is the machine's end of a pod's link: CNI's ptp
// plugin names it veth and eight digits, and gives it the gateway's address alone.
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
