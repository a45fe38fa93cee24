//go:build linux

package groups

import (
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/linux/cgroup"
)

// Complete completes the path of a cgroup, one level at a time, for arguments.
func Complete(_ *cobra.Command, _ []string, begun string) (found []string, directive cobra.ShellCompDirective) {
	directive = cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	fs, err := cgroup.OpenUsage("/")
	if err != nil {
		cobra.CompErrorln(err.Error())
		return nil, directive
	}
	parent := path.Dir("/" + begun)
	if strings.HasSuffix(begun, "/") {
		parent = path.Clean(begun)
	}
	entries, err := os.ReadDir(fs.Dir(cgroup.CPU, parent))
	if err != nil {
		return nil, directive
	}
	for _, entry := range entries {
		if group := path.Join(parent, entry.Name()); entry.IsDir() && strings.HasPrefix(group, begun) {
			found = append(found, group)
		}
	}
	return found, directive
}
