// Package frametest tests how a program is used: in documents, by mistake, and in shells.
//
//	func TestMain(m *testing.M) { frametest.Main(m, "pinfold-agent", main) }
//	func TestDocuments(t *testing.T) { frametest.Documents(t, newRoot) }
//	func TestWrongFlags(t *testing.T) { frametest.WrongFlags(t, newRoot) }
//	func TestHelp(t *testing.T) { frametest.Help(t, newRoot) }
//	func TestFlags(t *testing.T) { frametest.Flags(t, newRoot) }
//	func TestCompletion(t *testing.T) { frametest.Completion(t, "testdata/completion.txtar") }
package frametest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/test/must"
)

// Documents checks that the command lines of a program in README.md, docs and the help of its
// commands exist as printed: the subcommand, its flags and their values. Of a line of syntax, with
// [ ] or ..., it checks the names of flags. A program with several roots, by the name by which it is
// called, has what one of them has.
func Documents(t *testing.T, newRoot func() *cobra.Command, others ...func() *cobra.Command) {
	const root = "../.." // the repository, seen from the packages of programs
	documents := must.Get(filepath.Glob(filepath.Join(root, "docs/*.md")))(t)
	program, n := newRoot().Name(), 0
	parse := func(args []string, line string, isSyntax bool) error {
		err := parse(newRoot(), args, line, isSyntax)
		for _, other := range others {
			if err != nil && parse(other(), args, line, isSyntax) == nil {
				return nil
			}
		}
		return err
	}
	check := func(where, text string) {
		lines, names := commandLines(program, text)
		for _, line := range lines {
			args, isSyntax := words(line)
			n++
			if err := parse(args, line, isSyntax); err != nil {
				t.Errorf("%s: %s %s: %v", where, program, line, err)
			}
		}
		for _, name := range names {
			if err := parse(strings.Fields(name), name, true); err != nil {
				t.Errorf("%s: `%s %s`: %v", where, program, name, err)
			}
		}
	}
	for _, name := range append(documents, filepath.Join(root, "README.md"), filepath.Join(root, "deploy/chart/templates/NOTES.txt")) {
		text := must.Get(os.ReadFile(name))(t)
		check(name, string(text))
	}
	walk(newRoot(), func(command *cobra.Command) {
		check(command.CommandPath()+" --help", command.Example+"\n"+command.Long)
	})
	if n == 0 {
		t.Fatalf("no document has a command line of %s", program)
	}
}

// GoWords are parts of messages that speak of the program's language, libraries and files, and not
// of what the user did.
var GoWords = regexp.MustCompile(`strconv\.|parsing time|2006-01-02|invalid syntax|value out of range|[uU]nmarshal|MEMLOCK|/tmp/|bare \\?"|parse error on line|time: |json: |yaml: line|0x[0-9a-f]{6}`)

// WrongFlags gives every flag of a program wrong values, and checks the words of the errors.
func WrongFlags(t *testing.T, newRoot func() *cobra.Command) {
	walk(newRoot(), func(command *cobra.Command) {
		command.Flags().VisitAll(func(f *pflag.Flag) {
			for _, value := range []string{"x", "-1x", "1e999", "99999999999999999999", "1..5", `a"b`, "", "5 apples", "-7"} {
				err := command.ParseFlags([]string{"--" + f.Name + "=" + value})
				if err == nil {
					continue
				}
				if err = command.FlagErrorFunc()(command, err); GoWords.MatchString(err.Error()) || !strings.Contains(err.Error(), "--"+f.Name) {
					t.Errorf("%s --%s=%s: %v", command.CommandPath(), f.Name, value, err)
				}
			}
		})
	})
}

func walk(command *cobra.Command, do func(*cobra.Command)) {
	do(command)
	for _, sub := range command.Commands() {
		walk(sub, do)
	}
}

// commandLines returns what follows the program's name in the command lines of a text, which are
// indented or in a block, and in names between backquotes.
func commandLines(program, text string) (found, names []string) {
	start := regexp.MustCompile(`(?:^(?:\$ )?|[;&|] *| -- |\$\()(?:sudo |kubectl |\S*/)*` + regexp.QuoteMeta(program) + `(?: (.*))?$`)
	fenced, joined := false, strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(joined) {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fenced = !fenced
		case fenced || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "  "+program+" "):
			if match := start.FindStringSubmatch(trimmed); match != nil {
				found = append(found, match[1])
			}
		}
	}
	for _, span := range regexp.MustCompile("(?s)`"+program+" ([^`]*)`").FindAllStringSubmatch(text, -1) {
		names = append(names, strings.ReplaceAll(span[1], "\n", " "))
	}
	return found, names
}

// parse parses a command line as far as that has no effect, or only the names in a line of syntax.
func parse(root *cobra.Command, args []string, line string, isSyntax bool) error {
	command, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	command.InitDefaultHelpFlag()
	if !isSyntax {
		return command.ParseFlags(rest)
	}
	own, _, _ := strings.Cut(line, " -- ")
	for _, match := range regexp.MustCompile(`(?:^|[ \[(])--([a-z][a-z0-9-]+)`).FindAllStringSubmatch(own, -1) {
		if command.Flag(match[1]) == nil {
			return fmt.Errorf("there is no flag --%s", match[1])
		}
	}
	return nil
}

// words splits a command line as a shell does, up to the first |, ;, &, <, > or #. It reports
// whether the line is one of syntax.
func words(line string) (args []string, isSyntax bool) {
	var word strings.Builder
	quote, begun := rune(0), false
	end := func() {
		if begun {
			args = append(args, word.String())
		}
		begun = false
		word.Reset()
	}
	for _, r := range line {
		switch {
		case r == quote && quote != 0:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && r == ' ':
			end()
		case quote == 0 && (strings.ContainsRune("|;&<>)", r) && !isSyntax || r == '#' && !begun):
			end()
			return args, isSyntax
		default:
			isSyntax = isSyntax || quote == 0 && (r == '[' || r == '(') || strings.HasSuffix(word.String(), "..") && r == '.'
			begun = true
			word.WriteRune(r)
		}
	}
	end()
	return args, isSyntax
}
