package localnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

func nativeBytes(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// addressLabel is how ip(8) shows the node's address.
const addressLabel = "lo:pinfold"

// addAddress puts an address on the loopback interface.
func addAddress(address netip.Addr) error {
	const flags = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	if err := changeAddress(unix.RTM_NEWADDR, flags, address); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add %s to the loopback interface: %w", address, err)
	}
	return nil
}

// removeAddress takes it off again. One that is not there is no error.
func removeAddress(address netip.Addr) error {
	if err := changeAddress(unix.RTM_DELADDR, 0, address); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("remove %s from the loopback interface: %w", address, err)
	}
	return nil
}

// changeAddress sends one request of rtnetlink(7): a struct ifaddrmsg and the
// attributes IFA_LOCAL and IFA_LABEL.
func changeAddress(request uint16, flags uint16, address netip.Addr) error {
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

// removeLink deletes a network interface, and with one end of a pair the other.
func removeLink(index int) error {
	body := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(body[4:], uint32(index))
	if err := routeRequest(unix.RTM_DELLINK, 0, body); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	return nil
}

// appendAttribute adds a struct rtattr with its value, padded to 4 bytes.
func appendAttribute(message []byte, kind uint16, value []byte) []byte {
	message = binary.NativeEndian.AppendUint16(message, uint16(unix.SizeofRtAttr+len(value)))
	message = binary.NativeEndian.AppendUint16(message, kind)
	message = append(message, value...)
	for len(message)%4 != 0 {
		message = append(message, 0)
	}
	return message
}

// routeRequest sends a request to the kernel and waits for its answer.
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

// parseAnswer reads a struct nlmsgerr: what the kernel says to a request.
func parseAnswer(answer []byte) error {
	if len(answer) < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return fmt.Errorf("the kernel's answer is not understood: % x", answer)
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
