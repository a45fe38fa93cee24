package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// tcpEstablished is the state of a connection (include/net/tcp_states.h).
const tcpEstablished = 1

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
	uid, err := ownerOf(theirs, ours)
	switch {
	case err != nil:
		return err
	case uid != 0:
		return fmt.Errorf("its socket belongs to user %d, not to root", uid)
	}
	return checkGroup(theirs, ours, groups)
}

// ownerOf returns the user whose process has accepted a connection.
func ownerOf(local, remote *net.TCPAddr) (uid uint64, err error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	sockets, err := proc.NetTCP()
	if err != nil {
		return 0, fmt.Errorf("find the owner of its socket: %w", err)
	}
	v6, err := proc.NetTCP6()
	if err != nil && !errors.Is(err, os.ErrNotExist) { // without IPv6
		return 0, fmt.Errorf("find the owner of its socket: %w", err)
	}
	for _, s := range append(sockets, v6...) {
		// Sockets that have been closed, or have not been accepted, have no inode.
		if s.St == tcpEstablished && s.Inode != 0 && int(s.LocalPort) == local.Port && int(s.RemPort) == remote.Port &&
			s.LocalAddr.Equal(local.IP) && s.RemAddr.Equal(remote.IP) {
			return s.UID, nil
		}
	}
	return 0, errors.New("its socket is not in this network namespace: another machine or a pod's port has answered")
}

// checkGroup returns an error if a socket was made in a pod, whose root is root in /proc/net/tcp,
// too. Only kernels with cgroup version 2 know that.
func checkGroup(local, remote *net.TCPAddr, groups string) error {
	var mount unix.Statfs_t
	if err := unix.Statfs(groups, &mount); err != nil || mount.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil //nolint:nilerr // cgroup version 1
	}
	id, err := groupOf(local, remote)
	if err != nil || id == 0 {
		return nil //nolint:nilerr // a kernel without CONFIG_INET_DIAG, or older than 5.9
	}
	found := errors.New("its socket was made in a pod")
	err = filepath.WalkDir(groups, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return nil //nolint:nilerr // a group that has ended
		case strings.HasPrefix(d.Name(), "kubepods"):
			return fs.SkipDir
		}
		if info, err := d.Info(); err == nil && info.Sys().(*syscall.Stat_t).Ino == id {
			found = nil
			return fs.SkipAll
		}
		return nil
	})
	return errors.Join(err, found)
}

// Of include/uapi/linux/inet_diag.h.
const (
	inetDiagCgroupID = 21
	inetDiagSockID   = 48 // size
	inetDiagReqV2    = 8 + inetDiagSockID
	inetDiagMsg      = 4 + inetDiagSockID + 5*4
)

// groupOf returns the number of the cgroup (version 2) in which a connection's socket was made: the
// inode of the cgroup's directory. It returns 0 if the kernel does not tell.
func groupOf(local, remote *net.TCPAddr) (id uint64, err error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(socket)
	request := make([]byte, unix.NLMSG_HDRLEN+inetDiagReqV2)
	binary.NativeEndian.PutUint32(request, uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST)
	body := request[unix.NLMSG_HDRLEN:]
	body[0], body[1] = unix.AF_INET6, unix.IPPROTO_TCP
	src, dst := local.IP.To16(), remote.IP.To16()
	if v4 := local.IP.To4(); v4 != nil {
		body[0], src, dst = unix.AF_INET, v4, remote.IP.To4()
	}
	binary.NativeEndian.PutUint32(body[4:], 1<<tcpEstablished)
	sockID := body[8:]
	binary.BigEndian.PutUint16(sockID, uint16(local.Port))
	binary.BigEndian.PutUint16(sockID[2:], uint16(remote.Port))
	copy(sockID[4:], src)
	copy(sockID[20:], dst)
	binary.NativeEndian.PutUint64(sockID[40:], 1<<64-1) // INET_DIAG_NOCOOKIE, twice
	if err := unix.Sendto(socket, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil {
		return 0, err
	}
	messages, err := syscall.ParseNetlinkMessage(answer[:n])
	if err != nil {
		return 0, err
	}
	return parseGroup(messages)
}

// parseGroup returns the number of the cgroup in the kernel's answer.
func parseGroup(messages []syscall.NetlinkMessage) (id uint64, err error) {
	if len(messages) == 0 || messages[0].Header.Type != unix.SOCK_DIAG_BY_FAMILY || len(messages[0].Data) < inetDiagMsg {
		return 0, errors.New("the kernel does not know the socket")
	}
	for rest := messages[0].Data[inetDiagMsg:]; len(rest) >= unix.SizeofNlAttr; {
		length, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
		if length < unix.SizeofNlAttr || length > len(rest) {
			break
		}
		if kind == inetDiagCgroupID && length >= unix.SizeofNlAttr+8 {
			return binary.NativeEndian.Uint64(rest[unix.SizeofNlAttr:]), nil
		}
		rest = rest[min(len(rest), (length+3)&^3):]
	}
	return 0, nil
}
