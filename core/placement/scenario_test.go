package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/golden"
)

// TestScenarios runs testdata/*.txt. Lines that start with # are comments. Each command is followed
// by a line "-> ..." with its result. The commands are:
//
//	machine packages=1 numa=2 llcs=1 cores=4 threads=2 slow=6-7 isolated=4-5
//	    the machine, counts per parent; slow CPUs are of the kind efficiency
//	distance 0 2 21
//	    between two NUMA nodes, in both directions
//	free 0-3,8
//	take N [full-cores] [static-burst] [limit NUMA,NUMA=CPUS]...
//	    place N CPUs; the CPUs of a static placement are not free afterwards
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", runScenario)
}

type scenario struct {
	machine *topology.Machine
	index   *Index
	free    cpuset.Set
}

func runScenario(t *testing.T, text string) string {
	var out strings.Builder
	var s scenario
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "->") {
			continue
		}
		out.WriteString(line)
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		answer, err := s.run(words[0], words[1:])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if answer != "" {
			fmt.Fprintf(&out, "-> %s\n", answer)
		}
	}
	return out.String()
}

func (s *scenario) run(command string, words []string) (string, error) {
	switch command {
	case "machine":
		return "", s.setMachine(words)
	case "distance":
		return "", s.setDistance(words)
	case "free":
		var err error
		s.free, err = cpuset.Parse(words[0])
		return "", err
	case "take":
		req, err := parseTake(words)
		if err != nil {
			return "", err
		}
		return s.take(req), nil
	default:
		return "", fmt.Errorf("unknown command")
	}
}

func (s *scenario) setMachine(words []string) error {
	var shape topology.Shape
	var slow, isolated cpuset.Set
	kinds := [2]topology.Kind{topology.KindPerformance, topology.KindEfficiency}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		var err error
		switch key {
		case "clocked": // slower, and of the same design
			kinds = [2]topology.Kind{topology.ClockKind("", 1), topology.ClockKind("", 2)}
			slow, err = cpuset.Parse(value)
		case "isolated":
			isolated, err = cpuset.Parse(value)
		case "slow":
			slow, err = cpuset.Parse(value)
		default:
			*shape.Count(key), err = strconv.Atoi(value)
		}
		if err != nil {
			return err
		}
	}
	m, err := shape.Build()
	if err != nil {
		return err
	}
	for i := range m.CPUs {
		if !slow.IsEmpty() {
			m.CPUs[i].Kind = kinds[0]
		}
		if slow.Contains(m.CPUs[i].ID) {
			m.CPUs[i].Kind = kinds[1]
		}
	}
	m.Kinds, m.Isolated = topology.KindsOf(m.CPUs), isolated
	s.machine, s.index, s.free = m, NewIndex(m), m.Online()
	return nil
}

func (s *scenario) setDistance(words []string) error {
	var n [3]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(words[i]); err != nil {
			return err
		}
	}
	s.machine.NUMANodes[n[0]].Distances[n[1]] = n[2]
	s.machine.NUMANodes[n[1]].Distances[n[0]] = n[2]
	s.index = NewIndex(s.machine)
	return nil
}

func parseTake(words []string) (Request, error) {
	req := Request{Policy: Static}
	var err error
	if req.CPUs, err = strconv.Atoi(words[0]); err != nil {
		return req, err
	}
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "full-cores":
			req.FullCores = FullCoresRequired
		case "static-burst":
			req.Policy = StaticBurst
		case "limit":
			i++
			nodes, cpus, _ := strings.Cut(words[i], "=")
			ids, err := cpuset.Parse(nodes) // NUMA ids have the same syntax as CPU ids
			if err != nil {
				return req, err
			}
			l := Limit{}
			for id := range ids.All() {
				l.NUMANodes = append(l.NUMANodes, topology.NUMAID(id))
			}
			if l.CPUs, err = strconv.Atoi(cpus); err != nil {
				return req, err
			}
			req.Limits = append(req.Limits, l)
		default:
			return req, fmt.Errorf("unknown word %q", words[i])
		}
	}
	return req, nil
}

func (s *scenario) take(req Request) string {
	r, err := s.index.Place(s.free, req)
	if err != nil {
		return err.Error()
	}
	if req.Policy == Static {
		s.free = s.free.Difference(r.CPUs)
	}
	var nodes []string
	for _, n := range s.machine.NUMANodes {
		if n.CPUs.Intersects(r.CPUs) {
			nodes = append(nodes, fmt.Sprint(n.ID))
		}
	}
	slices.Sort(nodes)
	answer := fmt.Sprintf("%s; NUMA %s", r.CPUs, strings.Join(nodes, ","))
	for _, part := range []struct {
		name string
		n    int
		show bool
	}{
		{"kinds", r.Quality.Kinds, len(s.machine.Kinds) > 1},
		{"distance", r.Quality.Distance, len(nodes) > 1},
		{"split cores", r.Quality.SplitCores, true},
		{"LLCs", r.Quality.LLCs, true},
	} {
		if part.show {
			answer += fmt.Sprintf("; %s %d", part.name, part.n)
		}
	}
	return answer
}
