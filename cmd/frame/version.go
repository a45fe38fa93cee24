package frame

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Build describes a build of a program.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Version returns the build of the running program, as the Go toolchain recorded it.
func Version() Build {
	b := Build{Version: "(unknown)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			b.Revision = setting.Value
		}
	}
	return b
}

// VersionLine returns a line with the name and build of the running program.
func VersionLine(program string) string {
	b := Version()
	text := program + " " + b.Version
	if b.Revision != "" {
		text += " (" + b.Revision + ")"
	}
	return fmt.Sprintf("%s, %s, %s", text, b.Go, b.Platform)
}

// NewVersion returns the subcommand "version" of a program.
func NewVersion(program string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version [flags]",
		Short:   "Print the version",
		Long:    "Print the version of this program, its Go toolchain and its platform.",
		Example: fmt.Sprintf("  %[1]s version\n  %[1]s version -o json", program),
		Args:    NoArguments,
	}
	output := OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *output == JSON {
			return PrintJSON(cmd.OutOrStdout(), Version())
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), VersionLine(program))
		return err
	}
	return cmd
}
