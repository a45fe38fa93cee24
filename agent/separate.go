package agent

import (
	"errors"
	"path/filepath"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/priority"
)

// cookieFile contains the core-scheduling cookie of batch pods.
func cookieFile(runDir string) string { return filepath.Join(runDir, "batch-cookie") }

// separation keeps batch pods off the cores on which others run.
type separation struct {
	cookies *priority.Cookies // nil until they could be opened
	// pods are the paths of the pods whose threads may have the cookie. It is nil before the first
	// round: then all may have it, from an earlier agent.
	pods map[string]bool
}

// separate gives the threads of batch pods their core-scheduling cookie, and takes it from those of
// pods that are no batch pods any more. mu must be locked.
func (e *engine) separate() {
	if e.stats.holding {
		return // the pods are not known
	}
	e.dedup.warnOrClear("cookies", "some batch pods may run on the cores of other pods", func() error {
		s := &e.separation
		if s.cookies == nil {
			cookies, err := priority.OpenCookies(e.kernel.groups, cookieFile(e.RunDir))
			if err != nil {
				return err
			}
			s.cookies = cookies
		}
		batch, others := e.status.Batch.Separate, e.status.Batch.Together
		given, taken := s.cookies.Give(batch), s.cookies.Take(s.mayHave(others))
		if s.pods == nil || taken == nil {
			s.pods = map[string]bool{}
		}
		for _, path := range batch {
			s.pods[path] = true
		}
		return errors.Join(given, taken)
	}())
}

// mayHave returns the pods of a list whose threads may have the cookie.
func (s *separation) mayHave(paths []string) []string {
	if s.pods == nil {
		return paths
	}
	var some []string
	for _, path := range paths {
		if s.pods[path] {
			some = append(some, path)
		}
	}
	return some
}

// endSeparation takes the cookie from all pods of a node.
func endSeparation(groups *cgroup.FS, runDir string, pods []string) error {
	cookies, err := priority.OpenCookies(groups, cookieFile(runDir))
	if err == nil && cookies.Used() {
		if err = cookies.Take(pods); err == nil {
			err = cookies.Forget()
		}
	}
	return err
}
