package frametest

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/cmd/frame"
)

// Help checks the form of the help of every command, that its examples can be parsed, that commands
// without a function of their own print it, and that the program prints its version.
func Help(t *testing.T, newRoot func() *cobra.Command) {
	var build strings.Builder
	if err := frame.Run(t.Context(), newRoot(), []string{"version", "-o", "json"}, nil, &build, io.Discard); err != nil || !strings.HasPrefix(build.String(), `{"version":"`) {
		t.Errorf("version -o json: %v, %q", err, build.String())
	}
	walk(newRoot(), func(command *cobra.Command) {
		if command.Hidden { // a program calls it
			return
		}
		for _, wrong := range slices.Concat(wrongText(command), wrongUsage(command), wrongExamples(newRoot, command)) {
			t.Errorf("%s: %s", command.CommandPath(), wrong)
		}
		if !strings.HasSuffix(command.Use, " COMMAND [flags]") {
			return
		}
		var stdout, stderr strings.Builder
		args := strings.Fields(strings.TrimPrefix(command.CommandPath(), command.Root().CommandPath()))
		err := frame.Run(t.Context(), newRoot(), args, nil, &stdout, &stderr)
		if err != nil || stderr.Len() > 0 || !strings.Contains(stdout.String(), "\nUsage:\n") {
			t.Errorf("%s: %v, %q, want the help on standard output", command.CommandPath(), err, stderr.String())
		}
	})
}

// maxLong is the number of lines that say what a command does. Manuals say more.
const maxLong = 12

func wrongText(c *cobra.Command) (wrong []string) {
	// "Show", not "Shows", "Which" or "The".
	if first, _, _ := strings.Cut(c.Short, " "); !regexp.MustCompile(`^[A-Z][a-z]*[a-rt-z]$`).MatchString(first) ||
		slices.Contains([]string{"What", "Which", "How", "The", "A"}, first) || strings.HasSuffix(c.Short, ".") {
		wrong = append(wrong, fmt.Sprintf("Short must be an imperative without period: %q", c.Short))
	}
	if n := strings.Count(c.Long, "\n") + 1; c.Long == "" || n > maxLong {
		wrong = append(wrong, fmt.Sprintf("Long has %d lines, want 1 to %d", n, maxLong))
	}
	if !strings.HasSuffix(c.Long, ".") || !regexp.MustCompile(`^[A-Z]`).MatchString(c.Long) {
		wrong = append(wrong, "Long must be sentences")
	}
	for line := range strings.Lines(c.Long) {
		if len(strings.TrimSuffix(line, "\n")) > 80 {
			wrong = append(wrong, "Long is wider than 80 characters: "+line)
		}
	}
	return wrong
}

// usageLine is a name, what is required, [flags], and what must follow it.
var usageLine = regexp.MustCompile(`^[a-z-]+( ([a-z]+|\(?-[a-z]|\(?--[a-z-]+|\||\[?[A-Z/]+(\.\.\.)?\]?(\.\.\.)?\)?))*( \[flags\]( -- COMMAND \[ARG\.\.\.\])?)?$`)

func wrongUsage(c *cobra.Command) (wrong []string) {
	c.InitDefaultHelpFlag()
	for line := range strings.SplitSeq(c.Use, "\n") {
		flags := false
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { flags = flags || f.Name != "help" })
		flags = flags || c.HasSubCommands()
		if !usageLine.MatchString(line) || strings.Contains(line, "[flags]") != flags || len(c.CommandPath()+line) > 90 {
			wrong = append(wrong, fmt.Sprintf("usage %q: want the name, what is required, and [flags] if there are some", line))
		}
	}
	return wrong
}

func wrongExamples(newRoot func() *cobra.Command, c *cobra.Command) (wrong []string) {
	lines := strings.Split(c.Example, "\n")
	if len(lines) > 3 {
		wrong = append(wrong, fmt.Sprintf("%d examples, want 1 to 3", len(lines)))
	}
	for i, line := range lines {
		root := newRoot()
		rest, ok := strings.CutPrefix(line, "  "+root.Name())
		args, isSyntax := words(strings.TrimSpace(rest))
		about, remaining, err := root.Find(args)
		if err == nil {
			about.InitDefaultHelpFlag()
			if err = about.ParseFlags(remaining); err == nil {
				err = about.ValidateArgs(about.Flags().Args())
			}
		}
		if !ok || isSyntax || err != nil || i == 0 && !strings.HasPrefix(about.CommandPath(), c.CommandPath()) {
			wrong = append(wrong, fmt.Sprintf("example %q: want a command line of %s: %v", line, c.CommandPath(), err))
		}
	}
	return wrong
}

// Flags checks that every flag names its values, that shares are read alike everywhere, and that values
// are completed: choices with these words, files and directories with names of such, and so are
// arguments.
func Flags(t *testing.T, newRoot func() *cobra.Command) {
	arguments := regexp.MustCompile(`^[a-z]+ \[?[A-Z]{2,}\b`)
	walk(newRoot(), func(command *cobra.Command) {
		command.LocalFlags().VisitAll(func(f *pflag.Flag) {
			for _, wrong := range wrongFlag(command, f) {
				t.Errorf("%s --%s: %s", command.CommandPath(), f.Name, wrong)
			}
		})
		if arguments.MatchString(command.Use) && !command.HasSubCommands() && command.ValidArgsFunction == nil && len(command.ValidArgs) == 0 {
			t.Errorf("%s: arguments are not completed", command.CommandPath())
		}
	})
}

// wrongNumber checks that a flag reads shares as all flags do: "5%" and "0.05" are the same and "5" is
// rejected with its two meanings, or, where the name says percent, "5%" and "5" are the same and
// "0.05" is rejected.
func wrongNumber(f *pflag.Flag, kind string) (wrong []string) {
	set := func(text string) (string, error) { err := f.Value.Set(text); return f.Value.String(), err }
	isShare, isPercent := strings.HasPrefix(kind, "SHARE"), strings.HasSuffix(f.Name, "-percent")
	before := f.Value.String()
	_, large := set("500%")
	if _, err := set("50%"); err != nil || f.Value.Type() == "string" || f.Value.Type() == "stringArray" {
		if isShare || isPercent || kind == "PERCENT" {
			wrong = append(wrong, fmt.Sprintf("50%% is rejected: %v", err))
		}
		return wrong
	}
	if isShare == isPercent || isPercent != (kind == "PERCENT") {
		wrong = append(wrong, "it takes shares: call its value SHARE, or PERCENT if its name ends in percent")
	}
	same, rejected, meanings := "0.05", "5", []string{"5%", "500%"}
	switch {
	case isPercent:
		same, rejected, meanings = "5", "0.05", []string{"0.05%", "5%"}
	case large != nil:
		meanings = meanings[:1]
	}
	want, err := set("5%")
	got, sameErr := set(same)
	if isList := strings.Contains(kind, ","); err != nil || sameErr != nil || got != want && !isList {
		wrong = append(wrong, fmt.Sprintf("5%% is %s, %v, and %s is %s, %v", want, err, same, got, sameErr))
	}
	if _, err := set(rejected); err == nil || !regexp.MustCompile("has no unit: write "+strings.Join(meanings, " or ")+"(;|$)").MatchString(err.Error()) {
		wrong = append(wrong, fmt.Sprintf("%s is not rejected with what it may mean: %v", rejected, err))
	}
	if _, err := set(before); err != nil && before != "" {
		wrong = append(wrong, fmt.Sprintf("its own value %s is rejected: %v", before, err))
	}
	return wrong
}

func wrongFlag(command *cobra.Command, f *pflag.Flag) (wrong []string) {
	kind, usage := pflag.UnquoteUsage(f)
	wrong = wrongNumber(f, kind)
	if f.Value.Type() != "bool" && !regexp.MustCompile(`^[A-Z]|\|`).MatchString(kind) || usage == "" || strings.HasSuffix(usage, ".") {
		wrong = append(wrong, fmt.Sprintf("want a name for its value, as in `TIME`, and a usage without period: %s %s", kind, usage))
	}
	complete, ok := command.GetFlagCompletionFunc(f.Name)
	if !ok {
		return append(wrong, "it is not completed")
	}
	offered, directive := complete(command, nil, "")
	for _, word := range choices(kind, usage) {
		if !slices.Contains(offered, word) {
			wrong = append(wrong, fmt.Sprintf("%q is not offered, only %q", word, offered))
		}
	}
	files := directive == cobra.ShellCompDirectiveDefault || directive&cobra.ShellCompDirectiveFilterFileExt != 0
	dirs := directive&cobra.ShellCompDirectiveFilterDirs != 0
	if strings.HasPrefix(kind, "FILE") && !files || strings.HasPrefix(kind, "DIR") && !dirs {
		wrong = append(wrong, "no names of files or directories are offered")
	}
	return wrong
}

// choices returns the words that a flag accepts, according to its help: a|b, or "a, b or c" unless
// it is a file.
func choices(kind, usage string) []string {
	switch {
	case strings.Contains(kind, "|"):
		return strings.Split(kind, "|")
	case strings.HasPrefix(kind, "FILE"), kind == "DIR", kind == "PATH":
		return nil
	}
	list := regexp.MustCompile(`(?:^|: | is | of )((?:[a-z0-9._-]+, )+(?:or |and )?[a-z0-9._-]+(?:,? or [a-z0-9._-]+)?)(?:$|[,;( ])`).FindStringSubmatch(usage)
	if list == nil {
		return nil
	}
	return regexp.MustCompile(`,? or |,? and |, `).Split(list[1], -1)
}
