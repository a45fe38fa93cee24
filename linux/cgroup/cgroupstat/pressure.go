package cgroupstat

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
	"pinfold.dev/pinfold/linux/feature"
)

// Pressure is how long the threads of a group waited for CPU time, because others used the CPUs or
// because the group was throttled (PSI, Documentation/accounting/psi.rst).
type Pressure struct {
	// Total is the time in which at least one thread waited, since the group was created.
	Total time.Duration
	// Recent is such time in the last ten seconds as a part of these, from 0 to 1.
	Recent float64
}

// ReadPressure reads cpu.pressure of a group. The error wraps errors.ErrUnsupported on version 1
// and if the kernel does not measure pressure.
func ReadPressure(fs *cgroup.FS, group string) (Pressure, error) {
	if fs.Layout().CPU == cgroup.V1 {
		return Pressure{}, &feature.UnsupportedError{Feature: feature.Pressure, What: "version 1 of control groups has no cpu.pressure", Do: "use version 2"}
	}
	return cgroup.ReadAs(fs, group, cgroup.CPUPressure, parsePressure)
}

// parseWaited parses the total of cpu.pressure without allocation, except for errors.
func parseWaited(text []byte) (time.Duration, error) {
	_, rest, _ := bytes.Cut(text, []byte("total="))
	value, _, _ := bytes.Cut(rest, []byte("\n"))
	n, err := kernfile.Number(value)
	if err != nil || n > uint64(math.MaxInt64/time.Microsecond) {
		return 0, fmt.Errorf("%q is not a measure of pressure", text)
	}
	return time.Duration(n) * time.Microsecond, nil
}

// parsePressure parses the first line of cpu.pressure: "some avg10=0.25 avg60=0.10 avg300=0.02
// total=81216", in percent and microseconds.
func parsePressure(text string) (p Pressure, err error) {
	line, _, _ := strings.Cut(text, "\n")
	values := map[string]string{}
	words := strings.Fields(line)
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		values[name] = value
	}
	percent, err := strconv.ParseFloat(values["avg10"], 64)
	if len(words) == 0 || words[0] != "some" || err != nil || !(percent >= 0 && percent <= 100) {
		return Pressure{}, fmt.Errorf("%q is not a measure of pressure", line)
	}
	p.Recent = percent / 100
	p.Total, err = parseWaited([]byte(line))
	return p, err
}
