package supervisor

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// The part of a log that is worth repeating in an error.
const (
	tailBytes = 64 << 10
	tailLines = 15
	lineBytes = 500
)

// logTail returns the last lines of a log as the end of an error message, or
// only where the log is when it cannot be read.
func logTail(path string) string {
	text, err := readTail(path, tailBytes)
	if err != nil {
		return fmt.Sprintf("; its log %s: %v", path, err)
	}
	lines := withoutStacks(strings.Split(strings.TrimRight(text, "\n"), "\n"))
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	for i, line := range lines {
		if len(line) > lineBytes {
			lines[i] = strings.ToValidUTF8(line[:lineBytes], "") + " ..."
		}
	}
	return fmt.Sprintf(": %s; the end of its log %s:\n    %s", cause(lines), path, strings.Join(lines, "\n    "))
}

// failed begins the last words of programs: errors of klog and of other loggers, and panics.
var failed = regexp.MustCompile(`^[EF]\d{4} .*?\] |^.*"level":"(?:error|fatal|panic)"|^(?:panic|fatal error|[Ee]rror): `)

// cause returns the last line that says what went wrong, or else the last line. Time, process
// and place of klog are left out.
func cause(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if begin := failed.FindString(line); begin != "" {
			if strings.HasSuffix(begin, "] ") {
				return strings.TrimSpace(line[len(begin):])
			}
			return strings.TrimSpace(line)
		}
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// withoutStacks cuts off the stacks at the end of the log of a Go program that
// panicked: the reason stands before them.
func withoutStacks(lines []string) []string {
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "\t") || !strings.Contains(last, ".go:") {
		return lines
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.HasPrefix(lines[i], "panic: ") || strings.HasPrefix(lines[i], "fatal error: ") {
			return lines[:i+1]
		}
	}
	return lines
}

func readTail(path string, limit int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if _, err := file.Seek(max(0, info.Size()-limit), io.SeekStart); err != nil {
		return "", err
	}
	text, err := io.ReadAll(file)
	return string(text), err
}
