package frame

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestRun says for command lines what they answer, and with what status.
func TestRun(t *testing.T) {
	for _, test := range []struct {
		args   string
		status int
		says   string
	}{
		{"", 0, "Try things"},
		{"do", 0, "done"},
		{"--version", 0, "try "},
		{"version", 0, "try "},
		{"version -o json", 0, `"platform":`},
		{"version -o xml", 2, "must be text or json"},
		{"help do", 0, "  try do [flags]\n  try do --times N\n"},
		{"help fly", 2, `unknown command "fly"`},
		{"do --times 0", 2, "--times must be more than 0: EOF\nsee 'try do --help'"},
		{"do --times 13", 1, "too often"},
		{"do --times 14", 77, "much too often"},
		{"do --fly", 2, "unknown flag: --fly\nsee 'try do --help'"},
		{"do it", 2, `"it" is one argument too many: try do takes flags only` + "\nsee 'try do --help'"},
		{"fly", 2, "unknown command \"fly\"\nsee 'try --help'"},
		{"group", 0, "Usage:\n  try group COMMAND [flags]\n\nCommands:\n  one "},
		{"help do extra", 2, `unknown command "extra"`},
		{"group ont", 2, `unknown command "ont", did you mean "one"?`},
		{"completion", 2, "name one shell"},
	} {
		var out bytes.Buffer
		err := Run(t.Context(), newRoot(), strings.Fields(test.args), nil, &out, &out)
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
	do := &cobra.Command{Use: "do [flags]\ndo --times N", Args: NoArguments, RunE: func(command *cobra.Command, _ []string) error {
		switch {
		case times < 1:
			return fmt.Errorf("do: %w", Usagef("--times must be more than 0: %w", io.EOF))
		case times > 13:
			return &ExitError{Status: 77, Err: errors.New("much too often")}
		case times > 12:
			return errors.New("too often")
		}
		_, err := fmt.Fprintln(command.OutOrStdout(), "done")
		return err
	}}
	do.Flags().IntVar(&times, "times", 1, "how often")
	group := Group(&cobra.Command{Use: "group"}, &cobra.Command{Use: "one", RunE: do.RunE}, &cobra.Command{Use: "two"}, &cobra.Command{Use: "three"})
	return New(&cobra.Command{Use: "try", Short: "Try things"}, do, group)
}

func TestErrorsAreKept(t *testing.T) {
	if err := Usagef("read: %w", io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("%v does not wrap its cause", err)
	}
}
