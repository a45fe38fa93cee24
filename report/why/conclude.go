package why

import (
	"fmt"
	"math"
	"strings"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/quantity"
)

// conclude says why a container was slow, the main reason first, and what to do. command does a part of that,
// if there is one.
func (r *Report) conclude(c *Container, v *blame.Verdict) (conclusion, advice, command string) {
	var said, do []string
	for i, reason := range v.Reasons {
		also, of := "", "of the time in which it wanted to run"
		if i > 0 {
			also, of = "also ", "of that time"
		}
		said = append(said, r.explain(c, v, reason, also, of))
		if reason.Cause != blame.ByOwnThreads || !v.Has(blame.ByParallelism) { // whose advice is more exact
			do = append(do, r.advise(c, reason))
		}
		if reason.Cause == blame.ByBursts && !c.burstIsLargest() {
			command = c.annotate(r.Kind(c.Group))
		}
	}
	if sum := r.Groups[c.Group]; sum.Unknown > sum.Runnable()/muchUnknown {
		said = append(said, fmt.Sprintf("But what its threads did in another %s is not known, so the reason may be a different one.", seconds(sum.Unknown)))
		do, command = []string{"Trace it again."}, ""
	}
	return strings.Join(said, " "), strings.Join(do, " "), command
}

// Unknown time of more than a quarter (1/muchUnknown) of the time in which threads wanted to run may hide another
// reason.
const muchUnknown = 4

// explain says what a reason was, in one sentence.
func (r *Report) explain(c *Container, v *blame.Verdict, reason blame.Reason, also, of string) string {
	sum := r.Groups[c.Group]
	runnable, share := sum.Runnable(), reason.Share.Whole()
	throttled := fmt.Sprintf("It was %sthrottled for %s %s", also, share, of)
	switch reason.Cause {
	case blame.NotRunnable:
		return fmt.Sprintf("Nothing to remedy was found: it wanted to run for only %s of %s, because its threads slept.", seconds(runnable), seconds(r.observed()))
	case blame.NotDelayed:
		return fmt.Sprintf("Nothing to remedy was found: of the time in which it wanted to run, it ran %s, waited for a CPU %s and was throttled %s.",
			share, percent(sum.Waiting(), runnable), percent(sum.Throttled, runnable))
	case blame.ByQuota:
		switch above := r.above(c); {
		case above != 0:
			return fmt.Sprintf("%s, because the quota of the group above it, %s, was used up.", throttled, r.Waited(blame.Occupant{Group: above}))
		case c.Limits.Period == 0:
			return throttled + "."
		case c.limit() == 0:
			return throttled + ", because the quota of a group above or in it was used up."
		}
		return fmt.Sprintf("%s, and uses %s of its limit of %s on average.", throttled, v.Usage, c.limit())
	case blame.ByBursts:
		return fmt.Sprintf("%s, although it uses only %s of its limit of %s on average.", throttled, v.Usage, c.limit())
	case blame.ByParallelism:
		return fmt.Sprintf("%s: on average %.1f threads want to run at a time, and share a limit of %s.", throttled, v.Parallel, c.limit())
	case blame.ByNeighbours, blame.ByOwnThreads:
		return r.explainWaiting(c, v, reason, also, of)
	case blame.ByMachine:
		return fmt.Sprintf("Interrupts or the hypervisor %sused its CPUs for %s %s.", also, share, of)
	}
	return ""
}

// littleWaiting is a share of waiting that is not worth a sentence.
const littleWaiting = 0.02

func (r *Report) explainWaiting(c *Container, v *blame.Verdict, reason blame.Reason, also, of string) string {
	most := "most behind " + r.neighbour(&r.Groups[c.Group].Parts, c.Group).name
	switch others, own := reason.Others.Whole(), reason.Own.Whole(); {
	case reason.Own < littleWaiting:
		return fmt.Sprintf("It %swaited behind others for %s %s, %s.", also, others, of, most)
	case reason.Others < littleWaiting && also != "":
		return fmt.Sprintf("Its threads also waited for each other for %s %s.", own, of)
	case reason.Others < littleWaiting:
		return fmt.Sprintf("Its threads waited for each other for %s %s: on average %.1f want to run at a time, and it uses %s.", own, of, v.Parallel, v.Usage)
	case reason.Cause == blame.ByNeighbours:
		return fmt.Sprintf("It %swaited for CPUs for %s %s: %s behind others, %s, and %s behind its own threads.", also, reason.Share.Whole(), of, others, most, own)
	default:
		return fmt.Sprintf("It %swaited for CPUs for %s %s: %s behind its own threads, and %s behind others, %s.", also, reason.Share.Whole(), of, own, others, most)
	}
}

// nearlyAlways is a share of running that settings cannot improve much.
const nearlyAlways = 0.95

// advise says what to do about a reason.
func (r *Report) advise(c *Container, reason blame.Reason) string {
	remedy := r.Kind(c.Group).remedies()
	switch reason.Cause {
	case blame.NotRunnable:
		return "If it is slow, look at what it waits for: requests, disks, locks or other services."
	case blame.NotDelayed:
		if reason.Share < nearlyAlways {
			return "The rest has no single cause, or one that was not seen."
		}
		return "CPU settings will not make it faster: look at its code, or at what it waits for."
	case blame.ByQuota:
		switch above := r.above(c); {
		case above != 0:
			return fmt.Sprintf("Raise the quota of that group (%s).", r.Kind(above).remedies().limit)
		case c.Limits.Period == 0:
			return "Raise its limit, or the quota of a group above it."
		case c.limit() == 0:
			return "Raise the quota of that group."
		}
		return fmt.Sprintf("Raise the limit (%s); 'pinfold advise' computes by how much from a recording.", remedy.limit)
	case blame.ByBursts:
		if c.burstIsLargest() {
			return fmt.Sprintf("Raise the limit (%s): its burst is the largest already.", remedy.limit)
		}
		return fmt.Sprintf("Let it use later what it did not use: %s.", remedy.burst)
	case blame.ByParallelism:
		threads := quantity.Count(int(math.Ceil(float64(c.limit()))), "thread")
		return fmt.Sprintf("Raise the limit (%s). With %s (for Go: GOMAXPROCS) it would be throttled less often, and not do more.", remedy.limit, threads)
	case blame.ByNeighbours:
		return r.apart(c.Group)
	case blame.ByOwnThreads:
		return "Let it use more CPUs. Fewer threads (for Go: GOMAXPROCS) would wait less for each other, and not do more."
	case blame.ByMachine:
		return "Look at the machine: interrupts on its CPUs (/proc/interrupts), and steal time, for which a larger or dedicated virtual machine helps."
	}
	return ""
}
