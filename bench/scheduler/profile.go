package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/lab/localcluster"
)

// profileSeconds is shorter than binding 2,000 pods takes.
const profileSeconds = 3

// profile is a CPU profile that is being taken.
type profile chan error

func (p profile) wait() error {
	if p == nil {
		return nil
	}
	return <-p
}

// startProfile takes profiles of the scheduler, if they are wanted: of the CPU, and then
// of all that has been allocated since its start.
func (r *rig) startProfile(ctx context.Context, v variant) profile {
	if r.options.profiles == "" {
		return nil
	}
	r.profiled++
	path := filepath.Join(r.options.profiles, fmt.Sprintf("nodes=%d,plugin=%s,%d", len(r.nodes), v.name, r.profiled))
	p := make(profile, 1)
	go func() {
		err := r.takeProfile(ctx, fmt.Sprintf("profile?seconds=%d", profileSeconds), path+".cpu.pprof")
		p <- errors.Join(err, r.takeProfile(ctx, "allocs", path+".allocs.pprof"))
	}()
	return p
}

func (r *rig) takeProfile(ctx context.Context, what, path string) error {
	client, err := rest.HTTPClientFor(r.cluster.RESTConfig())
	if err != nil {
		return fmt.Errorf("profile the scheduler: %w", err)
	}
	url := r.cluster.URL(localcluster.Scheduler) + "/debug/pprof/" + what
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("profile the scheduler: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("profile the scheduler: %w", err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, data)
	}
	if err != nil {
		return fmt.Errorf("profile the scheduler: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write the profile: %w", err)
	}
	return os.WriteFile(path, data, 0o644)
}
