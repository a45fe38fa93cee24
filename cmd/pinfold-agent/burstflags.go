package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/kube/api"
)

// burstFlags say how containers may exceed their limits for a moment.
type burstFlags struct {
	policy, owner, ceilings             string
	burstPercent, quotaPercent, seconds int
}

func (f *burstFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.policy, "burst-policy", "none", `burst policy of pods that name none: "none", "burst", "quota" or "auto"`)
	flags.IntVar(&f.burstPercent, "burst-percent", 100, "how much of its quota a container may save up, where its pod does not say")
	flags.IntVar(&f.quotaPercent, "quota-percent", 300, "how far quota may be raised, in percent of the limit, where the pod does not say")
	flags.IntVar(&f.seconds, "quota-burst-seconds", 60, "for how long it may stay raised to that, where the pod does not say; -1 for as long as savings last")
	flags.StringVar(&f.owner, "quota-owner", "pinfold", `whose quota counts when somebody else writes it, too: "pinfold" or "other"`)
	flags.StringVar(&f.ceilings, "ceilings", "", "YAML file that bounds what pods get by their annotations; read once, at the start")
}

// set puts the flags into the configuration.
func (f *burstFlags) set(c *control.Config) error {
	modes := []burst.Mode{burst.None, burst.Kernel, burst.Quota, burst.Auto}
	owners := []control.QuotaOwner{control.OwnerPinfold, control.OwnerOther}
	const most = 10000
	switch {
	case !slices.Contains(modes, burst.Mode(f.policy)):
		return usage.Errorf("--burst-policy %q: it must be one of %q", f.policy, modes)
	case f.burstPercent < 1 || f.burstPercent > most:
		return usage.Errorf("--burst-percent %d: it must be 1 to %d", f.burstPercent, most)
	case f.quotaPercent < 100 || f.quotaPercent > most:
		return usage.Errorf("--quota-percent %d: it must be 100 to %d", f.quotaPercent, most)
	case f.seconds != burst.NoEnd && f.seconds < 1:
		return usage.Errorf("--quota-burst-seconds %d: it must be 1 or more, or -1", f.seconds)
	case !slices.Contains(owners, control.QuotaOwner(f.owner)):
		return usage.Errorf("--quota-owner %q: it must be one of %q", f.owner, owners)
	}
	c.QuotaOwner = control.QuotaOwner(f.owner)
	c.Burst = burst.Policy{Mode: burst.Mode(f.policy), BurstPercent: f.burstPercent, QuotaPercent: f.quotaPercent, QuotaBurstSeconds: f.seconds}
	return f.readCeilings(c)
}

// readCeilings reads the file of the ceilings. The agent does not start without it: pods
// would get more than the administrator allows.
func (f *burstFlags) readCeilings(c *control.Config) error {
	if f.ceilings == "" {
		return nil
	}
	text, err := os.ReadFile(f.ceilings)
	if err != nil {
		return fmt.Errorf("--ceilings: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return fmt.Errorf("--ceilings %s: the file is empty: write {} for no ceilings but the built-in ones", f.ceilings)
	}
	if c.Ceilings, err = api.ParseCeilings(text); err != nil {
		return fmt.Errorf("--ceilings %s: %w", f.ceilings, err)
	}
	return nil
}
