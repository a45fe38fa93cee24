// Package systemd sets the CPU settings of the control groups that systemd manages: those of slices
// and scopes. What a program writes to their files lasts only until systemd writes its own values
// again, as after "systemctl daemon-reload". So systemd must know the values.
//
//	units, err := systemd.Connect(ctx, "/")
//	err = units.Set(ctx, "/kubepods.slice/kubepods-podU_I_D.slice", cgroup.Wanted{Quota: &quota, Period: &period})
//
// systemd writes the files itself when it is told: with the same values, if package cgroup has
// applied these before. It has no setting for a burst, and leaves it alone. See
// systemd.resource-control(5) and org.freedesktop.systemd1(5).
package systemd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Units is a connection to systemd.
type Units struct{ conn *dbus.Conn }

// Socket is where systemd answers root without a message bus, below the machine's root directory.
const Socket = "run/systemd/private"

// Running reports whether systemd runs on the machine with the given root directory (sd_booted(3)),
// and can be reached there.
func Running(root string) bool {
	_, err := os.Stat(filepath.Join(root, Socket))
	return err == nil
}

// Connect connects to the systemd of the machine with the given root directory. It needs root. The
// context limits the connection's life.
func Connect(ctx context.Context, root string) (*Units, error) {
	path := filepath.Join(root, Socket)
	conn, err := dbus.NewConnection(func() (*godbus.Conn, error) {
		conn, err := godbus.Dial("unix:path="+path, godbus.WithContext(ctx))
		if err != nil {
			return nil, err
		}
		if err := conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	})
	if err != nil {
		return nil, fmt.Errorf("connect to systemd at %s: %w", path, err)
	}
	return &Units{conn}, nil
}

// Close closes the connection.
func (u *Units) Close() { u.conn.Close() }

// Connected reports whether systemd still answers on the connection. It does not after it has
// executed itself again.
func (u *Units) Connected() bool { return u.conn.Connected() }

// Set sets CPUs, quota, period and weight of the unit of a group, until the next boot, and returns
// when systemd has written them. A quota must come with its period. A group that is no unit, and a
// unit that has ended, are not errors. Properties that have the wanted value already are not set,
// because systemd would write the quota again, which refills it.
//
// When the context ends before Set returns, systemd may still carry it out later.
func (u *Units) Set(ctx context.Context, group string, wanted cgroup.Wanted) error {
	unit := path.Base(group)
	kind, ok := kinds[path.Ext(unit)]
	properties := propertiesOf(wanted)
	if !ok || len(properties) == 0 {
		return nil
	}
	present, err := u.conn.GetUnitTypePropertiesContext(ctx, unit, kind)
	if err == nil {
		if properties = differing(present, properties); len(properties) == 0 {
			return nil
		}
		err = u.conn.SetUnitPropertiesContext(ctx, unit, true, properties...)
	}
	switch {
	case err == nil:
		// systemd writes the files after it has answered, and before it answers the next call.
		_, _ = u.conn.GetUnitPropertyContext(ctx, unit, "ActiveState")
		return nil
	case isGone(err):
		return nil
	}
	return fmt.Errorf("set properties of %s: %w", unit, err)
}

// Stop stops a unit and everything in it, and returns when that has ended. A unit that does not
// exist is not an error.
func (u *Units) Stop(ctx context.Context, unit string) error {
	result := make(chan string, 1)
	if _, err := u.conn.StopUnitContext(ctx, unit, "replace", result); err != nil {
		if isGone(err) {
			return nil
		}
		return fmt.Errorf("stop %s: %w", unit, err)
	}
	select {
	case r := <-result:
		if r != "done" {
			return fmt.Errorf("stop %s: %s", unit, r)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", unit, context.Cause(ctx))
	}
}

// kinds are the types of units that have control groups of pods, by suffix.
var kinds = map[string]string{".slice": "Slice", ".scope": "Scope"}

// propertiesOf returns systemd's properties for settings.
func propertiesOf(w cgroup.Wanted) (properties []dbus.Property) {
	add := func(name string, value any) {
		properties = append(properties, dbus.Property{Name: name, Value: godbus.MakeVariant(value)})
	}
	if w.CPUs != nil {
		add("AllowedCPUs", mask(*w.CPUs))
	}
	if w.Quota != nil && w.Period != nil {
		add("CPUQuotaPerSecUSec", perSecond(*w.Quota, *w.Period))
	}
	if w.Period != nil {
		add("CPUQuotaPeriodUSec", uint64(w.Period.Microseconds()))
	}
	switch {
	case w.Idle != nil && *w.Idle:
		add("CPUWeight", uint64(0)) // "idle"
	case w.Weight != nil:
		add("CPUWeight", uint64(*w.Weight))
	}
	return properties
}

// perSecond returns CPUQuotaPerSecUSec for a quota, in microseconds per second, rounded up.
func perSecond(quota, period time.Duration) uint64 {
	if quota == bandwidth.Unlimited {
		return math.MaxUint64
	}
	return uint64(math.Ceil(float64(quota.Microseconds()) / period.Seconds()))
}

// mask returns CPUs as systemd's bit mask: CPU 0 is the lowest bit of the first byte.
func mask(cpus cpuset.Set) []byte {
	bits := []byte{}
	for cpu := range cpus.All() {
		for len(bits) <= int(cpu/8) {
			bits = append(bits, 0)
		}
		bits[cpu/8] |= 1 << (cpu % 8)
	}
	return bits
}

// differing returns the properties that do not have the wanted value.
func differing(present map[string]any, wanted []dbus.Property) (properties []dbus.Property) {
	for _, p := range wanted {
		value := p.Value.Value()
		have := present[p.Name]
		if bits, ok := value.([]byte); ok {
			if had, ok := have.([]byte); ok && slices.Equal(trim(had), trim(bits)) {
				continue
			}
		} else if have == value {
			continue
		}
		properties = append(properties, p)
	}
	return properties
}

// trim removes the zero bytes at the end of a mask.
func trim(bits []byte) []byte { return []byte(strings.TrimRight(string(bits), "\x00")) }

// isGone reports whether an error says that a unit does not exist.
func isGone(err error) bool {
	var answer godbus.Error
	return errors.As(err, &answer) && (answer.Name == "org.freedesktop.systemd1.NoSuchUnit" ||
		answer.Name == "org.freedesktop.DBus.Error.UnknownObject")
}
