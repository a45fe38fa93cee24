package advice

import (
	"context"
	"time"

	"pinfold.dev/pinfold/core/trace"
)

// ForContainer returns the advice for one series that was recorded at a nominal interval.
// What the recording cannot tell is no error: the finding says so. Errors: a goal that is
// none (ErrGoal), and a context that ended.
func ForContainer(ctx context.Context, s *trace.Series, nominal time.Duration, goal Goal, means Means) (Container, error) {
	if err := goal.Validate(); err != nil {
		return Container{}, err
	}
	if err := means.validate(); err != nil {
		return Container{}, err
	}
	return forContainer(ctx, s, nominal, goal, means)
}

// ForNode returns how many containers like the one that was recorded fit on a node of so
// many CPUs, each with a limit and the goal's burst. Errors are those of ForContainer, and
// numbers of CPUs that are not above 0.
func ForNode(ctx context.Context, s *trace.Series, nominal time.Duration, nodeCPUs, limitCPUs float64, goal Goal, means Means) (Node, error) {
	if err := goal.Validate(); err != nil {
		return Node{}, err
	}
	if err := means.validate(); err != nil {
		return Node{}, err
	}
	return forNode(ctx, s, nominal, nodeCPUs, limitCPUs, goal, means)
}
