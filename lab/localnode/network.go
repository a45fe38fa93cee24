package localnode

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

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

// parseRoutes parses /proc/net/route (net/ipv4/fib_trie.c, fib_route_seq_show). Addresses and masks
// are hexadecimal numbers in the machine's byte order.
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

// networkConfig returns the CNI configuration. The plugins keep their records in dir.
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

// nativeBytes returns the bytes of n in the machine's byte order.
func nativeBytes(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// addressLabel is the label of the node's address, which ip(8) shows.
const addressLabel = "lo:pinfold"

// addAddress adds an address to the loopback interface, unless it exists.
func addAddress(address netip.Addr) error {
	const flags = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	if err := changeAddress(unix.RTM_NEWADDR, flags, address); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add %s to the loopback interface: %w", address, err)
	}
	return nil
}

// removeAddress removes an address from the loopback interface, if it exists.
func removeAddress(address netip.Addr) error {
	if err := changeAddress(unix.RTM_DELADDR, 0, address); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("remove %s from the loopback interface: %w", address, err)
	}
	return nil
}

// changeAddress sends an rtnetlink(7) request: a struct ifaddrmsg with the attributes IFA_LOCAL and
// IFA_LABEL.
func changeAddress(request, flags uint16, address netip.Addr) error {
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		return fmt.Errorf("find it: %w", err)
	}
	body := []byte{unix.AF_INET, 32, 0, unix.RT_SCOPE_HOST}
	body = append(body, nativeBytes(uint32(loopback.Index))...)
	body = appendAttribute(body, unix.IFA_LOCAL, address.AsSlice())
	body = appendAttribute(body, unix.IFA_LABEL, append([]byte(addressLabel), 0))
	return routeRequest(request, flags, body)
}

// removeLink removes a network interface, and the other end of a pair.
func removeLink(index int) error {
	body := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(body[4:], uint32(index))
	if err := routeRequest(unix.RTM_DELLINK, 0, body); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	return nil
}

// appendAttribute appends a struct rtattr and its value, padded to 4 bytes.
func appendAttribute(message []byte, kind uint16, value []byte) []byte {
	message = binary.NativeEndian.AppendUint16(message, uint16(unix.SizeofRtAttr+len(value)))
	message = binary.NativeEndian.AppendUint16(message, kind)
	message = append(message, value...)
	for len(message)%4 != 0 {
		message = append(message, 0)
	}
	return message
}

// routeRequest sends an rtnetlink(7) request and returns the kernel's answer.
func routeRequest(kind, flags uint16, body []byte) error {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(socket)
	message := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	message = binary.NativeEndian.AppendUint16(message, kind)
	message = binary.NativeEndian.AppendUint16(message, flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	message = append(message, make([]byte, 8)...) // sequence number and port: one request, one answer
	message = append(message, body...)
	if err := unix.Sendto(socket, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil {
		return os.NewSyscallError("recvfrom", err)
	}
	return parseAnswer(answer[:n])
}

// parseAnswer parses a struct nlmsgerr, the kernel's answer to a request.
func parseAnswer(answer []byte) error {
	if len(answer) < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return fmt.Errorf("unexpected answer of the kernel: % x", answer)
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
