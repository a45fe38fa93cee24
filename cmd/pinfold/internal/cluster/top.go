package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/report/terminal"
	"pinfold.dev/pinfold/report/top"
)

// NewTop returns the plugin's subcommand "top".
func NewTop() *cobra.Command {
	o := &podOptions{}
	once, all, order := false, false, top.Orders()[0]
	cmd := &cobra.Command{
		Use:   "top [POD] [flags]\ntop --node NODE [flags]",
		Short: "Watch containers use their limits, and being throttled",
		Long: `Watch what a pod's containers, or all of a node, use against their limits,
until q or ctrl-C; the last line shows the keys. With --once, and where the
output is no terminal, it samples for a second and prints a table.

Without POD and --node, this table has the containers of all nodes with agents,
or with -n those of a namespace. What is throttled most comes first, and the
last line is the command that says why.

It runs pinfold in the agent's pod, which takes pods/exec in its namespace, or
where no agent runs in a pod of its own, which it asks about (--debug) and
removes at the end.`,
		Example: `  pinfold top
  pinfold top web-0 -n shop
  pinfold top --node worker-1 --sort usage --once`,
	}
	o.addFlags(cmd)
	named := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return named(cmd, args)
	}
	f := cmd.Flags()
	f.StringVar(&o.node, "node", "", "watch all containers of the node `NAME`")
	f.Duration("interval", 0, "`TIME` from one sample to the next, 1ms to 1s (default each group's own period)")
	frame.OneOf(f, &order, "sort", "what comes first: the largest value, or the first name", top.Orders()...)
	f.BoolVar(&all, "all", false, "also show groups without limit that have used no CPU time since it started, and the sandboxes of pods")
	f.BoolVar(&once, "once", false, "print one table and end")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.node != "" && len(args) > 0 {
			return frame.Usagef("a pod is on one node: give POD or --node, not both")
		}
		everywhere := o.node == "" && len(args) == 0
		ctx, stop := frame.Interruptible(cmd.Context())
		defer stop()
		context.AfterFunc(ctx, stop) // a second ctrl-C kills
		if everywhere {
			model := top.New()
			model.Sort, model.All = order, all
			return o.topEverywhere(ctx, cmd, model, changedFlags(cmd, "interval"))
		}
		s, err := o.open(ctx, cmd, args, "")
		if err != nil {
			return err
		}
		flags := changedFlags(cmd, "interval", "sort", "all", "once")
		keys, isFile := cmd.InOrStdin().(*os.File)
		if once || !isFile || !terminal.Is(keys) || !terminal.Is(cmd.OutOrStdout()) {
			return s.run(ctx, "top", flags, until{ctx}, cmd.OutOrStdout(), cmd.ErrOrStderr())
		}
		return s.watch(ctx, flags, keys, cmd.OutOrStdout().(*os.File), cmd.ErrOrStderr())
	}
	return cmd
}

// watch runs "top" for a terminal here, whose keys and sizes are the command's input. ctrl-C ends
// that input.
func (s *session) watch(ctx context.Context, flags []string, keys, screen *os.File, stderr io.Writer) error {
	in, input, err := os.Pipe() // which holds keys until the command reads them
	if err != nil {
		return err
	}
	defer in.Close()
	ctx, end := context.WithCancel(ctx)
	defer end()
	context.AfterFunc(ctx, func() { _ = input.Close() })
	width, height := terminal.Size(screen)
	size := fmt.Sprintf("--screen=%dx%d", width, height)
	if terminal.MapOptions(screen, os.Getenv).Colour {
		size += "+colour"
	}
	restore, err := terminal.FullScreen(keys, screen)
	if err != nil {
		return err
	}
	var messages bytes.Buffer
	ended, killed := make(chan error, 1), make(chan bool)
	go pass(keys, input, end, func() { close(killed) })
	go passSizes(ctx, screen, input)
	go func() { ended <- s.run(ctx, "top", append(flags, size), in, screen, &messages) }()
	select {
	case err = <-ended:
		defer func() { _, _ = messages.WriteTo(stderr) }()
	case <-killed:
		err = errors.New("interrupted")
	}
	restore()
	return err
}

// pass passes keys on. The first ctrl-C calls end, the second kill.
func pass(keys io.Reader, to io.Writer, end, kill func()) {
	const ctrlC = 3
	var buffer [64]byte
	for ends := 0; ends < 2; {
		n, err := keys.Read(buffer[:])
		if err != nil {
			end()
			return
		}
		if bytes.IndexByte(buffer[:n], ctrlC) < 0 {
			_, _ = to.Write(buffer[:n]) // fails after the end
			continue
		}
		if ends++; ends == 1 {
			end()
		} else {
			kill()
		}
	}
}

// passSizes passes the sizes that a terminal gets. Windows has no signal for these.
func passSizes(ctx context.Context, screen *os.File, to io.Writer) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for last := ""; ; {
		width, height := terminal.Size(screen)
		if size := fmt.Sprintf("\x1b[8;%d;%dt", height, width); size != last {
			_, _ = io.WriteString(to, size) // fails after the end
			last = size
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
