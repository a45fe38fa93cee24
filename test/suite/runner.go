package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/need"
)

// A runner runs units, one at a time, and keeps their results and output in a directory.
type runner struct {
	dir   string
	out   io.Writer
	fresh bool // no result of an earlier run counts
	// ldflags are flags of the linker, which tests of the control plane need.
	ldflags string
}

// judge runs a unit, and once more if it fails and its verdict depends on more than the commit.
func (r *runner) judge(ctx context.Context, u unit) (result, error) {
	first, err := r.once(ctx, u)
	if err != nil {
		return first, err
	}
	if first.Verdict == passed || u.pure {
		return first, r.keep(first)
	}
	fmt.Fprintf(r.out, "== %s failed: once more, alone (%s)\n", u.name, first.Disturbance)
	second, err := r.once(ctx, u)
	if err != nil {
		return first, err
	}
	switch {
	case second.Verdict == passed:
		second.Verdict, second.First, second.Disturbance = flake, first.First, first.Disturbance
	case first.ofMachine() && second.ofMachine():
		second.Verdict = machine
	}
	return second, r.keep(second)
}

// once runs a unit. What it prints is in DIR/NAME.log, besides what the user sees.
func (r *runner) once(ctx context.Context, u unit) (result, error) {
	fmt.Fprintf(r.out, "== %s\n", u.name)
	res := result{Unit: u.name, Begun: time.Now().UTC(), Commit: commit(ctx)}
	base := r.path(u.name)
	if err := os.MkdirAll(r.dir, 0o777); err != nil {
		return res, err
	}
	if !u.pure {
		unlock, err := lock(ctx, machineLock(), r.out)
		if err != nil {
			return res, err
		}
		defer unlock()
	}
	command, err := r.command(ctx, u, base+".events")
	if err != nil {
		return res, err
	}
	log, err := os.Create(base + ".log")
	if err != nil {
		return res, err
	}
	defer log.Close() // its errors would be those of the writes
	command.Stdout = io.MultiWriter(r.out, log)
	command.Stderr = command.Stdout
	meter := busy.Start()
	ended := command.Run()
	disturbance := meter.Read()
	res.Seconds, res.Disturbance = disturbance.Took.Seconds(), disturbance.String()
	if ctx.Err() != nil {
		return res, fmt.Errorf("%s: interrupted: what has passed before does not run again", u.name)
	}
	if u.make == "" {
		events, err := os.Open(base + ".events")
		if err != nil {
			return res, fmt.Errorf("%w (%w)", err, ended)
		}
		defer events.Close() // it was only read
		if err := res.read(events); err != nil {
			return res, err
		}
	} else if ended == nil {
		res.Passed = 1
	}
	res.Verdict = passed
	if ended != nil || res.Failed > 0 {
		if res.Failed == 0 {
			res.fail(u.name, ended.Error())
		}
		res.Verdict = failed
	}
	return res, nil
}

// command returns what runs a unit: gotestsum, which prints the failures and writes all events to a
// file, or make.
func (r *runner) command(ctx context.Context, u unit, events string) (*exec.Cmd, error) {
	args := []string{"make", "--no-print-directory", u.make}
	env := u.env
	if u.make == "" {
		format := "pkgname"
		if !u.pure {
			format = "testname"
		}
		here, _ := os.Getwd() // fails only if the repository is removed
		args = slices.Concat([]string{filepath.Join(here, "bin/gotestsum"), "--format=" + format, "--format-hide-empty-pkg", "--hide-summary=skipped",
			"--jsonfile=" + filepath.Join(here, events), "--", "-ldflags=" + r.ldflags}, u.test)
		if r.fresh {
			args = append(args[:len(args)-1], "-count=1", args[len(args)-1])
		}
		if !u.pure {
			more, err := r.environment()
			if err != nil {
				return nil, err
			}
			env = slices.Concat(env, more)
		}
	}
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Env, command.Dir = append(os.Environ(), env...), u.dir
	// A test program removes what it made when it is interrupted.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = time.Minute
	return command, nil
}

// environment returns the variables by which a test that needs more than the commit is told about
// the machine and the programs. Their values change with them, so that the test runs again.
func (r *runner) environment() ([]string, error) {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	env := []string{need.MachineEnv + "=" + host + " " + strings.TrimSpace(string(release))}
	programs, err := r.programs()
	if programs != "" {
		env = append(env, need.ProgramsEnv+"="+programs)
	}
	return env, err
}

// programs returns a path of the directory bin that is another one when a program in bin has
// changed. It returns "" if a program is missing. Tests then build what they need.
func (r *runner) programs() (string, error) {
	var ids bytes.Buffer
	for _, name := range []string{"pinfold", "pinfold-agent", "pinfold-lab", "pinfold-local", "pinfold-scheduler"} {
		program := filepath.Join("bin", name)
		if !exists(program) {
			return "", nil
		}
		id, err := exec.Command("go", "tool", "buildid", program).Output()
		if err != nil {
			return "", fmt.Errorf("build id of %s: %w", program, err)
		}
		_, content, _ := strings.Cut(strings.TrimSpace(string(id)), "/")
		ids.WriteString(content)
	}
	link, err := filepath.Abs(r.path(fmt.Sprintf("programs-%x", hash(ids.Bytes()))))
	if err != nil {
		return "", err
	}
	if err := os.Symlink(filepath.Join("..", "bin"), link); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return link, nil
}

func (r *runner) path(name string) string {
	return filepath.Join(r.dir, strings.ReplaceAll(name, "/", "-"))
}

// keep writes a result to its file, so that a later run knows it.
func (r *runner) keep(res result) error {
	text, err := json.MarshalIndent(res, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(r.path(res.Unit)+".json", append(text, '\n'), 0o666)
}

// kept returns the unit's result of an earlier run, if there is one.
func (r *runner) kept(u unit) (res result, ok bool) {
	text, err := os.ReadFile(r.path(u.name) + ".json")
	return res, err == nil && json.Unmarshal(text, &res) == nil
}

// commit returns the commit that is tested, with "+" if the files differ from it.
func commit(ctx context.Context) string {
	head, err := lines(ctx, "git", "rev-parse", "--short=12", "HEAD")
	if err != nil || len(head) == 0 {
		return "unknown"
	}
	if changed, err := lines(ctx, "git", "status", "--porcelain", "--untracked-files=no"); err != nil || len(changed) > 0 {
		return head[0] + "+"
	}
	return head[0]
}

// sources names the committed files that are not documents, with "+" if some file differs.
func sources(ctx context.Context) (string, error) {
	files, err := lines(ctx, "git", "ls-files", "--stage", "--", ":!*.md", ":!docs")
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%x", hash([]byte(strings.Join(files, "\n"))))
	if strings.HasSuffix(commit(ctx), "+") {
		name += "+"
	}
	return name, nil
}

func hash(text []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(text) // never fails
	return h.Sum64()
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
