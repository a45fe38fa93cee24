package control

import (
	"pinfold.dev/pinfold/agent/control/batchpods"
	"pinfold.dev/pinfold/agent/control/node"
	"pinfold.dev/pinfold/agent/control/quota"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/nri"
)

// Status is what follows from a decision that was carried out: what to read until the next one, and
// what to tell others. It contains everything that the agent does besides writing settings, and
// stays valid until the next decision.
type Status struct {
	// Hold is the reason why nothing is changed, or "".
	Hold string
	// Containers are the running containers. They are sampled, traced and shown in metrics.
	Containers []node.Limited
	// CoreSets are the paths of the containers that have core sets, whose usage these follow.
	CoreSets map[nodeplan.Ref]string
	// Created are the settings for the container that the runtime asked about; see [Control.Ask].
	Created nri.Settings
	Raises  quota.Raises
	Batch   batchpods.Status
	Report  Report
}

// Limited returns the containers that have a quota.
func (s *Status) Limited() (limited []node.Limited) {
	for i := range s.Containers {
		if s.Containers[i].Base.Quota != bandwidth.Unlimited {
			limited = append(limited, s.Containers[i])
		}
	}
	return limited
}

// status returns the status after the last decision.
func (c *Control) status() Status {
	s := Status{Hold: c.hold(), Report: c.report()}
	if s.Hold != "" {
		return s
	}
	s.CoreSets = map[nodeplan.Ref]string{}
	for ref := range c.previous.Sets {
		if path, ok := c.state.Groups.Containers[ref]; ok {
			s.CoreSets[ref] = path
		}
	}
	if c.asked != nil {
		s.Created = c.settingsOf(*c.asked)
	}
	s.Containers, s.Raises = c.quota.Status(&c.state)
	s.Batch = c.batch.Status(&c.state, c.cpus.Exclusive())
	return s
}

// settingsOf returns the settings with which a container is to be created. It contains a quota only
// if that differs from the kubelet's, so that other plugins may set the quota of all other
// containers.
func (c *Control) settingsOf(ref nodeplan.Ref) (settings nri.Settings) {
	planned, own := c.state.Plan.Container(ref), false
	if settings.CPUs, own = c.cpus.ForNew(&c.state, ref.Pod, planned); own {
		settings.Quota, settings.Period = c.quota.ForNew(&c.state, ref, planned)
	}
	return settings
}
