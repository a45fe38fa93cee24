package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/lab/localcluster"
)

func newDown() *cobra.Command {
	var dir string
	command := &cobra.Command{
		Use:   "down",
		Short: "Stop a cluster and remove what it left",
		Args:  usage.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return down(command.Context(), dir, command.ErrOrStderr())
		},
	}
	addDirFlag(command, &dir)
	return command
}

// down is content when there was nothing to stop: that is what was asked for.
func down(ctx context.Context, dir string, stderr io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopTimeout, fmt.Errorf("waited %v", stopTimeout))
	defer cancel()
	err := localcluster.Shutdown(ctx, dir)
	switch {
	case err == nil:
		fmt.Fprintf(stderr, "stopped the cluster in %s\n", dir)
		return nil
	case !errors.Is(err, localcluster.ErrNotRunning):
		return err
	}
	_, explanation := localcluster.ReadState(dir)
	removed, err := localcluster.Remove(dir, slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return err
	}
	if explanation == nil { // it was about to end
		explanation = localcluster.ErrNotRunning
	}
	fmt.Fprintln(stderr, explanation)
	if removed {
		fmt.Fprintf(stderr, "removed what it left in %s\n", dir)
	}
	return nil
}
