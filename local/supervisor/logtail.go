package supervisor

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits of the part of a log that an error quotes.
const (
	maxTailBytes = 64 << 10
	maxTailLines = 15
	maxLineBytes = 500
)

// logTail formats the last lines of a log as the end of an error message. If the log cannot be
// read, it returns only its path and the reason.
func logTail(path string) string {
	text, err := readTail(path, maxTailBytes)
	if err != nil {
		return fmt.Sprintf("; its log %s: %v", path, err)
	}
	dir := filepath.Dir(path)
	if left := free(dir); left < minFree || strings.Contains(text, unix.ENOSPC.Error()) {
		return fmt.Sprintf(": the disk of %s is full or too small (%d MiB are free): free some, or choose another directory; its log is %s",
			dir, left>>20, path)
	}
	lines := withoutStacks(strings.Split(strings.TrimRight(text, "\n"), "\n"))
	if len(lines) > maxTailLines {
		lines = lines[len(lines)-maxTailLines:]
	}
	for i, line := range lines {
		if len(line) > maxLineBytes {
			lines[i] = strings.ToValidUTF8(line[:maxLineBytes], "") + " ..."
		}
	}
	return fmt.Sprintf(": %s; the end of its log %s:\n    %s", cause(lines), path, strings.Join(lines, "\n    "))
}

// minFree is how much of a disk must be free for a log to be complete.
const minFree = 1 << 20

// free returns how many bytes this user can write to the disk of a directory.
func free(dir string) uint64 {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return math.MaxUint64
	}
	return stat.Bavail * uint64(stat.Bsize)
}

// failurePrefix matches the start of a line that reports an error or panic: klog, JSON loggers, and
// plain messages.
var failurePrefix = regexp.MustCompile(`^[EF]\d{4} .*?\] |^.*"level":"(?:error|fatal|panic)"|^(?:panic|fatal error|[Ee]rror): `)

// cause returns the last line that reports a failure, without klog's header, or else the last line.
func cause(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if begin := failurePrefix.FindString(line); begin != "" {
			if strings.HasSuffix(begin, "] ") {
				return strings.TrimSpace(line[len(begin):])
			}
			return strings.TrimSpace(line)
		}
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// withoutStacks removes the stack traces at the end of the log of a Go program that panicked. The
// reason is on the line before them.
func withoutStacks(lines []string) []string {
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "\t") || !strings.Contains(last, ".go:") {
		return lines
	}
	for i, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
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
