package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/local/simnode"
)

// nodeGroups parses the values of --nodes and --machine.
func nodeGroups(shapes, files []string) ([]simnode.Group, error) {
	var groups []simnode.Group
	for _, text := range shapes {
		shape, count, err := simnode.ParseCount(text)
		if err != nil {
			return nil, frame.Usagef("--nodes %w", err)
		}
		machine, name, err := machineOfShape(shape)
		if err != nil {
			return nil, err
		}
		groups = append(groups, simnode.Group{Name: name, Machine: machine, Count: count})
	}
	for _, text := range files {
		path, count, err := simnode.ParseCount(text)
		if err != nil {
			return nil, frame.Usagef("--machine %w", err)
		}
		machine, err := readMachine(path)
		if err != nil {
			return nil, err
		}
		groups = append(groups, simnode.Group{Name: nodeName(path), Machine: machine, Count: count})
	}
	return groups, nil
}

// hostShape is the shape of this machine.
const hostShape = "host"

func machineOfShape(text string) (*topology.Machine, string, error) {
	if text == hostShape {
		machine, err := hostMachine()
		return machine, hostShape, err
	}
	shape, name, err := simnode.ParseShape(text)
	if err != nil && !strings.Contains(text, ":") {
		err = fmt.Errorf("%w; %s is this machine", err, hostShape)
	}
	if err != nil {
		return nil, "", frame.Usagef("--nodes: %w", err)
	}
	machine, err := shape.Build()
	if err != nil {
		return nil, "", frame.Usagef("--nodes: %w", err)
	}
	return machine, name, nil
}

// hostMachine reads the topology of this machine.
func hostMachine() (*topology.Machine, error) {
	machine, _, err := sysfs.Host(cpuset.Set{})
	if err != nil {
		return nil, fmt.Errorf("read this machine's topology: %w", err)
	}
	return machine, nil
}

func readMachine(path string) (*topology.Machine, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read machine: %w", err)
	}
	defer file.Close()
	machine, err := topology.Decode(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return machine, nil
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// nodeName returns the name of a file as the name of a node: lower-case letters, digits and
// hyphens, with room for a number.
func nodeName(path string) string {
	base := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(base), "-"), "-")
	if len(name) > 50 {
		name = strings.TrimRight(name[:50], "-")
	}
	if name == "" {
		return "machine"
	}
	return name
}
