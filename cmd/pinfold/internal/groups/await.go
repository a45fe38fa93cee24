//go:build linux

package groups

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// awaitInput adds the flag by which "kubectl pinfold" has a command begin when it has attached to its
// pod.
func awaitInput(cmd *cobra.Command) {
	const name = "await-input"
	awaits := cmd.Flags().Bool(name, false, "begin when a byte has come from standard input")
	_ = cmd.Flags().MarkHidden(name)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !*awaits {
			return nil
		}
		return awaitByte(cmd.InOrStdin())
	}
}

// awaitTime is how long a command waits for somebody to attach to it.
const awaitTime = time.Minute

// awaitByte waits for the first byte of an input.
func awaitByte(in io.Reader) error {
	came := make(chan error, 1)
	go func() {
		_, err := in.Read(make([]byte, 1))
		came <- err
	}()
	select {
	case err := <-came:
		return err
	case <-time.After(awaitTime):
		return fmt.Errorf("nobody has attached within %v", awaitTime)
	}
}
