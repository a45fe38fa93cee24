package localnode

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// changedSysctls returns patterns, below /proc/sys, of what the components change, in
// the order in which it is put back. The kubelet sets the first six
// (k8s.io/component-helpers/node/util/sysctl), the CNI plugin ip_forward. A write of
// ip_forward also sets the forwarding of every interface and accept_redirects (kernel,
// net/ipv4/devinet.c, inet_forward_change), so these follow.
func changedSysctls() []string {
	return []string{
		"vm/overcommit_memory", "vm/panic_on_oom",
		"kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
		"net/ipv4/ip_forward",
		"net/ipv4/conf/*/forwarding",
		"net/ipv4/conf/all/accept_redirects",
	}
}

// setting is the value of one file.
type setting struct {
	Path  string `json:"path"`
	Value string `json:"value"`
}

// readSettings returns the values of the files below root that match the patterns.
func readSettings(root string, patterns []string) ([]setting, error) {
	var settings []setting
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", pattern, err)
		}
		for _, path := range paths {
			value, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("read a kernel setting: %w", err)
			}
			settings = append(settings, setting{Path: path, Value: string(value)})
		}
	}
	return settings, nil
}

// writeSettings puts values back. What is as it was is not written, and what is not
// there any more, such as an interface's, is left out.
func writeSettings(settings []setting) error {
	var failed []error
	for _, s := range settings {
		value, err := os.ReadFile(s.Path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil && !bytes.Equal(value, []byte(s.Value)) {
			err = os.WriteFile(s.Path, []byte(s.Value), 0)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("put back a kernel setting: %w", err))
		}
	}
	return errors.Join(failed...)
}
