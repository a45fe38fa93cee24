package main

import (
	"slices"
	"time"

	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/core/nodeplan"
)

// burstFlags say how containers may exceed their limits for a moment.
type burstFlags struct {
	policy, owner                       string
	burstPercent, quotaPercent, seconds int
}

func (f *burstFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.policy, "burst-policy", "none", `burst policy of pods that name none: "none", "burst", "quota" or "auto"`)
	flags.IntVar(&f.burstPercent, "burst-percent", 100, "how much of its quota a container may save up, where its pod does not say")
	flags.IntVar(&f.quotaPercent, "quota-percent", 300, "how far quota may be raised, in percent of the limit, where the pod does not say")
	flags.IntVar(&f.seconds, "quota-burst-seconds", 60, "for how long it may stay raised to that, where the pod does not say; -1 for as long as savings last")
	flags.StringVar(&f.owner, "quota-owner", "pinfold", `whose quota counts when somebody else writes it, too: "pinfold" or "other"`)
}

// set puts the flags into the configuration.
func (f *burstFlags) set(c *control.Config) error {
	modes := []nodeplan.BurstMode{nodeplan.BurstNone, nodeplan.BurstKernel, nodeplan.BurstQuota, nodeplan.BurstAuto}
	owners := []control.QuotaOwner{control.OwnerPinfold, control.OwnerOther}
	const most = 10000
	switch {
	case !slices.Contains(modes, nodeplan.BurstMode(f.policy)):
		return usage.Errorf("--burst-policy %q: it must be one of %q", f.policy, modes)
	case f.burstPercent < 1 || f.burstPercent > most:
		return usage.Errorf("--burst-percent %d: it must be 1 to %d", f.burstPercent, most)
	case f.quotaPercent < 100 || f.quotaPercent > most:
		return usage.Errorf("--quota-percent %d: it must be 100 to %d", f.quotaPercent, most)
	case f.seconds != -1 && f.seconds < 1:
		return usage.Errorf("--quota-burst-seconds %d: it must be 1 or more, or -1", f.seconds)
	case !slices.Contains(owners, control.QuotaOwner(f.owner)):
		return usage.Errorf("--quota-owner %q: it must be one of %q", f.owner, owners)
	}
	c.QuotaOwner = control.QuotaOwner(f.owner)
	c.Burst = nodeplan.BurstPolicy{Mode: nodeplan.BurstMode(f.policy), BurstPercent: f.burstPercent, QuotaPercent: f.quotaPercent,
		QuotaBurst: time.Duration(f.seconds) * time.Second}
	if f.seconds == -1 {
		c.Burst.QuotaBurst = nodeplan.NoEnd
	}
	return nil
}
