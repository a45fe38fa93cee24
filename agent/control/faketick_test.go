package control

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pinfold.dev/pinfold/agent/control/allocate"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
)

// tickLength is the length of a tick of the agent, and the period of all limits.
const tickLength = 100 * time.Millisecond

// tick runs COUNT ticks in each of which containers use CPU time (CONTAINER=USED, or
// CONTAINER=USED! for a throttled one) and CPUs are idle for a part of the time (idle=50%). It
// prints what happens, and when.
func (n *fakeNode) tick(args []string) (string, error) {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	idle, samples := int64(100), map[string]trace.Sample{}
	var batch time.Duration
	var others *string
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		if name == "idle" {
			if idle, err = strconv.ParseInt(strings.TrimSuffix(value, "%"), 10, 64); err != nil {
				return "", err
			}
			continue
		}
		if name == "others" {
			others = &value
			continue
		}
		if slices.Contains(n.last.Raises.Behind, n.kernel.pathOf(name)) {
			batch, err = time.ParseDuration(value)
			if err != nil {
				return "", err
			}
			continue
		}
		used, throttled := strings.CutSuffix(value, "!")
		s := trace.Sample{Interval: tickLength, Periods: 1}
		if s.Usage, err = time.ParseDuration(used); err != nil {
			return "", err
		}
		if throttled {
			s.Throttled = 1
		}
		samples[n.kernel.pathOf(name)] = s
	}
	cpus := make([]time.Duration, n.machine().Online().Len())
	for i := range cpus {
		cpus[i] = tickLength * time.Duration(idle) / 100
	}
	var b strings.Builder
	for i := range count {
		n.ticks += tickLength
		t := groups.Tick{Now: n.ticks, Wall: n.now, Interval: tickLength, Idle: cpus, Behind: batch, Samples: samples}
		if others != nil {
			used, err := strconv.ParseFloat(*others, 64)
			t.Colocation = &colocation.Tick{Now: n.ticks, Others: quantity.CPUs(used), Unsampled: err != nil}
		}
		if text := n.tickOnce(t); text != "" {
			fmt.Fprintf(&b, "tick %d:\n%s", i+1, text)
		}
	}
	if b.Len() == 0 {
		return "nothing happens\n", nil
	}
	return b.String(), nil
}

// tickOnce runs one tick of the agent.
func (n *fakeNode) tickOnce(t groups.Tick) string {
	t.Present = map[string]cgroup.Settings{}
	for _, path := range n.last.Raises.Raised {
		if s, ok := n.kernel.groups[path]; ok {
			t.Present[path] = s
		}
	}
	done, status := n.control.Tick(t)
	n.last = status
	var b strings.Builder
	for _, c := range done.Changes {
		what := "lowered"
		if c.Raised {
			what = "raised"
		}
		fmt.Fprintf(&b, "%s/%s is %s to %v: %s\n", c.Pod.Object.Name, c.Ref.Container, what, c.Quota, c.Reason)
	}
	if done.Write {
		b.WriteString(n.decide())
	}
	return b.String()
}

// round runs a round of the agent, and up to three more, one per second, while changed annotations
// wait.
func (n *fakeNode) round() string {
	text := n.oneRound()
	for range 3 {
		if !n.last.Waiting {
			break
		}
		n.now = n.now.Add(time.Second)
		if more := n.oneRound(); text == "nothing to do\n" {
			text = more
		} else if more != "nothing to do\n" {
			text += more
		}
	}
	n.kernel.checkAll()
	return text
}

func (n *fakeNode) oneRound() string {
	n.observe()
	text := n.decide()
	for _, e := range n.events {
		about := "node"
		if e.Pod != nil {
			about = "pod " + e.Pod.Name
		}
		text += fmt.Sprintf("event on %s: %s: %s\n", about, e.Reason, n.kernel.named(e.Message))
	}
	n.events = nil
	return text
}

// decide does what is to be done next, until the settings are written.
func (n *fakeNode) decide(asked ...nodeplan.Ref) string {
	before := n.control.allocate.InForce()
	for {
		ready := n.control.Ready(n.now, asked...)
		if ready.Writes != nil {
			return n.execute(*ready.Writes)
		}
		r := Result{Usage: map[string]time.Duration{}}
		for _, path := range ready.Read {
			r.Usage[path] = 0
			if n.kernel.usage != nil {
				r.Usage[path] = n.kernel.usage(path)
			}
		}
		if ready.Save != nil && n.diskFull {
			r.Saved = errors.New("no space left on device")
		} else if ready.Save != nil {
			n.given = ready.Save
			for uid, a := range n.given {
				if _, err := api.DecodeAllocation(a.Encode()); err != nil {
					n.broken = append(n.broken, fmt.Sprintf("the saved allocation of %s cannot be decoded: %v", uid, err))
				}
			}
		}
		if n.control.Advance(ready, r); ready.Save != nil {
			n.checkMove(before)
		}
	}
}

// setClass changes the class of a pod, if there is such a pod.
func (n *fakeNode) setClass(args []string) {
	if p := n.pods[args[0]]; p != nil {
		p = p.DeepCopy()
		p.Labels = nil
		if len(args) > 1 {
			p.Labels = map[string]string{api.QoSLabel: args[1]}
		}
		n.pods[args[0]] = p
	}
}

// setAgent sets the flags of the next agent.
func (n *fakeNode) setAgent(options map[string]string) (err error) {
	n.config.QuotaOwner = QuotaOwner(options["quota-owner"])
	n.config.Partition = cgroup.Partition(options["partition"])
	n.config.Observe = options["mode"] == "observe"
	n.config.MinShared, _ = strconv.Atoi(cmp.Or(options["min-shared"], "0"))
	n.config.Refuses = options["on-failure"] == "refuse"
	n.config.Repack = allocate.Repack(options["repack"])
	if n.config.Priority, err = colocation.ParsePriority(cmp.Or(options["batch-priority"], "none")); err != nil {
		return err
	}
	n.config.Burst = burst.Policy{Mode: burst.Mode(options["burst"]), BurstPercent: 100, QuotaPercent: 300, QuotaBurstSeconds: 60}
	n.config.Batch = colocation.Config{}
	if text := options["batch"]; text != "" {
		share, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
		if err != nil {
			return err
		}
		n.config.Batch = colocation.Config{Threshold: quantity.Share(share) / 100, Floor: 0.5}
	}
	if text := options["percent"]; text != "" {
		n.config.Burst.BurstPercent, err = strconv.Atoi(text)
	}
	return err
}
