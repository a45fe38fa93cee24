//go:build linux

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/report/terminal/terminaltest"
	"pinfold.dev/pinfold/test/must"
)

// runWhy runs "pinfold why", and skips the test if this machine cannot trace.
func runWhy(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out, messages bytes.Buffer
	err = frame.Run(t.Context(), newRoot("pinfold"), append([]string{"why"}, args...), nil, &out, &messages)
	if err != nil && strings.Contains(err.Error(), "cannot trace the scheduler") {
		t.Skip(err)
	}
	if messages.Len() > 0 {
		t.Errorf("not quiet in a pipe: %s", &messages)
	}
	return out.String(), err
}

// TestWhyProgress: a terminal shows how far it is. What is shown last is removed.
func TestWhyProgress(t *testing.T) {
	_, name := group(t)
	side, tty := terminaltest.Pair(t, 80)
	if err := frame.Run(t.Context(), newRoot("pinfold"), []string{"why", name, "--duration", "1s"}, nil, io.Discard, tty); err != nil {
		if strings.Contains(err.Error(), "cannot trace the scheduler") {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	must.Do(t, tty.Close())
	shown, _ := io.ReadAll(side) // it ends with EIO, see pty(7)
	if !regexp.MustCompile(`\[#+\.+\] +[1-9][0-9]%  [0-9.]+m?s  \(ctrl-C ends\)`).Match(shown) || !strings.HasSuffix(string(shown), "\r\x1b[K") {
		t.Errorf("the terminal showed %q", shown)
	}
}

// TestWhyRequests: a log that cannot be read is an error, after the report.
func TestWhyRequests(t *testing.T) {
	fs, name := group(t)
	spin(t, fs, name)
	log := filepath.Join(t.TempDir(), "log.csv")
	text, err := runWhy(t, name, "--duration", "100ms", "--requests", log)
	if err == nil || !strings.Contains(err.Error(), "--requests: open "+log) || !strings.Contains(text, "wanted to run") {
		t.Errorf("%v\n%s", err, text)
	}
	format := func(at time.Time) string { return at.Format(time.RFC3339Nano) }
	begin := time.Now()
	rows := "start,end\n"
	for i := range 100 {
		at := begin.Add(time.Duration(i) * 50 * time.Millisecond)
		rows += format(at) + "," + format(at.Add(50*time.Millisecond)) + "\n"
	}
	must.Do(t, os.WriteFile(log, []byte(rows), 0o600))
	text, err = runWhy(t, name, "--duration", "1s", "--requests", log)
	time.Sleep(time.Until(begin.Add(5 * time.Second)))
	if err != nil || !strings.Contains(text, "that were traced (1): 50.0 ms and more\n") {
		t.Errorf("%v\n%s", err, text)
	}
	// The log is that of an earlier time now.
	text, err = runWhy(t, name, "--duration", "100ms", "--requests", log)
	if err == nil || !strings.Contains(err.Error(), "none of its 100 requests, from "+begin.UTC().Format(time.RFC3339)) || !strings.Contains(text, "wanted to run") {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := runWhy(t, name, "/", "--requests", log); err == nil || !strings.Contains(err.Error(), "a log is about one container, and 2 are traced") {
		t.Error(err)
	}
}
