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

// TestScenarios runs testdata/*.txt. A scenario is a sequence of blocks: commands, one a
// line, then "----" and what they print. The commands:
//
//	cpus 4
//	    a machine with so many CPUs, at time 0, and an agent that begins
//	group NAME quota=10ms burst=10ms period=100ms policy=auto/1000/300/60
//	    a container; its policy is mode/burstPercent/quotaPercent/quotaBurstSeconds
//	load NAME 18ms every 503ms threads=4
//	    from now on it wants that much CPU time that often
//	others 1.5
//	    from now on others use so many CPUs, before all groups
//	limit NAME quota=20ms, policy NAME auto/100/300/60, remove NAME
//	write NAME quota=20ms
//	    somebody else writes that quota
//	break NAME, repair NAME
//	    writes have no effect; they have again
//	hide NAME, show NAME
//	    no samples can be taken; they can again
//	restart
//	    the agent begins anew
//	run 10s [every 100ms]
//	    lets time pass, with a tick that often; prints each decision that writes, and
//	    of the others the first one of each reason since the container's last write
//	sum
//	    prints for each container what it has used, and what the limit is for the time
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		s := scenario{t: t}
		out, err := golden.Blocks(text, s.run)
		if err != nil {
			t.Fatal(err)
		}
		return out
	})
}

type scenario struct {
	t          *testing.T
	machine    machine
	controller *Controller
	said       map[string]map[Reason]bool // by container, since its last write
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
	case "others":
		cpus, err := strconv.ParseFloat(args[0], 64)
		s.machine.others = Rate(cpus * float64(OneCPU))
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
	s.controller, s.said = New(Tuning{}), map[string]map[Reason]bool{}
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

// change does something to one group.
func (s *scenario) change(at int, command string, args []string) (err error) {
	g := s.machine.groups[at]
	switch command {
	case "remove":
		s.machine.groups = append(s.machine.groups[:at], s.machine.groups[at+1:]...)
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

// pass reads DURATION [every DURATION].
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
				clear(s.said[name])
			}
			if d.Write || !s.said[name][d.Reason] {
				fmt.Fprintf(&out, "%7v %s: %s\n", tick.Now, name, printDecision(d))
			}
			s.note(name, d.Reason)
		}
		s.machine.obey(s.t, decisions)
	}
	return out.String(), nil
}

func (s *scenario) note(name string, r Reason) {
	if s.said[name] == nil {
		s.said[name] = map[Reason]bool{}
	}
	s.said[name][r] = true
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
