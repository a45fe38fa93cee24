package programs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// TestBroken: a program that cannot start is an error, not a version.
func TestBroken(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for text, want := range map[string]string{
		"echo 'wrk 4.1.0'; exit 1":                                   "",
		"echo 'wrk: error while loading shared libraries'; exit 127": "error while loading shared libraries",
		"exit 1": "it prints nothing",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "wrk"), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
		p, err := Find("wrk")
		if want == "" && (err != nil || p.Version != "wrk 4.1.0") {
			t.Errorf("%s: version %q, %v", text, p.Version, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, exec.ErrNotFound)) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// TestNginxAndWrk serves a page with nginx and measures it with wrk.
func TestNginxAndWrk(t *testing.T) {
	nginx, wrk := find(t, "nginx"), find(t, "wrk")
	site := Site{Dir: siteDir(t), Bytes: 1000, Workers: 4}
	server, url := serve(t, nginx, site, syscall.SIGQUIT, nginx.Nginx)
	if page := get(t, url); len(page) != site.Bytes {
		t.Errorf("the page has %d bytes, want %d", len(page), site.Bytes)
	}
	awaitChildren(t, server, site.Workers)

	args := must.Get(WrkLoad{URL: url, Threads: 2, Connections: 4, Duration: 300 * time.Millisecond}.Args())(t)
	measure, messages := command(t, wrk.Command(args...))
	out, err := measure.Output()
	if err != nil {
		t.Fatalf("wrk: %v: %s", err, messages)
	}
	result := must.Get(ParseWrk(strings.NewReader(string(out))))(t)
	if result.Requests == 0 || result.Max < result.P99 || result.P99 < result.P50 || result.BadStatus > 0 {
		t.Errorf("result %+v", result)
	}
}

// TestApache serves a page and uses CPU time.
func TestApache(t *testing.T) {
	apache := find(t, "apache2")
	site := Site{Dir: siteDir(t), Bytes: 1000, Workers: 4}
	server, url := serve(t, apache, site, syscall.SIGTERM, apache.Apache)
	if page := get(t, url); len(page) != site.Bytes {
		t.Errorf("the page has %d bytes, want %d", len(page), site.Bytes)
	}
	if number := get(t, url+CPUPath(1)); number != "1103527590\n" {
		t.Errorf("after one iteration: %q", number)
	}
	before := cpuTime(t, children(t, server))
	get(t, url+CPUPath(20_000_000))
	if used := cpuTime(t, children(t, server)) - before; used <= 0 {
		t.Error("20 million iterations use no CPU time")
	}
}

// TestFFmpeg encodes some frames of the job.
func TestFFmpeg(t *testing.T) {
	ffmpeg := find(t, "ffmpeg")
	args := FFmpeg(2)
	args = slices.Insert(args, len(args)-3, "-frames:v", "30", "-progress", "pipe:1") // before the output
	encode, messages := command(t, ffmpeg.Command(args...))
	out, err := encode.Output()
	if err != nil || messages.Len() > 0 || !strings.Contains(string(out), "frame=30\n") {
		t.Errorf("ffmpeg ended with %v: %s%s", err, messages, out)
	}
}

// TestEndlessFFmpeg ends the job when it has used CPU time.
func TestEndlessFFmpeg(t *testing.T) {
	ffmpeg := find(t, "ffmpeg")
	encode, messages := command(t, ffmpeg.Command(FFmpeg(2)...))
	must.Do(t, encode.Start())
	pid := encode.Process.Pid
	wait.True(t, "a second of CPU time", func() bool { return cpuTime(t, []int{pid}) >= time.Second }, wait.CPUTime(pid))
	must.Do(t, encode.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	if err := encode.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 255 {
		t.Errorf("ffmpeg ended with %v: %s", err, messages)
	}
}
