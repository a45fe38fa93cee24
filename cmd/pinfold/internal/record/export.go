package record

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/files"
	"pinfold.dev/pinfold/report/perfetto"
	"pinfold.dev/pinfold/tracefile"
)

func newExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export FILE --perfetto FILE [flags]",
		Short: "Write what the threads of an exact recording did, for a trace viewer",
		Long: `Write what the threads of a recording did, for a trace viewer: when each ran,
was throttled, or waited for a CPU and behind what, and the CPU time that each
quota had left at the edges of its periods. The recording must be an exact one
('pinfold sample --exact').`,
		Example: `  pinfold trace export web.parquet --perfetto web.pftrace`,
		Args:    oneFile, ValidArgsFunction: files.Complete,
	}
	var output tracefile.Output
	cmd.Flags().StringVar(&output.Name, "perfetto", "", "write to `FILE`, for the trace viewer https://ui.perfetto.dev")
	cmd.Flags().BoolVar(&output.Replace, "force", false, "replace the output if it exists")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return export(cmd, args[0], output) }
	return cmd
}

func export(cmd *cobra.Command, from string, output tracefile.Output) error {
	if output.Name == "" {
		return frame.Usagef("--perfetto is missing: name the output")
	}
	f, err := tracefile.Open(from, 0)
	if err != nil {
		return files.SuggestInterval(err)
	}
	defer f.Close()
	ctx, stop := frame.Interruptible(cmd.Context())
	defer stop()
	spans := 0
	err = files.WriteTo(output, func(file *os.File) error {
		out := perfetto.New(file, perfetto.Clocks{Real: f.Header().Start})
		for s, err := range files.Until(ctx, tracefile.Spans(from)) {
			if err != nil {
				return err
			}
			out.Add(s)
			spans++
		}
		if spans == 0 {
			return fmt.Errorf("%s says nothing of threads: record with 'pinfold sample --exact', and keep its two files together", from)
		}
		return out.Close()
	})
	if err != nil {
		return err
	}
	frame.Notef(cmd.ErrOrStderr(), "%s: %d spans", output.Name, spans)
	return nil
}
