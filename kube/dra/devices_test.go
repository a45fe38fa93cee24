package dra

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/golden"
)

// TestDevices plays testdata/devices.txt. These are the commands:
//
//	machine packages=2 threads=2   counts per parent
//	kind performance 0-3           these CPUs are of a kind
//	llc 1048576 0-3                these CPUs share a cache of this size
//	nowhere 4-7                    these CPUs have no NUMA node
//	devices GROUPING               the devices
//	sort FREE                      the order in which devices with these free CPUs are published
//	describe DEVICE [lists] [requests] [pci...]   a device as it is published, with PCIe roots
func TestDevices(t *testing.T) {
	golden.Scenarios(t, "testdata/devices.txt", func(t *testing.T, text string) string {
		var s devicesScenario
		return golden.Blocks(t, text, s.run)
	})
}

type devicesScenario struct {
	machine *topology.Machine
	devices []Device
}

func (s *devicesScenario) run(words []string) (out string, err error) {
	switch words[0] {
	case "machine":
		var shape topology.Shape
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			if *shape.Count(key), err = strconv.Atoi(value); err != nil {
				return "", err
			}
		}
		s.machine, err = shape.Build()
	case "devices":
		s.devices = Devices(s.machine, Grouping(words[1]))
		for _, d := range s.devices {
			out += fmt.Sprintf("%s: %d CPUs, %s\n", d.Name, d.Size, d.CPUs)
		}
	case "sort":
		free, err := cpuset.Parse(words[1])
		if err != nil {
			return "", err
		}
		Sort(s.devices, s.machine, free)
		for _, d := range s.devices {
			out += fmt.Sprintf("%s: %s free\n", d.Name, d.CPUs.Intersection(free))
		}
	case "describe":
		return s.describe(words[1], words[2:])
	default:
		err = s.change(words[0], words[1], words[len(words)-1])
	}
	return out, err
}

func (s *devicesScenario) describe(name string, words []string) (string, error) {
	at := slices.IndexFunc(s.devices, func(d Device) bool { return d.Name == name })
	var f Features
	var roots []string
	for _, word := range words {
		switch word {
		case "lists":
			f.Lists = true
		case "requests":
			f.Requests = true
		case "33-roots":
			roots = strings.Split(strings.Repeat("pci0000:00 ", 33), " ")[:33]
		default:
			roots = append(roots, word)
		}
	}
	text, err := json.Marshal(s.devices[at].Describe(s.machine, roots, f))
	if err != nil {
		return "", err
	}
	var fields map[string]json.RawMessage
	err = json.Unmarshal(text, &fields)
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(&out, "%s: %s\n", name, fields[name])
	}
	return out.String(), err
}

// change changes some CPUs.
func (s *devicesScenario) change(what, value, list string) error {
	cpus, err := cpuset.Parse(list)
	for i := range s.machine.CPUs {
		cpu := &s.machine.CPUs[i]
		if !cpus.Contains(cpu.ID) {
			continue
		}
		switch what {
		case "kind":
			cpu.Kind = topology.Kind(value)
		case "llc":
			cpu.LLC = topology.LLCID(cpus.First())
			bytes, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return err
			}
			if s.machine.LLCBytes == nil {
				s.machine.LLCBytes = map[topology.LLCID]uint64{}
			}
			s.machine.LLCBytes[cpu.LLC] = bytes
		case "nowhere":
			cpu.NUMA = topology.NoNUMA
			for n := range s.machine.NUMANodes {
				s.machine.NUMANodes[n].CPUs.Remove(cpu.ID)
			}
		default:
			return fmt.Errorf("no command %s", what)
		}
	}
	return err
}
