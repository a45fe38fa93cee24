package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/tracefile"
)

// around is how much longer than a recording its load lasts, for pinfold to start and to end.
const around = 1500 * time.Millisecond

// record records a row and asks for advice.
func (j *judge) record(ctx context.Context, s service, p Program, row Row) (*Recording, error) {
	file := filepath.Join(j.Dir, strings.ReplaceAll(row.String(), "/", "-")+".parquet")
	t := trial{judge: j, service: s, load: p, beside: row.Beside, length: j.Size.Record + around, seed: seed(row.String())}
	if row.Limited {
		t.length += j.Size.Record / 10 // sample goes on while the program is throttled
		t.limits = &bandwidth.Limits{Quota: time.Duration(RecordedLimit * float64(period)), Period: period}
	}
	t.during = func(ctx context.Context, group string) error {
		if err := os.RemoveAll(tracefile.JournalOf(file)); err != nil { // of a run that was killed
			return err
		}
		_, err := j.pinfold(ctx, "sample", group, "--duration", j.Size.Record.String(), "--output", file, "--force")
		return err
	}
	m, err := j.patiently(ctx, t)
	if err != nil {
		return nil, err
	}
	r := &Recording{Row: row, Measured: m}
	if r.Advice, err = j.advise(ctx, file); err != nil {
		return nil, err
	}
	return r, j.write(line{Recording: r})
}

// advise asks for advice about a recording of one group.
func (j *judge) advise(ctx context.Context, file string) (a Advice, err error) {
	text, err := j.pinfold(ctx, "advise", file, "--throttled", fmt.Sprint(j.Size.Throttled), "--output", "json")
	if err != nil {
		return a, err
	}
	var found struct {
		Containers []struct {
			Recorded       Recorded `json:"recorded"`
			Warnings       []string `json:"warnings"`
			LimitWithBurst Advice   `json:"limitWithBurst"`
		} `json:"containers"`
	}
	if err := json.Unmarshal(text, &found); err != nil || len(found.Containers) != 1 {
		return a, fmt.Errorf("pinfold advise %s: no advice about one container: %w: %.200s", file, err, text)
	}
	one := found.Containers[0]
	a = one.LimitWithBurst
	a.Recorded, a.Warnings = one.Recorded, one.Warnings
	return a, nil
}

// pinfold runs the program and returns what it prints. It ends with ctx.
func (j *judge) pinfold(ctx context.Context, args ...string) ([]byte, error) {
	bounded, cancel := context.WithTimeout(ctx, j.Size.Record+time.Minute)
	defer cancel()
	command := exec.CommandContext(bounded, j.Pinfold, args...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 10 * time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out, messages bytes.Buffer
	command.Stdout, command.Stderr = &out, &messages
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("pinfold %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(messages.String()))
	}
	return out.Bytes(), nil
}
