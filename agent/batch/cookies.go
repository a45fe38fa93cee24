package batch

import (
	"errors"
	"path/filepath"
	"slices"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/priority"
)

// cookieFile contains the core-scheduling cookie of batch pods.
func cookieFile(runDir string) string { return filepath.Join(runDir, "batch-cookie") }

// Cookies keep batch pods off the cores on which others run, by core scheduling. The zero value is
// not usable: set Groups and RunDir.
type Cookies struct {
	Groups *cgroup.FS
	RunDir string

	cookies *priority.Cookies // nil until they could be opened
	// pods are the paths of the pods whose threads may have the cookie. It is nil before the first
	// call: then all may have it, from an earlier agent.
	pods map[string]bool
}

// Separate gives the threads of batch pods their cookie, and takes it from those of others that may
// have it.
func (c *Cookies) Separate(batch, others []string) error {
	if c.cookies == nil {
		cookies, err := priority.OpenCookies(c.Groups, cookieFile(c.RunDir))
		if err != nil {
			return err
		}
		c.cookies = cookies
	}
	if c.pods != nil {
		others = slices.DeleteFunc(slices.Clone(others), func(path string) bool { return !c.pods[path] })
	}
	given, taken := c.cookies.Give(batch), c.cookies.Take(others)
	if c.pods == nil || taken == nil {
		c.pods = map[string]bool{}
	}
	for _, path := range batch {
		c.pods[path] = true
	}
	return errors.Join(given, taken)
}

// Forget takes the cookie from all pods of a node.
func (c *Cookies) Forget(pods []string) error {
	cookies, err := priority.OpenCookies(c.Groups, cookieFile(c.RunDir))
	if err == nil && cookies.Used() {
		if err = cookies.Take(pods); err == nil {
			err = cookies.Forget()
		}
	}
	return err
}
