package burst

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/test/golden"
)

// TestScenarios runs testdata/*.txt. A scenario consists of blocks: commands, one per line, then
// "----" and their output. The commands:
//
//	cpus 4
//	    creates a machine with 4 CPUs at time 0, and starts an agent
//	group NAME quota=10ms burst=10ms period=100ms policy=auto/1000/300/60
//	    adds a container; its policy is mode/burstPercent/quotaPercent/quotaBurstSeconds
//	load NAME 18ms every 503ms threads=4
//	    makes it want that much CPU time that often
//	others 1.5
//	    makes others use 1.5 CPUs, before all groups
//	batch 4
//	    makes batch work use up to 4 CPUs of those that all others leave idle
//	limit NAME quota=20ms, policy NAME auto/100/300/60
//	    changes a container
//	write NAME quota=20ms
//	    writes that quota as another writer
//	break NAME, repair NAME
//	    disables and enables the effect of writes
//	hide NAME, show NAME
//	    disables and enables samples
//	restart
//	    restarts the agent
//	run 10s [every 100ms]
//	    lets time pass, with a tick that often; prints each decision that writes, and of the
//	    others the first one of each reason since the container's last write
//	sum
//	    prints for each container what it used, and its limit over the time
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		s := scenario{t: t}
		return golden.Blocks(t, text, s.run)
	})
}

type scenario struct {
	t          *testing.T
	machine    machine
	controller *Controller
	printed    map[string]map[Reason]bool // by container, since its last write
}

func (s *scenario) run(words []string) (string, error) {
	command, args := words[0], words[1:]
	switch command {
	case "cpus":
		cpus, err := strconv.Atoi(args[0])
		s.machine = machine{cpus: cpus}
		s.restart()
		return "", err
	case "restart":
		s.restart()
		return "", nil
	case "others", "batch":
		cpus, err := strconv.ParseFloat(args[0], 64)
		to := map[string]*rate{"others": &s.machine.others, "batch": &s.machine.batch}[command]
		*to = rate(cpus * float64(oneCPU))
		return "", err
	case "group":
		return "", s.addGroup(args)
	case "run":
		return s.pass(args)
	case "sum":
		return s.sum(), nil
	}
	for i, g := range s.machine.groups {
		if g.name == args[0] {
			return "", s.change(i, command, args[1:])
		}
	}
	return "", fmt.Errorf("unknown command or group")
}

func (s *scenario) restart() {
	s.controller, s.printed = New(), map[string]map[Reason]bool{}
}

func (s *scenario) addGroup(args []string) error {
	base := bandwidth.Limits{Period: 100 * ms}
	var p Policy
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		var err error
		switch key {
		case "quota":
			base.Quota, err = time.ParseDuration(value)
		case "period":
			base.Period, err = time.ParseDuration(value)
		case "burst":
			base.Burst, err = time.ParseDuration(value)
		case "policy":
			p, err = readPolicy(value)
		default:
			err = fmt.Errorf("unknown key %s", key)
		}
		if err != nil {
			return err
		}
	}
	g := newGroup(s.t, args[0], base, p, load{})
	g.seenAt = s.machine.now
	s.machine.groups = append(s.machine.groups, g)
	return nil
}

func readPolicy(text string) (p Policy, err error) {
	mode, numbers, _ := strings.Cut(text, "/")
	p.Mode = Mode(mode)
	_, err = fmt.Sscanf(numbers, "%d/%d/%d", &p.BurstPercent, &p.QuotaPercent, &p.QuotaBurstSeconds)
	return p, err
}

// change carries out a command about one group.
func (s *scenario) change(at int, command string, args []string) (err error) {
	g := s.machine.groups[at]
	switch command {
	case "load":
		var amount, every string
		if _, err = fmt.Sscanf(strings.Join(args, " "), "%s every %s threads=%d", &amount, &every, &g.load.threads); err != nil {
			return err
		}
		if g.load.amount, err = time.ParseDuration(amount); err != nil {
			return err
		}
		g.load.every, err = time.ParseDuration(every)
	case "limit":
		g.base.Quota, err = time.ParseDuration(strings.TrimPrefix(args[0], "quota="))
	case "policy":
		g.policy, err = readPolicy(args[0])
	case "write":
		l := g.kernel.Limits()
		if l.Quota, err = time.ParseDuration(strings.TrimPrefix(args[0], "quota=")); err == nil {
			g.write(s.t, l)
		}
	case "break", "repair":
		g.broken = command == "break"
	case "hide", "show":
		g.missing = command == "hide"
	default:
		err = fmt.Errorf("unknown command")
	}
	return err
}

// pass parses DURATION [every DURATION] and lets the time pass.
func (s *scenario) pass(args []string) (string, error) {
	whole, err := time.ParseDuration(args[0])
	if err != nil {
		return "", err
	}
	step := 100 * ms
	if len(args) == 3 {
		if step, err = time.ParseDuration(args[2]); err != nil {
			return "", err
		}
	}
	var out strings.Builder
	for end := s.machine.now + whole; s.machine.now < end; {
		s.machine.run(min(step, end-s.machine.now))
		tick := s.machine.tick()
		decisions := s.controller.Step(&tick, nil)
		for i, d := range decisions {
			name := s.machine.groups[i].name
			if d.Write {
				clear(s.printed[name])
			}
			if d.Write || !s.printed[name][d.Reason] {
				fmt.Fprintf(&out, "%7v %s: %s\n", tick.Now, name, printDecision(d))
			}
			s.note(name, d.Reason)
		}
		s.machine.obey(s.t, decisions)
	}
	return out.String(), nil
}

func (s *scenario) note(name string, r Reason) {
	if s.printed[name] == nil {
		s.printed[name] = map[Reason]bool{}
	}
	s.printed[name][r] = true
}

func printDecision(d Decision) string {
	text := fmt.Sprintf("%v, %v, tokens %v", d.Quota, d.Reason, d.Tokens.Round(ms))
	if d.Write {
		text = "write " + text
	}
	return text
}

func (s *scenario) sum() string {
	var out strings.Builder
	for _, g := range s.machine.groups {
		stats := g.kernel.Stats()
		limit := scaled(g.base.Quota, s.machine.now, g.base.Period)
		fmt.Fprintf(&out, "%s: used %v of %v, throttled in %d of %d periods, %d changes\n",
			g.name, stats.Usage, limit.Round(ms), stats.Throttled, stats.Periods, g.changes)
	}
	return out.String()
}
