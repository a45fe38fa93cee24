package sampler

import (
	"context"
	"time"

	"pinfold.dev/pinfold/linux/cgroup"
)

// Follow sets the groups that list returns, at once and then every so often, until the
// context is done, which is no error, or list fails.
func (s *Sampler) Follow(ctx context.Context, every time.Duration, list func() ([]string, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		groups, err := list()
		if err != nil {
			return err
		}
		s.Set(groups)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Containers lists the groups of all containers of a node, sandboxes included, whose
// kubelet names groups so.
func Containers(fs *cgroup.FS, naming cgroup.Naming) ([]string, error) {
	pods, err := fs.Pods(naming)
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, p := range pods {
		for _, c := range p.Containers {
			groups = append(groups, c.Path)
		}
	}
	return groups, nil
}
