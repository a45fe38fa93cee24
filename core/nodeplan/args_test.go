package nodeplan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
)

// eachArg parses arguments of the form KEY=VALUE or KEY.
func eachArg(words []string, read func(key, value string) error) error {
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		if err := read(key, value); err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
	}
	return nil
}

func (s *scenario) setMachine(words []string) error {
	var shape topology.Shape
	var offline cpuset.Set
	memoryNode := -1
	err := eachArg(words, func(key, value string) (err error) {
		if key == "offline" {
			offline, err = cpuset.Parse(value)
			return err
		}
		count := shape.Count(key)
		if key == "memory-node" {
			count = &memoryNode
		}
		if count == nil {
			return fmt.Errorf("unknown argument")
		}
		*count, err = strconv.Atoi(value)
		return err
	})
	if err != nil {
		return err
	}
	m, err := shape.Build()
	if err != nil {
		return err
	}
	topologytest.TakeOffline(m, offline)
	if memoryNode >= 0 {
		addMemoryNode(m, topology.NUMAID(memoryNode))
	}
	s.state.Index = placement.NewIndex(m)
	return nil
}

// addMemoryNode adds a node with the highest number, near the CPUs of the first node.
func addMemoryNode(m *topology.Machine, id topology.NUMAID) {
	n := topology.NUMANode{ID: id, LocalCPUs: m.NUMANodes[0].CPUs, MemoryBytes: 1 << 30}
	for i := range m.NUMANodes {
		m.NUMANodes[i].Distances = append(m.NUMANodes[i].Distances, 20)
		n.Distances = append(n.Distances, 20)
	}
	n.Distances = append(n.Distances, 10)
	m.NUMANodes = append(m.NUMANodes, n)
}

func (s *scenario) setConfig(words []string) error {
	s.state.Config = ledger.Config{}
	return eachArg(words, func(key, value string) (err error) {
		switch key {
		case "reserved":
			s.state.Config.Reserved, err = parseMilli(value)
		case "cpus":
			s.state.Config.ReservedCPUs, err = cpuset.Parse(value)
		case "min-shared":
			s.state.Config.MinShared, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("unknown argument")
		}
		return err
	})
}

func (s *scenario) setKubelet(words []string) error {
	return eachArg(words, func(key, value string) (err error) {
		switch key {
		case "no-quota":
			s.state.Kubelet.NoQuota = true
		case "period":
			s.state.Kubelet.Period, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("unknown argument")
		}
		return err
	})
}

func (s *scenario) setBurst(words []string) error {
	s.burst.Mode = burst.Mode(words[0])
	return eachArg(words[1:], func(key, value string) (err error) {
		switch key {
		case "percent":
			s.burst.BurstPercent, err = strconv.Atoi(value)
		case "quota":
			s.burst.QuotaPercent, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("unknown argument")
		}
		return err
	})
}

// parseBurst parses MODE or MODE:PERCENT.
func parseBurst(text string) (b burst.Policy, err error) {
	mode, percent, given := strings.Cut(text, ":")
	if b.Mode = burst.Mode(mode); given {
		b.BurstPercent, err = strconv.Atoi(percent)
	}
	return b, err
}

func (s *scenario) setBusy(words []string) error {
	s.state.Usage.Sequence++
	s.state.Usage.Busy = map[cpuset.CPU]ledger.MilliCPU{}
	return eachArg(words, func(key, value string) error {
		cpus, err := cpuset.Parse(key)
		if err != nil {
			return err
		}
		for c := range cpus.All() {
			if s.state.Usage.Busy[c], err = parseMilli(value); err != nil {
				return err
			}
		}
		return nil
	})
}

// setFlow sets the usage or the raised quota of containers.
func (s *scenario) setFlow(what string, words []string) error {
	return eachArg(words, func(key, value string) error {
		pod, name, _ := strings.Cut(key, "/")
		c, err := s.find(pod, name)
		switch {
		case err != nil:
		case what == "used":
			c.Used, err = parseMilli(value)
		default:
			c.Raised, err = time.ParseDuration(value)
		}
		return err
	})
}

func (s *scenario) setPod(words []string) error {
	p := Pod{ID: ledger.PodID(words[0]), Tier: qos.Burstable}
	err := eachArg(words[1:], func(key, value string) (err error) {
		switch key {
		case "Guaranteed", "Burstable", "BestEffort":
			p.Tier = qos.Tier(key)
		case "BE", "LS":
			p.Class = qos.Class(key)
		case "rank":
			p.Claim.Rank, err = strconv.ParseInt(value, 10, 64)
		case "limit":
			p.Limit, err = parseMilli(value)
		case "overhead":
			p.Overhead, err = parseMilli(value)
		case "period":
			p.Period, err = time.ParseDuration(value)
		case "burst":
			p.Burst, err = parseBurst(value)
		default:
			err = p.addContainer(key, value)
		}
		return err
	})
	s.state.Pods = slices.DeleteFunc(s.state.Pods, func(other Pod) bool { return other.ID == p.ID })
	s.state.Pods = append(s.state.Pods, p)
	return err
}

func (p *Pod) addContainer(name, value string) (err error) {
	c := Container{Name: name, Phase: Running}
	for prefix, role := range map[string]ledger.Role{"init/": ledger.RoleInit, "sidecar/": ledger.RoleSidecar, "ephemeral/": ledger.RoleMain} {
		if bare, ok := strings.CutPrefix(name, prefix); ok {
			c.Name, c.Role, c.Ephemeral = bare, role, prefix == "ephemeral/"
		}
	}
	amounts, where, claimed := strings.Cut(value, "@")
	limit, request, requested := strings.Cut(amounts, ":")
	if limit != "-" {
		if c.Limit, err = parseMilli(limit); err != nil {
			return err
		}
		c.Request = c.Limit
	}
	if requested {
		if c.Request, err = parseMilli(request); err != nil {
			return err
		}
	}
	p.Containers = append(p.Containers, c)
	if !claimed {
		p.Claim.SharedRequest += c.Request
		return nil
	}
	claim := ledger.ContainerClaim{Name: c.Name, Role: c.Role, Policy: placement.Static, Limit: int(c.Limit / 1000), Request: c.Request}
	if nodes, ok := strings.CutPrefix(where, "node"); ok {
		claim.Policy = placement.StaticBurst
		for id := range strings.SplitSeq(nodes, ",") {
			n, err := strconv.Atoi(id)
			if err != nil {
				return err
			}
			claim.NUMANodes = append(claim.NUMANodes, topology.NUMAID(n))
		}
	} else if claim.CPUs, err = cpuset.Parse(where); err != nil {
		return err
	}
	p.Claim.Containers = append(p.Claim.Containers, claim)
	return nil
}

// parseMilli parses "250m" and "2".
func parseMilli(text string) (ledger.MilliCPU, error) {
	digits, milli := strings.CutSuffix(text, "m")
	n, err := strconv.ParseInt(digits, 10, 64)
	if !milli {
		n *= 1000
	}
	return ledger.MilliCPU(n), err
}
