package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/pinfold/internal/cluster"
	"pinfold.dev/pinfold/kube/survey"
)

// explain adds to an error of the API server what to do.
func (o *options) explain(ctx context.Context, client *survey.Client, server string, err error) error {
	switch {
	case errors.Is(err, survey.ErrNotInstalled):
		return fmt.Errorf("%w: docs/operations.md says how to install it", err)
	case errors.Is(err, survey.ErrNoNode):
		names, listErr := client.NodeNames(ctx)
		if listErr != nil {
			return err
		}
		return fmt.Errorf("%w: %s", err, suggestNodes(names, o.node))
	}
	return cluster.Explain(ctx, server, err)
}

// maxSuggestions limits how many nodes an error names.
const maxSuggestions = 5

// suggestNodes names the nodes that may have been meant, otherwise some of all nodes.
func suggestNodes(names []string, meant string) string {
	near := similar(names, meant)
	intro, end, rest := "did you mean ", "?", ", or one of %d others"
	if len(near) == 0 {
		near, intro, end, rest = slices.Sorted(slices.Values(names)), "the cluster has ", "", " and %d others, as 'kubectl get nodes' lists them"
	}
	switch {
	case len(near) == 0:
		return "the cluster has no nodes"
	case len(near) > maxSuggestions:
		end = fmt.Sprintf(rest, len(near)-maxSuggestions) + end
	}
	return intro + strings.Join(near[:min(len(near), maxSuggestions)], ", ") + end
}

// similar returns the names that contain the meant one, and those that cobra would suggest if they
// were commands: with the meant one at the beginning, or at most two characters different.
func similar(names []string, meant string) []string {
	nodes := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, name := range names {
		nodes.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	near := nodes.SuggestionsFor(meant)
	for _, name := range names {
		if strings.Contains(name, meant) {
			near = append(near, name)
		}
	}
	slices.Sort(near)
	return slices.Compact(near)
}
