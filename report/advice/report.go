package advice

import (
	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/report"
)

// Report is advice on any number of containers.
type Report struct {
	Goal       advice.Goal
	Containers []Container
}

// Container is the advice for one container, or any other group.
type Container struct {
	File string // the recording
	advice.Container
	// Node is nil when nobody asked about one.
	Node *advice.Node
}

// title is what people call it.
func (c *Container) title() string {
	if c.Name != "" {
		return report.Printable(c.Name)
	}
	return report.Printable(c.Group)
}

// DecidedLimit is the limit to set: the one for the goal's burst where it is known, else the
// present one; 0 when there is neither.
func DecidedLimit(c *advice.Container) float64 {
	if c.LimitWithBurst.Enough {
		return c.LimitWithBurst.LimitCPUs
	}
	return c.Recorded.LimitCPUs
}
