package advice

import (
	"fmt"
	"strings"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/quantity"
)

// verdict is the advice in one sentence: which limit and burst to set, and what that does.
func (c *Container) verdict(goal advice.Goal) string {
	l, r := &c.LimitWithBurst, &c.Recorded
	if !l.Enough {
		return fmt.Sprintf("%s: set no new limit yet: the recording has too little data, as it says below.", c.title())
	}
	text := fmt.Sprintf("%s: set a limit of %s; that throttles %s of the recorded periods (wanted: at most %s)",
		c.title(), setting(l), quantity.Share(l.ThrottleRatio), quantity.Share(goal.ThrottleRatio))
	if r.LimitCPUs > 0 {
		text += fmt.Sprintf(", while the present limit of %s throttled %s", quantity.CPUs(r.LimitCPUs), quantity.Share(r.ThrottleRatio))
	}
	return text + "."
}

// setting is a limit with its burst.
func setting(l *advice.Limit) string {
	if l.BurstPercent == 0 {
		return quantity.CPUs(l.LimitCPUs).String() + " without burst"
	}
	return fmt.Sprintf("%s and a burst of %s", quantity.CPUs(l.LimitCPUs), percentOf(l.BurstPercent))
}

// patchRow says which of the answers the patch contains, and why.
func (c *Container) patchRow(goal advice.Goal) row {
	l := &c.LimitWithBurst
	if _, _, _, ok := podNames(c.Name); !ok {
		return row{Name: "patch", Value: "none", Reason: "kubectl can patch pods only, and the recording has no NAMESPACE/POD/CONTAINER for this group; record with 'pinfold sample --pod'"}
	}
	answer, others := "limit", []string(nil)
	if l.BurstPercent > 0 {
		answer, others = "with burst", []string{"'limit' is for nodes without pinfold-agent, where there is no burst"}
	}
	if c.Recorded.LimitCPUs > 0 && c.Burst.Enough {
		others = append(others, "'burst' is for pods that keep their present limit")
	}
	why := []string{fmt.Sprintf("%s, the lowest limit that meets the goal", setting(l))}
	if l.HeldOut.JudgedThrottleRatio > goal.ThrottleRatio {
		why = append(why, fmt.Sprintf("the check on held-out data misses the goal: the limit from the first half throttles %s of the second; "+
			"the patch keeps the limit from the whole recording; to be safer, record for longer, or set %s, the upper end of the confidence interval",
			quantity.Share(l.HeldOut.JudgedThrottleRatio), quantity.CPUs(l.HighCPUs)))
	}
	return row{Name: "patch", Value: fmt.Sprintf("contains '%s'", answer), Reason: strings.Join(append(why, others...), "; ")}
}
