package control

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// Notice is a message for users.
type Notice = groups.Notice

// Summary is the state of the node, for its condition and for metrics.
type Summary struct {
	Exclusive, Shared cpuset.Set
	// Containers counts running containers by the kind of CPUs that they run on.
	Containers map[nodeplan.Home]int
	// Quality is the sum over the containers that have exclusive CPUs.
	Quality placement.Quality
	// Lost is the number of pods that have lost their CPUs and still run.
	Lost int
	// Problems say what is wrong with the node, and make its condition False. Notes, which the
	// condition repeats, say what is done differently there than requested. Warnings and PodNotes
	// are the same about what authors of pods can cause: the condition must not depend on them.
	Problems, Warnings, Notes, PodNotes []Notice
	// Impaired are what the agent itself cannot do, which the condition repeats. News are for the authors
	// of pods.
	Impaired, News []Notice
}

func (c *Control) summary() (s Summary) {
	s = Summary{Exclusive: c.round.Plan.Exclusive, Shared: c.round.Plan.Shared, Containers: map[nodeplan.Home]int{}}
	for _, p := range c.round.Plan.Pods {
		for _, container := range p.Containers {
			if !container.Running {
				continue
			}
			s.Containers[container.Home]++
			if container.Home == nodeplan.HomeExclusive {
				q := c.round.Index.Quality(container.CPUs)
				s.Quality.NUMANodes += q.NUMANodes
				s.Quality.SplitCores += q.SplitCores
				s.Quality.LLCs += q.LLCs
			}
		}
	}
	n := c.notices()
	s.Problems, s.Warnings = c.split(n.Problems)
	s.Notes, s.PodNotes = c.split(n.Notes)
	for i := range n.News {
		if n.News[i].Reason == groups.Lost {
			s.Lost++
		}
	}
	s.News = n.News
	return s
}

// addStanding adds the warnings of those that carry out decisions, which have logged them.
func (s *Summary) addStanding(standing []Notice) {
	for _, n := range standing {
		if n.Reason == groups.Impaired {
			s.Impaired = append(s.Impaired, n)
		} else {
			s.Problems = append(s.Problems, n)
		}
	}
}

// split separates notices about the node from those that everybody who may write pods can cause.
func (c *Control) split(notices []Notice) (ofNode, ofPods []Notice) {
	for _, n := range notices {
		tenants := n.Pod != nil && c.Pods.CanBeForged(n.Pod)
		switch n.Reason {
		case string(nodeplan.Overflow): // too many requests of all pods together
			tenants = true
		case groups.CPUsUnavailable, groups.NotPartitioned: // caused by the kernel
			tenants = false
		}
		if tenants {
			ofPods = append(ofPods, n)
		} else {
			ofNode = append(ofNode, n)
		}
	}
	return ofNode, ofPods
}

// Report is what to publish after a round.
type Report struct {
	Summary Summary
	// Events are the problems and notes that the last report did not contain.
	Events []Notice
	// Condition has no times, so equal situations give equal conditions.
	Condition corev1.NodeCondition
}

// report returns the state of the node after the last decision was applied.
func (c *Control) report() (r Report) {
	if hold := c.hold(); hold != "" {
		r.Summary.addStanding(c.node.standing)
		waiting := Notice{Reason: "Waiting", Message: "nothing is changed, and what was set before stays in force: " + hold}
		r.Condition = condition(append([]Notice{waiting}, r.Summary.Problems...), r.Summary.Impaired)
		r.Condition.Status = corev1.ConditionUnknown
		return r
	}
	s := c.summary()
	r.Events = c.noticed.update(slices.Concat(s.Problems, s.Warnings, s.Notes, s.PodNotes, s.News))
	s.addStanding(c.node.standing)
	problems := s.Problems
	if c.config.Observe { // not a problem, but nothing is enforced
		problems = append([]Notice{{Reason: nodetopology.Observing, Message: "nothing is enforced on this node: " + observing}}, problems...)
	}
	r.Summary, r.Condition = s, condition(problems, slices.Concat(s.Impaired, s.Notes))
	return r
}

// Failed returns the status after a round that could not start because of err.
func (c *Control) Failed(err error) Status {
	s := Summary{Problems: []Notice{{Reason: groups.CannotEnforce, Message: "nothing can be enforced on this node: " + err.Error()}}}
	events := c.noticed.update(s.Problems)
	s.addStanding(c.node.standing)
	c.last.Report = Report{s, events, condition(s.Problems, s.Impaired)}
	c.addNode(&c.last)
	return c.last
}

// noticed are the notices of the last report.
type noticed map[string]bool

// update replaces the notices, and returns those that are new.
func (last *noticed) update(notices []Notice) (added []Notice) {
	now := noticed{}
	for _, n := range notices {
		key := n.Reason + " " + n.Message
		if n.Pod != nil {
			key += " " + string(n.Pod.UID)
		}
		if !(*last)[key] && !now[key] {
			added = append(added, n)
		}
		now[key] = true
	}
	*last = now
	return added
}

// observing is why nothing is enforced.
const observing = "the agent observes (--mode=observe)"

// maxMessage is the length after which the condition's message is cut.
const maxMessage = 2000

func condition(problems, notes []Notice) corev1.NodeCondition {
	c := corev1.NodeCondition{Type: nodetopology.BindingCondition, Status: corev1.ConditionTrue, Reason: "Enforced"}
	var lines []string
	if len(problems) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, problems[0].Reason
	} else {
		lines = []string{nodetopology.Enforced}
	}
	for _, n := range slices.Concat(problems, notes) {
		lines = append(lines, n.Message)
	}
	c.Message = api.Shorten(strings.Join(lines, "; "), maxMessage)
	return c
}
