package component

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kwok/pkg/config"
	kwokcmd "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
)

func kwok(flags []string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := serveKWOK(ctx, flags); err != nil {
		fmt.Fprintf(os.Stderr, "kwok: %v\n", err)
		return 1
	}
	return 0
}

// serveKWOK runs the controller. Its configuration is read, and passed on in
// the context, before its command exists: the command takes its defaults from
// it.
func serveKWOK(ctx context.Context, flags []string) error {
	early := pflag.NewFlagSet("early", pflag.ContinueOnError)
	early.ParseErrorsAllowlist.UnknownFlags = true
	early.Usage = func() {}
	ctx, _ = log.InitFlags(ctx, early)
	ctx, err := config.InitFlags(ctx, early)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	// cobra adds the process-wide flags to every command. Those here are of
	// Kubernetes' components, and their --version is not the one KWOK expects.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	command := kwokcmd.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(early)
	command.SetArgs(flags)
	return command.ExecuteContext(ctx)
}
