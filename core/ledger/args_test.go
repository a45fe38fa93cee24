package ledger

import (
	"fmt"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
)

// setMachine parses the arguments of the command machine.
func (s *scenario) setMachine(words []string) error {
	var shape topology.Shape
	offline := ""
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		var err error
		if count := shape.Count(key); count != nil {
			*count, err = strconv.Atoi(value)
		} else if key == "offline" {
			offline = value
		} else {
			err = fmt.Errorf("unknown argument")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
	}
	s.shape = shape
	return s.setOffline(offline)
}

// setOffline takes CPUs of the machine offline and rebuilds the books with the claims.
func (s *scenario) setOffline(list string, claims ...Claim) error {
	m, err := s.shape.Build()
	if err != nil {
		return err
	}
	offline, err := cpuset.Parse(list)
	if err != nil {
		return err
	}
	topologytest.TakeOffline(m, offline)
	s.index = placement.NewIndex(m)
	s.books = New(s.index, s.config, claims...)
	return nil
}

// setConfig parses the arguments of the command config.
func (s *scenario) setConfig(words []string) error {
	var c Config
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		var err error
		switch key {
		case "reserved":
			c.Reserved, err = parseMilli(value)
		case "cpus":
			c.ReservedCPUs, err = cpuset.Parse(value)
		case "min-shared":
			c.MinShared, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("unknown argument")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
	}
	s.config = c
	s.books = New(s.index, s.config, s.books.Claims()...)
	return nil
}

// podArgs is a pod as described in a command.
type podArgs struct {
	id         PodID
	rank       int64
	policy     placement.Policy
	fullCores  placement.FullCores
	shared     MilliCPU
	containers []ContainerClaim
}

func parsePod(words []string) (podArgs, error) {
	pod := podArgs{id: PodID(words[0]), policy: placement.Static}
	for _, w := range words[1:] {
		key, value, hasValue := strings.Cut(w, "=")
		var err error
		switch {
		case w == "static-burst":
			pod.policy = placement.StaticBurst
		case w == "full-cores":
			pod.fullCores = placement.FullCoresRequired
		case key == "rank":
			pod.rank, err = strconv.ParseInt(value, 10, 64)
		case key == "shared":
			pod.shared, err = parseMilli(value)
		case hasValue:
			var c ContainerClaim
			c, err = parseContainer(key, value)
			pod.containers = append(pod.containers, c)
		default:
			err = fmt.Errorf("unknown argument")
		}
		if err != nil {
			return pod, fmt.Errorf("%s: %w", w, err)
		}
	}
	return pod, nil
}

func parseContainer(name, value string) (c ContainerClaim, err error) {
	c.Name = name
	if bare, ok := strings.CutPrefix(name, "init/"); ok {
		c.Name, c.Role = bare, RoleInit
	} else if bare, ok := strings.CutPrefix(name, "sidecar/"); ok {
		c.Name, c.Role = bare, RoleSidecar
	}
	amounts, where, _ := strings.Cut(value, "@")
	limit, request, hasRequest := strings.Cut(amounts, ":")
	if c.Limit, err = strconv.Atoi(limit); err != nil {
		return c, err
	}
	if hasRequest {
		if c.Request, err = parseMilli(request); err != nil {
			return c, err
		}
	}
	c.Policy = placement.Static
	if nodes, ok := strings.CutPrefix(where, "node"); ok {
		c.Policy = placement.StaticBurst
		for id := range strings.SplitSeq(nodes, ",") {
			n, err := strconv.Atoi(id)
			if err != nil {
				return c, err
			}
			c.NUMANodes = append(c.NUMANodes, topology.NUMAID(n))
		}
		return c, nil
	}
	c.CPUs, err = cpuset.Parse(where)
	return c, err
}

// parseMilli parses "250m" and "2".
func parseMilli(text string) (MilliCPU, error) {
	digits, milli := strings.CutSuffix(text, "m")
	n, err := strconv.ParseInt(digits, 10, 64)
	if !milli {
		n *= 1000
	}
	return MilliCPU(n), err
}

func (p podArgs) claim() Claim {
	return Claim{ID: p.id, Rank: p.rank, Containers: p.containers, SharedRequest: p.shared}
}

func (p podArgs) ask() Ask {
	ask := Ask{Policy: p.policy, FullCores: p.fullCores, SharedRequest: p.shared}
	for _, c := range p.containers {
		ask.Containers = append(ask.Containers, ContainerAsk{Name: c.Name, Role: c.Role, CPUs: c.Limit, Request: c.Request})
	}
	return ask
}
