package kubelet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// checkPeer returns an error unless the other end of an accepted TCP connection is a socket of root
// in this network namespace, and not of a pod. The owner of the port's listener would not do: the
// port of a pod (hostPort) takes connections from it, and a listener may have been replaced
// meanwhile. The other end is the socket that will read what is sent. groups is where the control
// groups are mounted.
func checkPeer(conn net.Conn, groups string) error {
	ours, ok := conn.LocalAddr().(*net.TCPAddr)
	theirs, also := conn.RemoteAddr().(*net.TCPAddr)
	if !ok || !also {
		return fmt.Errorf("the connection is not TCP but %s", conn.RemoteAddr().Network())
	}
	s, err := diagnose(theirs, ours)
	switch {
	case errors.Is(err, unix.ENOENT):
		return errors.New("its socket is not in this network namespace: another machine or a pod's port has answered " +
			"(or the kernel lacks CONFIG_INET_TCP_DIAG)")
	case err != nil:
		return fmt.Errorf("find the owner of its socket: %w", err)
	case s.state != tcpEstablished || s.inode == 0: // closed, not yet accepted, or another one that listens
		return errors.New("its socket is not that of an accepted connection")
	case s.uid != 0:
		return fmt.Errorf("its socket belongs to user %d, not to root", s.uid)
	}
	return s.checkGroup(groups)
}

// peer is a TCP socket.
type peer struct {
	state byte
	// uid is the user whose process has accepted the connection, and inode not 0 if one has.
	uid, inode uint32
	// group is the number of the cgroup (version 2) in which the socket, or the one that listened,
	// was made. It is 0 if the kernel does not say.
	group uint64
}

// checkGroup returns an error if the socket was made in a pod: root there is root to the kernel,
// too.
func (s peer) checkGroup(groups string) error {
	var mount unix.Statfs_t
	if err := unix.Statfs(groups, &mount); err != nil || mount.Type != unix.CGROUP2_SUPER_MAGIC || s.group == 0 {
		return nil //nolint:nilerr // cgroup version 1, or Linux before 5.9
	}
	found := errors.New("its socket was made in a pod")
	err := filepath.WalkDir(groups, func(_ string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && !cgroup.IsGone(err): // a private group of another user
			found = fmt.Errorf("its socket was made in a pod, or in a group that cannot be listed: %w", err)
			return nil
		case err != nil || !d.IsDir():
			return nil //nolint:nilerr // a group that has ended
		case kubepods.IsTop(d.Name()):
			return fs.SkipDir
		}
		if info, err := d.Info(); err == nil && info.Sys().(*syscall.Stat_t).Ino == s.group { // the number is the inode
			found = nil
			return fs.SkipAll
		}
		return nil
	})
	return errors.Join(err, found)
}

// Of include/uapi/linux/inet_diag.h and include/net/tcp_states.h, in bytes where they are sizes.
const (
	tcpEstablished   = 1
	inetDiagCgroupID = 21
	inetDiagSockID   = 48
	inetDiagReqV2    = 8 + inetDiagSockID
	inetDiagMsg      = 4 + inetDiagSockID + 5*4
)

// diagnose asks the kernel for a TCP socket in this network namespace. It needs no privileges.
func diagnose(local, remote *net.TCPAddr) (peer, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return peer{}, err
	}
	defer unix.Close(socket)
	if err := unix.Sendto(socket, diagRequest(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return peer{}, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil {
		return peer{}, err
	}
	messages, err := syscall.ParseNetlinkMessage(answer[:n])
	switch {
	case err != nil:
		return peer{}, err
	case len(messages) == 1 && messages[0].Header.Type == unix.NLMSG_ERROR && len(messages[0].Data) >= 4:
		return peer{}, unix.Errno(-int32(binary.NativeEndian.Uint32(messages[0].Data)))
	case len(messages) != 1 || messages[0].Header.Type != unix.SOCK_DIAG_BY_FAMILY:
		return peer{}, errors.New("the kernel's answer is not about a socket")
	}
	return parsePeer(messages[0].Data)
}

// diagRequest returns a request for exactly one socket.
func diagRequest(local, remote *net.TCPAddr) []byte {
	request := make([]byte, unix.NLMSG_HDRLEN+inetDiagReqV2)
	binary.NativeEndian.PutUint32(request, uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST)
	body := request[unix.NLMSG_HDRLEN:]
	family, src, dst := byte(unix.AF_INET), local.IP.To4(), remote.IP.To4()
	if src == nil {
		family, src, dst = unix.AF_INET6, local.IP.To16(), remote.IP.To16()
	}
	body[0], body[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(body[4:], 1<<tcpEstablished)
	id := body[8:]
	binary.BigEndian.PutUint16(id, uint16(local.Port))
	binary.BigEndian.PutUint16(id[2:], uint16(remote.Port))
	copy(id[4:20], src)
	copy(id[20:36], dst)
	binary.NativeEndian.PutUint64(id[40:], 1<<64-1) // INET_DIAG_NOCOOKIE, twice
	return request
}

// parsePeer parses a struct inet_diag_msg and its attributes.
func parsePeer(message []byte) (s peer, err error) {
	if len(message) < inetDiagMsg {
		return peer{}, errors.New("the kernel's answer is too short")
	}
	s.state = message[1]
	s.uid = binary.NativeEndian.Uint32(message[inetDiagMsg-8:])
	s.inode = binary.NativeEndian.Uint32(message[inetDiagMsg-4:])
	for rest := message[inetDiagMsg:]; len(rest) >= unix.SizeofNlAttr; {
		length, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
		if length < unix.SizeofNlAttr || length > len(rest) {
			return peer{}, errors.New("the kernel's answer is cut short")
		}
		if kind == inetDiagCgroupID && length == unix.SizeofNlAttr+8 {
			s.group = binary.NativeEndian.Uint64(rest[unix.SizeofNlAttr:])
		}
		rest = rest[min(len(rest), (length+3)&^3):]
	}
	return s, nil
}
