package golden

import (
	"errors"
	"fmt"
	"strings"
)

// Blocks plays a scenario of blocks: commands, one a line, then a line "----" and what
// they print, up to an empty line. Lines that begin with # are for the reader. Run
// carries out one command; what it returns ends each of its lines.
func Blocks(text string, run func(words []string) (string, error)) (string, error) {
	var out strings.Builder
	printed, skipping := "", false
	for number, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case skipping && line != "":
			continue
		case line == "----":
			out.WriteString("----\n" + printed)
			printed, skipping = "", true
			continue
		case line != "" && !strings.HasPrefix(line, "#"):
			result, err := run(strings.Fields(line))
			if err != nil {
				return "", fmt.Errorf("line %d: %s: %w", number+1, line, err)
			}
			printed += result
		}
		skipping = false
		out.WriteString(line + "\n")
	}
	if printed != "" {
		return "", errors.New("nothing is expected of the last commands; end them with ----")
	}
	return out.String(), nil
}
