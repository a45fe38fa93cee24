package localnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// The CNI plugins, and the name that their files are known by.
const (
	networkPlugin = "ptp"
	addressPlugin = "host-local"
	networkName   = "pinfold-local"
)

// network is the addresses of a node and its pods.
type network struct {
	pods netip.Prefix // a /24: .1 is the machine's end of all links
	node netip.Addr   // its last usable address
}

func networkOf(prefix netip.Prefix) network {
	bytes := prefix.Addr().As4()
	bytes[3] = 254
	return network{pods: prefix, node: netip.AddrFrom4(bytes)}
}

// freeNetwork chooses a /24 that no interface has and no route leads to.
func freeNetwork() (network, error) {
	used, err := usedNetworks()
	if err != nil {
		return network{}, err
	}
	return chooseNetwork(used)
}

// podsRange is a part of 10.0.0.0/8 that few people use.
func podsRange() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, 0, 0}), 16) }

// podsBits is the length of the prefix of a node's pods.
const podsBits = 24

// chooseNetwork looks in podsRange.
func chooseNetwork(used []netip.Prefix) (network, error) {
	for third := range 256 {
		bytes := podsRange().Addr().As4()
		bytes[2] = byte(third)
		candidate := netip.PrefixFrom(netip.AddrFrom4(bytes), podsBits)
		free := true
		for _, prefix := range used {
			free = free && !prefix.Overlaps(candidate)
		}
		if free {
			return networkOf(candidate), nil
		}
	}
	return network{}, errors.New("no free network for pods: the machine uses, or routes, all of 10.213.0.0/16")
}

// usedNetworks returns the networks of all interfaces and routes but the default.
func usedNetworks() ([]netip.Prefix, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the machine's addresses: %w", err)
	}
	var used []netip.Prefix
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			used = append(used, prefix.Masked())
		}
	}
	text, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return nil, fmt.Errorf("list the machine's routes: %w", err)
	}
	routes, err := parseRoutes(string(text))
	return append(used, routes...), err
}

// parseRoutes reads /proc/net/route (net/ipv4/fib_trie.c, fib_route_seq_show):
// addresses and masks are in hexadecimal, in the byte order of the machine.
func parseRoutes(text string) ([]netip.Prefix, error) {
	var routes []netip.Prefix
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		fields := strings.Fields(line)
		if i == 0 || len(fields) == 0 {
			continue
		}
		if len(fields) < 8 {
			return nil, fmt.Errorf("/proc/net/route: line %d has %d fields, want at least 8", i+1, len(fields))
		}
		destination, err := strconv.ParseUint(fields[1], 16, 32)
		if err != nil {
			return nil, fmt.Errorf("/proc/net/route: line %d: destination: %w", i+1, err)
		}
		mask, err := strconv.ParseUint(fields[7], 16, 32)
		if err != nil {
			return nil, fmt.Errorf("/proc/net/route: line %d: mask: %w", i+1, err)
		}
		if ones, _ := net.IPMask(nativeBytes(uint32(mask))).Size(); ones > 0 {
			address := netip.AddrFrom4([4]byte(nativeBytes(uint32(destination))))
			routes = append(routes, netip.PrefixFrom(address, ones).Masked())
		}
	}
	return routes, nil
}

// networkConfig is the CNI configuration. The plugins' own records stay in dir.
func networkConfig(n network, dir string) ([]byte, error) {
	data, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0",
		"name":       networkName,
		"plugins": []any{map[string]any{
			"type":   networkPlugin,
			"ipMasq": false,
			"ipam": map[string]any{
				"type":    addressPlugin,
				"dataDir": dir,
				"ranges": []any{[]any{map[string]any{
					"subnet":   n.pods.String(),
					"rangeEnd": n.node.Prev().String(),
				}}},
				"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
			},
		}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the network's configuration: %w", err)
	}
	return append(data, '\n'), nil
}
