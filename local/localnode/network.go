package localnode

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The CNI plugins, and the name of the network, which is part of the names of their files.
const (
	networkPlugin = "ptp"
	addressPlugin = "host-local"
	networkName   = "pinfold-local"
)

// network contains the addresses of a node and its pods.
type network struct {
	pods netip.Prefix // a /24; .1 is the machine's end of all links
	node netip.Addr   // the last usable address of the /24
}

func networkOf(prefix netip.Prefix) network {
	bytes := prefix.Addr().As4()
	bytes[3] = 254
	return network{pods: prefix, node: netip.AddrFrom4(bytes)}
}

// freeNetwork returns a /24 that no interface and no route uses.
func freeNetwork() (network, error) {
	used, err := usedNetworks()
	if err != nil {
		return network{}, err
	}
	return chooseNetwork(used)
}

// podsRange is a part of 10.0.0.0/8 that is rarely used.
func podsRange() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, 0, 0}), 16) }

// podsBits is the prefix length of a node's pod network.
const podsBits = 24

// chooseNetwork returns the first network of podsRange that overlaps no used one.
func chooseNetwork(used []netip.Prefix) (network, error) {
	for third := range 256 {
		bytes := podsRange().Addr().As4()
		bytes[2] = byte(third)
		candidate := netip.PrefixFrom(netip.AddrFrom4(bytes), podsBits)
		if !slices.ContainsFunc(used, candidate.Overlaps) {
			return networkOf(candidate), nil
		}
	}
	return network{}, errors.New("no free network for pods: the machine uses, or routes, all of 10.213.0.0/16")
}

// usedNetworks returns the networks of all interfaces and routes except the default route.
func usedNetworks() (used []netip.Prefix, err error) {
	add := func(network string) {
		if prefix, err := netip.ParsePrefix(network); err == nil && prefix.Bits() > 0 {
			used = append(used, prefix.Masked())
		}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the machine's addresses: %w", err)
	}
	for _, address := range addresses {
		add(address.String())
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	for errors.Is(err, netlink.ErrDumpInterrupted) { // they changed meanwhile
		routes, err = netlink.RouteList(nil, netlink.FAMILY_V4)
	}
	if err != nil {
		return nil, fmt.Errorf("list the machine's routes: %w", err)
	}
	for _, route := range routes {
		add(route.Dst.String())
	}
	return used, nil
}

// addressLabel is the label of the node's address, which ip(8) shows.
const addressLabel = "lo:pinfold"

// addAddress adds an address to the loopback interface, unless it exists.
func addAddress(address netip.Addr) error {
	return changeAddress("add", netlink.AddrAdd, address, unix.EEXIST)
}

// removeAddress removes an address from the loopback interface, if it exists.
func removeAddress(address netip.Addr) error {
	return changeAddress("remove", netlink.AddrDel, address, unix.EADDRNOTAVAIL)
}

// changeAddress adds or removes an address. The error done means that there is nothing to change.
func changeAddress(what string, change func(netlink.Link, *netlink.Addr) error, address netip.Addr, done error) error {
	loopback, err := netlink.LinkByName("lo")
	if err == nil {
		err = change(loopback, &netlink.Addr{IPNet: netlink.NewIPNet(address.AsSlice()), Label: addressLabel, Scope: unix.RT_SCOPE_HOST})
	}
	if err != nil && !errors.Is(err, done) {
		return fmt.Errorf("%s %s on the loopback interface: %w", what, address, err)
	}
	return nil
}
