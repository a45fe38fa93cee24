package localnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
)

// Restore ends what is left of the node whose directory this is and puts the machine
// back as it was. The components that a supervisor started should have ended. What
// cannot be put back is in the error, and is tried again by the next Restore; the
// directory itself stays.
func Restore(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find the node's directory: %w", err)
	}
	l := layoutOf(dir)
	before, err := readSaved(l)
	if err != nil || before == nil {
		return err
	}
	l.run = before.Run
	ctx, cancel := context.WithTimeoutCause(context.Background(), undoTimeout, fmt.Errorf("waited %v", undoTimeout))
	defer cancel()
	if err := before.undo(ctx, l); err != nil {
		return fmt.Errorf("put this machine back as it was: %w; try again: pinfold-local down", err)
	}
	if err := os.Remove(l.path(savedName)); err != nil {
		return fmt.Errorf("put this machine back as it was: %w", err)
	}
	return nil
}

// undo goes backwards through what the components did. Processes come first, since
// they hold mounts, groups and network namespaces. What depends on nothing is done
// even when something else fails.
func (s *saved) undo(ctx context.Context, l layout) error {
	if err := killAll(ctx, l, s.Hierarchies); err != nil {
		return err
	}
	err := errors.Join(unmountBelow(l.dir), unmountBelow(l.run))
	for _, root := range s.Hierarchies {
		err = errors.Join(err, removeGroups(ctx, filepath.Join(root, podsGroup)))
	}
	return errors.Join(err,
		writeDelegations(s.Delegations),
		removeLinks(ctx, s.Pods),
		removeAddress(networkOf(s.Pods).node),
		writeSettings(s.Sysctls),
		removeTraces(l.dir),
		removePlaces(append(s.Absent, l.run)),
	)
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
			ours, err := isPodLink(link, pods)
			if err != nil || !ours {
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

// isPodLink tells whether an interface has the machine's address in the pods' network.
func isPodLink(link net.Interface, pods netip.Prefix) (bool, error) {
	if link.Flags&net.FlagLoopback != 0 {
		return false, nil
	}
	addresses, err := link.Addrs()
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && pods.Contains(prefix.Addr()) {
			return true, nil
		}
	}
	return false, err
}
