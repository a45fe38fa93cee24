package frame

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// shells returns the shells for which there are scripts.
func shells() []string { return []string{"bash", "zsh", "fish", "powershell"} }

// newCompletion returns the subcommand "completion" of a program.
func newCompletion(program string) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script for the completion of a shell",
		Long: fmt.Sprintf(`Print a script with which a shell completes commands, flags and their values.
Write it where your shell looks for scripts, or load it in each session:
bash and zsh with "source <(%[1]s completion bash)", PowerShell with
"%[1]s completion powershell | Out-String | Invoke-Expression".
bash needs the package bash-completion, zsh "autoload -U compinit; compinit".`, program),
		Example: fmt.Sprintf(`  %[1]s completion bash >/etc/bash_completion.d/%[1]s
  %[1]s completion zsh >"${fpath[1]}/_%[1]s"
  %[1]s completion fish >~/.config/fish/completions/%[1]s.fish`, program),
		ValidArgs: shells(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells(), args[0]) {
				return Usagef("name one shell: %s", strings.Join(shells(), ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			}
			return root.GenPowerShellCompletionWithDesc(out)
		},
	}
}

// CompleteFiles completes names of files, for arguments.
func CompleteFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// CompleteDirs completes names of directories, for arguments.
func CompleteDirs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// CompleteFirst completes the first argument with the names that a function returns.
func CompleteFirst(names func(context.Context) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return each(names)(cmd, args, begun)
	}
}

// each completes every argument with the names that a function returns.
func each(names func(context.Context) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return starting(names(cmd.Context()), begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFlag completes the values of a flag with the names that a function returns. It panics if
// the command has no such flag.
func CompleteFlag(cmd *cobra.Command, flag string, names func(context.Context) []string) {
	register(cmd, flag, each(names))
}

// CompleteWords completes the values of a flag with words.
func CompleteWords[T ~string](cmd *cobra.Command, flag string, words ...T) {
	CompleteFlag(cmd, flag, func(context.Context) (names []string) {
		for _, word := range words {
			names = append(names, string(word))
		}
		return names
	})
}

// CompleteExtensions completes the values of a flag with names of files that have one of these
// extensions.
func CompleteExtensions(cmd *cobra.Command, flag string, extensions ...string) {
	register(cmd, flag, cobra.FixedCompletions(extensions, cobra.ShellCompDirectiveFilterFileExt))
}

// starting returns the names that start as the one that a user has begun to type, after those that
// a list already has.
func starting(names []string, begun string) (found []string) {
	list := begun[:strings.LastIndex(begun, ",")+1]
	for _, name := range names {
		if strings.HasPrefix(list+name, begun) {
			found = append(found, list+name)
		}
	}
	return found
}

func register(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag does not exist
	}
}

// addCompletion adds the subcommand "completion", and completes flags and arguments of all
// commands.
//
// It derives the completion of a flag from the name of its value, which is the type of the flag or
// the word between backquotes in its usage: a|b|c completes these words, FILE and PATH names of
// files, DIR names of directories. Arguments are completed where a command says how.
func addCompletion(root *cobra.Command) *cobra.Command {
	root.CompletionOptions.DisableDefaultCmd = true // cobra's own, which does not check its arguments
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.AddCommand(newCompletion(root.Name()))
	completeFlags(root)
	return root
}

func completeFlags(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, ok := cmd.GetFlagCompletionFunc(f.Name); !ok {
			register(cmd, f.Name, completeValue(f))
		}
	})
	for _, sub := range cmd.Commands() {
		completeFlags(sub)
	}
}

// completeValue returns the completion of a flag's values.
func completeValue(f *pflag.Flag) cobra.CompletionFunc {
	name, _ := pflag.UnquoteUsage(f)
	switch words := strings.Split(name, "|"); {
	case len(words) > 1:
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	case name == "PATH" || strings.HasPrefix(name, "FILE"):
		return CompleteFiles
	case name == "DIR":
		return CompleteDirs
	}
	return cobra.NoFileCompletions
}
