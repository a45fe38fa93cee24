// Package files contains what the subcommands that read recordings and write files share.
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/tracefile"
)

// Extensions are the usual ones of recordings, whose format is detected from the content.
func Extensions() []string { return []string{"parquet", "csv", "npy", "journal", "gz", "zst", "bz2"} }

// Complete completes names of recordings, for arguments.
func Complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return Extensions(), cobra.ShellCompDirectiveFilterFileExt
}

// IntervalFlag adds --interval, the length of samples of .npy files.
func IntervalFlag(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("interval", 0, "the samples of an .npy file are `TIME` long")
}

// SuggestInterval adds to an error of an .npy file how to give the interval.
func SuggestInterval(err error) error {
	if errors.Is(err, tracefile.ErrNoInterval) {
		return fmt.Errorf("%w: say it with --interval, such as --interval 100ms", err)
	}
	return err
}

// NoteLost prints a note if the end of a journal was lost.
func NoteLost(w io.Writer, name string, bytes int64) {
	if bytes > 0 {
		frame.Notef(w, "the last %d bytes of %s are not a whole block, and are lost", bytes, name)
	}
}

// ErrInterrupted is the error of [Until].
var ErrInterrupted = errors.New("interrupted: nothing was written")

// Until returns the rows or spans before the context is done. Then the last one is
// [ErrInterrupted].
func Until[R any](ctx context.Context, rows iter.Seq2[*R, error]) iter.Seq2[*R, error] {
	return func(yield func(*R, error) bool) {
		for r, err := range rows {
			if ctx.Err() != nil {
				yield(nil, ErrInterrupted)
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// WriteTo writes an output that is not a recording. It appears when write has returned without an
// error.
func WriteTo(o tracefile.Output, write func(*os.File) error) error {
	return frame.SuggestForce(atomicfile.WriteFunc(o.Name, atomicfile.Options{Perm: 0o644, KeepOld: !o.Replace}, write))
}

// ExplainJournal says how to make a file of the journal that an error of a recorder is about.
// program is how the user calls it.
func ExplainJournal(err error, program string) error {
	if exists := (*tracefile.JournalExistsError)(nil); errors.As(err, &exists) {
		return fmt.Errorf("%w: remove it when you have made a file of it: %s trace recover %s -o FILE", err, program, trace.ShellWord(exists.Journal))
	}
	if kept := (*tracefile.KeptError)(nil); errors.As(err, &kept) {
		return fmt.Errorf("%w: make a file of it where there is room: %s trace recover %s -o FILE", err, program, trace.ShellWord(kept.Journal))
	}
	return err
}
