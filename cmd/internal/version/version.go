// Package version returns the version of the running Pinfold program, from the build information
// that the Go toolchain recorded in it:
//
//	fmt.Println(version.Of("pinfold-agent"))
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Build describes a build of a program.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// This returns the build of the running program.
func This() Build {
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

// Of returns a line with the name and build of the running program.
func Of(program string) string {
	b := This()
	text := program + " " + b.Version
	if b.Revision != "" {
		text += " (" + b.Revision + ")"
	}
	return fmt.Sprintf("%s, %s, %s", text, b.Go, b.Platform)
}
