package advice

import (
	"context"
	"fmt"
	"math"
	"sort"
	"time"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
)

const (
	// mostContainers is the largest number that is tried; kubelets admit 110 pods unless told
	// otherwise.
	mostContainers = 250
	// mostLoad is the largest load that is tried: near 1, backlog takes too long to settle.
	mostLoad = .98
	// groupPeriods bounds each simulation.
	groupPeriods = 10_000_000
	// sure is how many standard errors a probability must be above the goal.
	sure = 2
)

// ForNode returns how many containers like the recorded one fit on a node with nodeCPUs CPUs, each
// with a limit of limitCPUs and the goal's burst. Its errors are those of ForContainer, and an
// error for a number of CPUs that is not above 0.
func ForNode(ctx context.Context, s *trace.Series, nominal time.Duration, nodeCPUs, limitCPUs float64, goal Goal, options Options) (Node, error) {
	if err := check(goal, options); err != nil {
		return Node{}, err
	}
	for _, c := range []struct {
		name string
		cpus float64
	}{{"a node", nodeCPUs}, {"a limit", limitCPUs}} {
		if !(c.cpus > 0) || math.IsInf(c.cpus, 1) {
			return Node{}, fmt.Errorf("%s of %v CPUs; take a number above 0", c.name, c.cpus)
		}
	}
	sub := newSubject(s, nominal, goal)
	n := Node{CPUs: nodeCPUs, LimitCPUs: limitCPUs, BurstPercent: 100 * goal.Burst}
	if n.Reason = sub.lacking(); n.Reason != "" {
		return n, nil
	}
	n.Utilisation = sub.mean / limitCPUs
	if n.Utilisation >= mostLoad {
		n.Reason = fmt.Sprintf("with a limit of %s nothing can be said of a node: it wants %s on average; take a higher limit", quantity.CPUs(limitCPUs), quantity.CPUs(sub.mean))
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
	blocks  *demand.Blocks // in quotas
	known   map[int]Density
	err     error // the first
}

func (c *nodeSearch) search(ctx context.Context) error {
	n := c.node
	quotas := inQuotas(c.sub.demand.CPUs, n.LimitCPUs)
	var err error
	if c.blocks, err = demand.NewBlocks(quotas, c.sub.piece); err != nil {
		return err
	}
	most := int(min(mostContainers, mostLoad*n.CPUs/c.sub.mean))
	allowed := int(min(mostContainers, n.CPUs/n.LimitCPUs+1e-9))
	n.ByLimits = c.try(ctx, allowed)
	n.Low = c.largest(ctx, most, func(p Estimate) bool { return p.Value-sure*p.StandardError >= c.sub.goal.ProbabilityWCET1 })
	n.High = c.largest(ctx, most, func(p Estimate) bool { return p.Value+sure*p.StandardError >= c.sub.goal.ProbabilityWCET1 })
	n.High = max(n.High, n.Low)
	n.Fits = c.try(ctx, n.Low)
	n.Most = n.Low == mostContainers
	n.LessDensity = n.Low < allowed
	if allowed > 0 {
		n.SafeUtilisation = c.safeUtilisation(ctx, allowed)
	}
	if n.Low > 0 {
		c.judgeHalves(ctx, quotas)
	}
	return c.err
}

// judgeHalves simulates as many containers as fit with each half of the recording alone.
func (c *nodeSearch) judgeHalves(ctx context.Context, quotas []float64) {
	half := len(quotas) / 2
	for i, part := range [][]float64{quotas[:half], quotas[half:]} {
		c.node.Halves[i].Value = 1
		blocks, err := demand.NewBlocks(part, min(c.sub.piece, float64(len(part))))
		if err == nil { // else nothing was wanted
			c.node.Halves[i] = c.simulate(ctx, c.node.Low, blocks).ProbabilityWCET1
		}
	}
}

// inQuotas turns CPUs into multiples of a limit.
func inQuotas(cpus []float64, limit float64) []float64 {
	quotas := make([]float64, len(cpus))
	for i, c := range cpus {
		quotas[i] = c / limit
	}
	return quotas
}

// largest returns the largest number of containers, up to most, whose P(WCET = 1) is good.
func (c *nodeSearch) largest(ctx context.Context, most int, good func(Estimate) bool) int {
	return sort.Search(most, func(i int) bool { return !good(c.try(ctx, i+1).ProbabilityWCET1) })
}

// try simulates a number of containers; none never miss.
func (c *nodeSearch) try(ctx context.Context, containers int) Density {
	if d, ok := c.known[containers]; ok {
		return d
	}
	d := Density{Containers: containers, ProbabilityWCET1: Estimate{Value: 1}, ExpectedWCET: Estimate{Value: 1}}
	if containers > 0 {
		d = c.simulate(ctx, containers, c.blocks)
	}
	c.known[containers] = d
	return d
}

func (c *nodeSearch) simulate(ctx context.Context, containers int, blocks *demand.Blocks) Density {
	n := c.node
	d := Density{Containers: containers, Load: float64(containers) * blocks.Mean() * n.LimitCPUs / n.CPUs}
	if c.err != nil || d.Load > mostLoad {
		return d // never met
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
	d.ProbabilityWCET1 = Estimate(result.ProbabilityWCET1)
	d.ExpectedWCET = Estimate(result.ExpectedWCET)
	d.ThrottleRatio = Estimate(result.Groups[0].ThrottleRatio)
	return d
}

// safeUtilisation returns the largest average demand over the limit, in hundredths, with which
// so many containers reach the goal.
func (c *nodeSearch) safeUtilisation(ctx context.Context, containers int) float64 {
	first := sort.Search(int(100*mostLoad), func(i int) bool {
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
	if n.CPUs/n.LimitCPUs >= mostContainers+1 {
		most = " and more"
	}
	limits := fmt.Sprintf("%s%s of %s fit on %s by their limits", quantity.Count(allowed.Containers, "container"), most, quantity.CPUs(n.LimitCPUs), quantity.CPUs(n.CPUs))
	met := func(d *Density) string {
		return fmt.Sprintf("all is done in time in %s of the periods", quantity.Share(d.ProbabilityWCET1.Value))
	}
	safe := fmt.Sprintf("with %d it is safe up to an average use of %s of the limit, and they use %s", allowed.Containers, quantity.Share(n.SafeUtilisation), quantity.Share(n.Utilisation))
	switch {
	case allowed.Containers == 0 && fits.Containers == 0:
		n.Reason = fmt.Sprintf("not even one of %s fits on %s by its limit, and alone it would not be done in time in %s of the periods", quantity.CPUs(n.LimitCPUs), quantity.CPUs(n.CPUs), goal)
	case allowed.Containers == 0:
		n.Reason = "not even one fits by its limit; " + fmt.Sprintf("with %d of them all would be done in time in %s of the periods (wanted: %s)", fits.Containers, quantity.Share(fits.ProbabilityWCET1.Value), goal)
	case n.LessDensity:
		n.Reason = fmt.Sprintf("%s, but with a burst of %s %s (wanted: %s), so less density before burst: with %d it is %s; %s",
			limits, quantity.Share(sub.goal.Burst), met(allowed), goal, fits.Containers, quantity.Share(fits.ProbabilityWCET1.Value), safe)
	default:
		n.Reason = fmt.Sprintf("%s, and with a burst of %s %s (wanted: %s, which up to %d reach); %s",
			limits, quantity.Share(sub.goal.Burst), met(allowed), goal, fits.Containers, safe)
	}
}

// warn adds what to bear in mind.
func (n *Node) warn(goal Goal) {
	if n.Fits.Containers > 1 {
		n.Warnings = append(n.Warnings, "containers are taken to be independent; replicas behind one load balancer are busy together, and fewer fit")
	}
	if n.Most {
		n.Warnings = append(n.Warnings, fmt.Sprintf("more than %d containers were not tried", mostContainers))
	}
	if n.High > n.Low {
		n.Warnings = append(n.Warnings, fmt.Sprintf("the simulation does not exclude that up to %d fit", n.High))
	}
	for i, name := range []string{"first", "second"} {
		if p := n.Halves[i]; n.Low > 0 && p.Value+sure*p.StandardError < goal.ProbabilityWCET1 {
			n.Warnings = append(n.Warnings, fmt.Sprintf("with the %s half of the recording alone all is done in time in %s of the periods only: it is not the same all the time, so record for longer, or at the busiest time",
				name, quantity.Share(p.Value)))
		}
	}
}
