package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says which pinfold this is.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "version [-o text|json]",
		Short:                 "Say which pinfold this is",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	output := outputFlag(cmd)
	cmd.RunE = asked(func(cmd *cobra.Command, _ []string) error {
		b := thisBuild()
		if output.value == outJSON {
			return printJSON(cmd.OutOrStdout(), b)
		}
		text := "pinfold " + b.Version
		if b.Revision != "" {
			text += " (" + b.Revision + ")"
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s, %s, %s\n", text, b.Go, b.Platform)
		return err
	})
	return cmd
}

// thisBuild reads what the Go toolchain has recorded in the binary.
func thisBuild() build {
	b := build{Version: "(unknown)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
