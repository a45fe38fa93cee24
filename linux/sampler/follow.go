package sampler

import (
	"context"
	"time"

	"pinfold.dev/pinfold/linux/cgroup"
)

// Follow calls Set with the result of list, at once and then periodically. It returns nil when ctx
// ends, or the error of list.
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

// Containers returns the groups of all containers of a node, including sandboxes, according to the
// kubelet's naming.
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
