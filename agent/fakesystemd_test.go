package agent

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/systemd"
)

// fakeSystemd answers on the socket of systemd in a tree. Like systemd it handles one message at a
// time, and writes the CPUs of a unit after it has answered and before the next message.
type fakeSystemd struct {
	tree  *tree
	units map[string]string // groups by the names of their units
	turn  sync.Mutex        // held while a message is handled

	mu     sync.Mutex
	values map[string]map[string]godbus.Variant // properties by unit
	calls  map[string]int                       // of SetUnitProperties, by unit
	held   map[string]chan struct{}             // calls that wait until the channel is closed, by unit
	failed map[string]int                       // how many of the next calls fail, by unit
	drops  map[string]bool                      // the next call is carried out and not answered: systemd executes itself again
}

func newFakeSystemd(t *testing.T, k *tree, groups ...string) *fakeSystemd {
	t.Helper()
	socket := filepath.Join(k.root, systemd.Socket)
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	// The path of a socket is short: it is bound in a directory with a short name.
	short, err := os.MkdirTemp("", "sd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	listener, err := net.Listen("unix", filepath.Join(short, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	if err := os.Symlink(filepath.Join(short, "s"), socket); err != nil {
		t.Fatal(err)
	}
	s := &fakeSystemd{tree: k, units: map[string]string{}, values: map[string]map[string]godbus.Variant{}, calls: map[string]int{},
		held: map[string]chan struct{}{}, failed: map[string]int{}, drops: map[string]bool{}}
	for _, group := range groups {
		s.units[path.Base(group)] = group
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

// hold makes calls about the unit of a group wait until release is called.
func (s *fakeSystemd) hold(group string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{})
	s.held[path.Base(group)] = c
	return sync.OnceFunc(func() {
		s.mu.Lock()
		delete(s.held, path.Base(group))
		s.mu.Unlock()
		close(c)
	})
}

// fail makes the next n calls about the unit of a group fail.
func (s *fakeSystemd) fail(group string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[path.Base(group)] = n
}

// told returns how often systemd was told values of a group, and the CPUs that it knows.
func (s *fakeSystemd) told(group string) (calls int, cpus string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	unit := path.Base(group)
	mask, _ := s.values[unit]["AllowedCPUs"].Value().([]byte)
	return s.calls[unit], unmask(mask).String()
}

func unmask(mask []byte) (cpus cpuset.Set) {
	for i, bits := range mask {
		for bit := range 8 {
			if bits&(1<<bit) != 0 {
				cpus = cpus.Union(cpuset.Of(cpuset.CPU(8*i + bit)))
			}
		}
	}
	return cpus
}

// serve authenticates a client (D-Bus specification, "Authentication Protocol") and handles its
// messages.
func (s *fakeSystemd) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		answer := "ERROR"
		switch line = strings.Trim(line, "\x00\r\n"); {
		case line == "AUTH":
			answer = "REJECTED EXTERNAL"
		case strings.HasPrefix(line, "AUTH EXTERNAL"):
			answer = "OK 0123456789abcdef0123456789abcdef"
		}
		if line == "BEGIN" {
			break
		}
		fmt.Fprint(conn, answer+"\r\n")
	}
	for {
		message, err := godbus.DecodeMessage(in)
		if err != nil {
			return
		}
		s.turn.Lock()
		body, failure, then := s.handle(message)
		if failure == "drop" {
			then()
			s.turn.Unlock()
			return
		}
		_, err = conn.Write(encodeAnswer(message, body, failure))
		then()
		s.turn.Unlock()
		if err != nil {
			return
		}
	}
}

func encodeAnswer(to *godbus.Message, body any, failure string) []byte {
	answer := godbus.Message{Type: godbus.TypeMethodReply, Headers: map[godbus.HeaderField]godbus.Variant{
		godbus.FieldReplySerial: godbus.MakeVariant(to.Serial())}}
	if failure != "" {
		answer.Type = godbus.TypeError
		answer.Headers[godbus.FieldErrorName] = godbus.MakeVariant(failure)
	} else if body != nil {
		answer.Body = []any{body}
		answer.Headers[godbus.FieldSignature] = godbus.MakeVariant(godbus.SignatureOf(body))
	}
	var text bytes.Buffer
	if err := answer.EncodeTo(&text, binary.LittleEndian); err != nil {
		panic(err)
	}
	binary.LittleEndian.PutUint32(text.Bytes()[8:], to.Serial()) // the answer's own serial
	return text.Bytes()
}

// handle returns the answer to a message: a value, or the name of an error; and what follows it.
func (s *fakeSystemd) handle(m *godbus.Message) (body any, failure string, then func()) {
	then = func() {}
	switch m.Headers[godbus.FieldMember].Value() {
	case "GetAll":
		object, _ := m.Headers[godbus.FieldPath].Value().(godbus.ObjectPath)
		s.mu.Lock()
		defer s.mu.Unlock()
		for unit := range s.units {
			if strings.HasSuffix(string(object), "/"+dbus.PathBusEscape(unit)) {
				properties := map[string]godbus.Variant{}
				maps.Copy(properties, s.values[unit])
				return properties, "", then
			}
		}
		return nil, "org.freedesktop.DBus.Error.UnknownObject", then
	case "Get":
		return godbus.MakeVariant("active"), "", then
	case "SetUnitProperties":
		return s.set(m)
	}
	return nil, "", then
}

func (s *fakeSystemd) set(m *godbus.Message) (body any, failure string, then func()) {
	unit, _ := m.Body[0].(string)
	s.mu.Lock()
	s.calls[unit]++
	held := s.held[unit]
	s.mu.Unlock()
	if held != nil {
		<-held
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed[unit] > 0 {
		s.failed[unit]--
		return nil, "org.freedesktop.DBus.Error.InvalidArgs", func() {}
	}
	if s.values[unit] == nil {
		s.values[unit] = map[string]godbus.Variant{}
	}
	properties, _ := m.Body[2].([][]any)
	for _, p := range properties {
		s.values[unit][p[0].(string)] = p[1].(godbus.Variant)
	}
	mask, changed := s.values[unit]["AllowedCPUs"].Value().([]byte)
	failure = ""
	if s.drops[unit] {
		failure = "drop"
		delete(s.drops, unit)
	}
	return nil, failure, func() {
		if changed {
			name := s.tree.fs.File(s.units[unit], cgroup.CPUSetCPUs) // at once, like the kernel
			_ = os.WriteFile(name+".new", []byte(unmask(mask).String()+"\n"), 0o644)
			_ = os.Rename(name+".new", name)
		}
	}
}
