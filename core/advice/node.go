package advice

import (
	"context"
	"fmt"
	"sort"
	"time"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
)

// Node states how many identical containers fit on a node.
type Node struct {
	Finding
	CPUs         float64 `json:"nodeCPUs"`
	LimitCPUs    float64 `json:"limitCPUs"` // of each container
	BurstPercent float64 `json:"burstPercent"`
	// ByLimits is the number that the sum of the limits allows.
	ByLimits Density `json:"byLimits"`
	// Fits is the largest number that reaches the goal. By two standard errors, Low certainly
	// reaches it, and more than High certainly do not.
	Fits Density `json:"fits"`
	Low  int     `json:"lowContainers"`
	High int     `json:"highContainers"`
	// Halves are the probabilities of Low containers, simulated from the first and the second half
	// of the recording alone. They show how representative the recording is.
	Halves [2]interference.Estimate `json:"halvesProbabilityWCET1"`
	// LessDensity means that fewer containers fit with burst than their limits allow.
	LessDensity bool `json:"lessDensityBeforeBurst"`
	// Utilisation is the average demand over the limit. SafeUtilisation is the highest one at which
	// burst reaches the goal with as many containers as the limits allow (a rule of thumb is 70%).
	Utilisation     float64 `json:"utilisation"`
	SafeUtilisation float64 `json:"safeUtilisation"`
	// Most means that more containers were not tried.
	Most bool `json:"mostThatWereTried,omitempty"`
	// Warnings are sentences about the reliability of the advice.
	Warnings []string `json:"warnings,omitempty"`
}

// Density is a number of containers on the node, with the predicted outcome.
type Density struct {
	Containers int `json:"containers"`
	// Load is the average demand of all over the node's CPUs.
	Load             float64               `json:"load"`
	ProbabilityWCET1 interference.Estimate `json:"probabilityWCET1"`
	ExpectedWCET     interference.Estimate `json:"expectedWCET"`
	ThrottleRatio    interference.Estimate `json:"throttleRatio"` // of each container
}

const (
	// maxContainers is the largest number that is tried; kubelets admit 110 pods by default.
	maxContainers = 250
	// maxLoad is the largest load that is tried: near 1, backlog takes too long to become
	// stationary.
	maxLoad = .98
	// groupPeriods bounds each simulation: containers times periods.
	groupPeriods = 10_000_000
	// sure is the number of standard errors by which a probability must exceed the goal.
	sure = 2
)

// ForNode returns how many containers like the recorded one fit on a node with nodeCPUs CPUs, each
// with a limit of limitCPUs and the goal's burst. Both are above 0. The error is that of ctx.
//
// Copies of the container run in package interference under the strict rule. Each is independent
// and replays random pieces of the recording. Bisection finds the largest number of copies that
// meets its deadline with the wanted probability P(WCET = 1), by a margin of two standard errors,
// which are those of the simulation. Copies of one service behind one load balancer are not
// independent: they are busy at the same time, and fewer fit.
func ForNode(ctx context.Context, s *trace.Series, nominal time.Duration, nodeCPUs, limitCPUs float64, goal Goal, options Options) (Node, error) {
	sub := newSubject(s, nominal, goal)
	n := Node{CPUs: nodeCPUs, LimitCPUs: limitCPUs, BurstPercent: 100 * goal.Burst}
	if n.Reason = sub.obstacle(); n.Reason != "" {
		return n, nil
	}
	n.Utilisation = sub.mean / limitCPUs
	if n.Utilisation >= maxLoad {
		n.Reason = fmt.Sprintf("a limit of %s is too low to simulate a node: average demand is %s; use a higher limit", quantity.CPUs(limitCPUs), quantity.CPUs(sub.mean))
		return n, nil
	}
	c := nodeSearch{sub: sub, node: &n, options: options, known: map[int]Density{}}
	if err := c.search(ctx); err != nil {
		return Node{}, fmt.Errorf("advise on a node of containers like %s: %w", s.Group, err)
	}
	n.Enough = true
	n.explain(sub)
	n.warn(goal)
	return n, nil
}

// nodeSearch tries numbers of containers on a node.
type nodeSearch struct {
	sub     *subject
	node    *Node
	options Options
	blocks  *demand.Blocks // in multiples of the quota
	known   map[int]Density
	err     error // the first
}

func (c *nodeSearch) search(ctx context.Context) error {
	n := c.node
	quotas := c.sub.demand.InQuotas(n.LimitCPUs)
	var err error
	if c.blocks, err = demand.NewBlocks(min(c.sub.piece, float64(len(quotas[0]))), quotas...); err != nil {
		return err
	}
	maxTried := int(min(maxContainers, maxLoad*n.CPUs/c.sub.mean))
	allowed := int(min(maxContainers, n.CPUs/n.LimitCPUs+1e-9))
	n.ByLimits = c.try(ctx, allowed)
	n.Low = c.largest(ctx, maxTried, -sure)
	n.High = max(c.largest(ctx, maxTried, sure), n.Low)
	n.Fits = c.try(ctx, n.Low)
	n.Most = n.Low == maxContainers
	n.LessDensity = n.Low < allowed
	if allowed > 0 {
		n.SafeUtilisation = c.safeUtilisation(ctx, allowed)
	}
	if n.Low > 0 {
		c.judgeHalves(ctx, quotas)
	}
	return c.err
}

// judgeHalves simulates the number of containers that fit with each half of the recording alone.
func (c *nodeSearch) judgeHalves(ctx context.Context, quotas [][]float64) {
	var halves [2][][]float64
	for _, phase := range quotas {
		half := len(phase) / 2
		halves[0], halves[1] = append(halves[0], phase[:half]), append(halves[1], phase[half:])
	}
	for i, part := range halves {
		c.node.Halves[i].Value = 1
		blocks, err := demand.NewBlocks(min(c.sub.piece, float64(len(part[0]))), part...)
		if err == nil { // otherwise there was no demand
			c.node.Halves[i] = c.simulate(ctx, c.node.Low, blocks).ProbabilityWCET1
		}
	}
}

// largest returns the largest number of containers, up to most, for which P(WCET = 1) plus a number
// of standard errors reaches the goal.
func (c *nodeSearch) largest(ctx context.Context, most int, errors float64) int {
	return sort.Search(most, func(i int) bool {
		p := c.try(ctx, i+1).ProbabilityWCET1
		return p.Value+errors*p.StandardError < c.sub.goal.ProbabilityWCET1
	})
}

// try simulates a number of containers. With none, all deadlines are met.
func (c *nodeSearch) try(ctx context.Context, containers int) Density {
	if d, ok := c.known[containers]; ok {
		return d
	}
	d := Density{Containers: containers, ProbabilityWCET1: interference.Estimate{Value: 1}, ExpectedWCET: interference.Estimate{Value: 1}}
	if containers > 0 {
		d = c.simulate(ctx, containers, c.blocks)
	}
	c.known[containers] = d
	return d
}

func (c *nodeSearch) simulate(ctx context.Context, containers int, blocks *demand.Blocks) Density {
	n := c.node
	d := Density{Containers: containers, Load: float64(containers) * blocks.Mean() * n.LimitCPUs / n.CPUs}
	if c.err != nil || d.Load > maxLoad {
		return d // P(WCET = 1) = 0
	}
	result, err := interference.Simulate(ctx, interference.Config{
		Groups:    []interference.Group{{Count: containers, Quota: n.LimitCPUs, Burst: c.sub.goal.Burst, Demand: blocks}},
		Capacity:  n.CPUs,
		Rule:      interference.Strict,
		Periods:   groupPeriods / int64(containers),
		Precision: (1 - c.sub.goal.ProbabilityWCET1) / 20,
		Random:    c.options.Random,
		Workers:   c.options.Workers,
	})
	if err != nil {
		c.err = err
		return d
	}
	d.ProbabilityWCET1 = result.ProbabilityWCET1
	d.ExpectedWCET = result.ExpectedWCET
	d.ThrottleRatio = result.Groups[0].ThrottleRatio
	return d
}

// safeUtilisation returns the largest average demand over the limit, in hundredths, at which that
// number of containers reaches the goal.
func (c *nodeSearch) safeUtilisation(ctx context.Context, containers int) float64 {
	first := sort.Search(int(100*maxLoad), func(i int) bool {
		blocks, err := c.blocks.WithMean(float64(i+1) / 100)
		if err != nil {
			c.err = err
			return true
		}
		p := c.simulate(ctx, containers, blocks).ProbabilityWCET1
		return p.Value-sure*p.StandardError < c.sub.goal.ProbabilityWCET1
	})
	return float64(first) / 100
}

func (n *Node) explain(sub *subject) {
	goal := quantity.Share(sub.goal.ProbabilityWCET1)
	allowed, fits := &n.ByLimits, &n.Fits
	most := ""
	if n.CPUs/n.LimitCPUs >= maxContainers+1 {
		most = " and more"
	}
	limits := fmt.Sprintf("%s%s of %s fit on %s by their limits", quantity.Count(allowed.Containers, "container"), most, quantity.CPUs(n.LimitCPUs), quantity.CPUs(n.CPUs))
	met := func(d *Density) string {
		return fmt.Sprintf("none has to wait for CPUs in %s of the periods", quantity.Share(d.ProbabilityWCET1.Value))
	}
	safe := fmt.Sprintf("with %d, burst is safe up to an average usage of %s of the limit, and they use %s", allowed.Containers, quantity.Share(n.SafeUtilisation), quantity.Share(n.Utilisation))
	switch {
	case allowed.Containers == 0 && fits.Containers == 0:
		n.Reason = fmt.Sprintf("not even one of %s fits on %s by its limit, and even alone it would not get its CPUs in time in %s of the periods", quantity.CPUs(n.LimitCPUs), quantity.CPUs(n.CPUs), goal)
	case allowed.Containers == 0:
		n.Reason = fmt.Sprintf("not even one fits by its limit; with %d, none would have to wait for CPUs in %s of the periods (wanted: %s)", fits.Containers, quantity.Share(fits.ProbabilityWCET1.Value), goal)
	case n.LessDensity:
		n.Reason = fmt.Sprintf("%s, but with a burst of %s %s (wanted: %s), so lower the density before allowing burst: with %d it is %s; %s",
			limits, quantity.Share(sub.goal.Burst), met(allowed), goal, fits.Containers, quantity.Share(fits.ProbabilityWCET1.Value), safe)
	default:
		n.Reason = fmt.Sprintf("%s, and with a burst of %s %s (wanted: %s, which up to %d reach); %s",
			limits, quantity.Share(sub.goal.Burst), met(allowed), goal, fits.Containers, safe)
	}
}

// warn adds the warnings.
func (n *Node) warn(goal Goal) {
	if n.Fits.Containers > 1 {
		n.Warnings = append(n.Warnings, "containers are assumed to be independent; replicas behind one load balancer are busy at the same time, so fewer fit")
	}
	if n.Most {
		n.Warnings = append(n.Warnings, fmt.Sprintf("more than %d containers were not tried", maxContainers))
	}
	if n.High > n.Low {
		n.Warnings = append(n.Warnings, fmt.Sprintf("the simulation does not exclude that up to %d fit", n.High))
	}
	for i, name := range []string{"first", "second"} {
		if p := n.Halves[i]; n.Low > 0 && p.Value+sure*p.StandardError < goal.ProbabilityWCET1 {
			n.Warnings = append(n.Warnings, fmt.Sprintf("with the %s half of the recording alone, none has to wait for CPUs in only %s of the periods: demand varies, so record for longer, or at the busiest time",
				name, quantity.Share(p.Value)))
		}
	}
}
