package golden

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Code is a code block of a Markdown document.
type Code struct {
	Info string // of its fence, such as "sh"; [Indented] without a fence
	Text string // complete lines, without the indentation of the block

	first, end int // its lines, with fences
}

// Indented is the kind of a block without a fence.
const Indented = "indented"

// File returns the name of the file that a block is, "yaml file=NAME", or "".
func (c Code) File() string {
	_, name, _ := strings.Cut(c.Info, " file=")
	return name
}

// Examples returns the commands of a block, with the output of each. Commands begin with "$ ".
func (c Code) Examples() (all [][2]string) {
	for example := range strings.SplitSeq("\n"+c.Text, "\n$ ") {
		command, output, _ := strings.Cut(strings.TrimSuffix(example, "\n"), "\n")
		if output != "" {
			output += "\n"
		}
		if command != "" {
			all = append(all, [2]string{command, output})
		}
	}
	return all
}

// ReadCode returns the code blocks of a Markdown file.
func ReadCode(t testing.TB, file string) []Code {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := codeIn(slices.Collect(strings.Lines(string(text))))
	if n := len(all); n > 0 && all[n-1].end == 0 {
		t.Fatalf("%s: a fence is not closed", file)
	}
	return all
}

// codeIn returns the code blocks in lines. A block whose fence is not closed has no end.
func codeIn(lines []string) (all []Code) {
	var open *Code // the present block
	indent := ""
	for i, line := range lines {
		text := strings.TrimSpace(line)
		switch fenced := open != nil && open.Info != Indented; {
		case fenced && text == "```":
			open.end, open = i+1, nil
		case fenced:
			open.Text += strings.TrimPrefix(line, indent)
		case strings.HasPrefix(text, "```"):
			indent = line[:strings.Index(line, "`")]
			all = append(all, Code{Info: text[3:], first: i})
			open = &all[len(all)-1]
		case strings.HasPrefix(line, "    ") && text != "" && (open != nil || i > 0 && strings.TrimSpace(lines[i-1]) == ""):
			if open == nil {
				all = append(all, Code{Info: Indented, first: i})
				open = &all[len(all)-1]
			}
			open.Text += strings.Repeat("\n", i-max(open.first, open.end)) + line[4:]
			open.end = i + 1
		case text != "":
			open = nil
		}
	}
	return all
}

// Console plays the examples of a Markdown document: code blocks with this info string, in which
// lines that begin with "$ " are commands, each followed by its output. run executes a command line
// and returns its output, complete lines. Console returns the document with the actual output.
func Console(markdown, info string, run func(command string) string) string {
	var out strings.Builder
	lines, written := slices.Collect(strings.Lines(markdown)), 0
	for _, c := range codeIn(lines) {
		if c.Info != info {
			continue
		}
		out.WriteString(strings.Join(lines[written:c.first+1], ""))
		for _, example := range c.Examples() {
			out.WriteString("$ " + example[0] + "\n" + run(example[0]))
		}
		written = c.end - 1
	}
	return out.String() + strings.Join(lines[written:], "")
}
