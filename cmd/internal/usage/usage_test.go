package usage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestComplete says for command lines what they answer, and with what status.
func TestComplete(t *testing.T) {
	for _, test := range []struct {
		args   string
		status int
		says   string
	}{
		{"", 0, "Try things"},
		{"do", 0, "done"},
		{"--version", 0, "try "},
		{"do --times 0", 2, "--times must be more than 0: EOF"},
		{"do --times 13", 1, "too often"},
		{"do --fly", 2, "unknown flag: --fly; see try do --help"},
		{"do it", 2, `try do does not know what to do with "it"; see try do --help`},
		{"fly", 2, `try does not know what to do with "fly"; see try --help`},
		{"completion", 2, `does not know what to do with "completion"`},
	} {
		var out bytes.Buffer
		root := newRoot()
		root.SetArgs(strings.Fields(test.args))
		root.SetOut(&out)
		root.SetErr(&out)
		err := root.Execute()
		if strings.Contains(out.String(), "Error:") {
			t.Errorf("%q: cobra prints the error", test.args)
		}
		if err != nil {
			fmt.Fprint(&out, err)
		}
		if ExitStatus(err) != test.status || !strings.Contains(out.String(), test.says) {
			t.Errorf("%q: status %d, want %d; want %q in\n%s", test.args, ExitStatus(err), test.status, test.says, out.String())
		}
	}
}

func newRoot() *cobra.Command {
	var times int
	do := &cobra.Command{Use: "do", Args: NoArguments, RunE: func(command *cobra.Command, _ []string) error {
		switch {
		case times < 1:
			return fmt.Errorf("do: %w", Errorf("--times must be more than 0: %w", io.EOF))
		case times > 12:
			return errors.New("too often")
		}
		_, err := fmt.Fprintln(command.OutOrStdout(), "done")
		return err
	}}
	do.Flags().IntVar(&times, "times", 1, "how often")
	return Complete(&cobra.Command{Use: "try", Short: "Try things"}, do)
}

func TestErrorsAreKept(t *testing.T) {
	if err := Errorf("read: %w", io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("%v does not wrap its cause", err)
	}
}
