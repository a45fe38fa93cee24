package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/lab/localcluster"
)

// cpuTime returns the CPU time, system and user, that a process has used.
func cpuTime(pid int) (time.Duration, error) {
	process, err := procfs.NewProc(pid)
	var stat procfs.ProcStat
	if err == nil {
		stat, err = process.Stat()
	}
	if err != nil {
		return 0, fmt.Errorf("read the scheduler's CPU time: %w", err)
	}
	return time.Duration(stat.CPUTime() * float64(time.Second)), nil
}

// memory returns the resident memory of a process and its maximum, in bytes.
func memory(pid int) (now, peak uint64, err error) {
	process, err := procfs.NewProc(pid)
	var status procfs.ProcStatus
	if err == nil {
		status, err = process.NewStatus()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the scheduler's memory: %w", err)
	}
	return status.VmRSS, status.VmHWM, nil
}

// profileSeconds is shorter than the time for binding 2,000 pods.
const profileSeconds = 3

// startProfile starts taking profiles of the scheduler if the flags ask for it: of the CPU, and
// then of all allocations since the scheduler's start. The caller waits for the result.
func (r *rig) startProfile(ctx context.Context, v variant) (wait func() error) {
	if r.options.profiles == "" {
		return func() error { return nil }
	}
	r.profiled++
	path := filepath.Join(r.options.profiles, fmt.Sprintf("nodes=%d,plugin=%s,%d", len(r.nodes), v.name, r.profiled))
	done := make(chan error, 1)
	go func() {
		err := errors.Join(
			r.takeProfile(ctx, fmt.Sprintf("profile?seconds=%d", profileSeconds), path+".cpu.pprof"),
			r.takeProfile(ctx, "allocs", path+".allocs.pprof"))
		if err != nil {
			err = fmt.Errorf("profile the scheduler: %w", err)
		}
		done <- err
	}()
	return func() error { return <-done }
}

func (r *rig) takeProfile(ctx context.Context, name, path string) error {
	client, err := rest.HTTPClientFor(r.cluster.RESTConfig())
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.cluster.URL(localcluster.Scheduler)+"/debug/pprof/"+name, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, data)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
