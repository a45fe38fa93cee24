package localnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	strictjson "sigs.k8s.io/json"

	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/linux/owned"
)

// savedName is the file in the node's directory that records the state of the machine.
const savedName = "before.json"

// saved is the state of the machine before the node. It contains values only. This package fixes
// which sysctls, directories and hierarchies they apply to, and rejects a file that names any
// other.
type saved struct {
	// Boot identifies the current boot (random(4), boot_id). Sysctls, cgroups and interfaces do not
	// outlast it.
	Boot        string              `json:"boot"`
	Pods        netip.Prefix        `json:"pods"`        // the pods' network
	Sysctls     map[string]int64    `json:"sysctls"`     // by name below /proc/sys
	Controllers map[string][]string `json:"controllers"` // passed on by each version 2 root
	Made        madeDirs            `json:"made"`        // of outsideDirs and their parents
}

// machine locates the files of the kernel and of other programs.
type machine struct {
	root        string                   // "/", or the root of a fixture
	hierarchies func() ([]string, error) // returns the roots of the cgroup hierarchies
}

func host() machine { return machine{"/", hierarchies} }

func (m machine) path(path string) string { return filepath.Join(m.root, path) }

func (m machine) boot() (string, error) {
	text, err := os.ReadFile(m.path("/proc/sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// stateOf returns the current state of a machine.
func stateOf(m machine, pods netip.Prefix) (*saved, error) {
	roots, err := m.hierarchies()
	if err != nil {
		return nil, err
	}
	// Checked again, because Restore removes kubelet groups that are not there now.
	if err := checkHierarchies(roots); err != nil {
		return nil, err
	}
	s := &saved{Pods: pods, Made: missingDirs(m.root, outsideDirs()...)}
	if s.Boot, err = m.boot(); err != nil {
		return nil, err
	}
	if s.Sysctls, err = readSysctls(m); err != nil {
		return nil, err
	}
	if s.Controllers, err = readControllers(roots); err != nil {
		return nil, err
	}
	return s, s.check(roots) // Restore would reject it
}

// check returns an error unless stateOf can return s on a machine with these cgroup roots.
func (s *saved) check(roots []string) error {
	boot, controller := regexp.MustCompile(`^[0-9a-f-]{36}$`), regexp.MustCompile(`^[a-z_]+$`)
	if !boot.MatchString(s.Boot) {
		return fmt.Errorf("boot is %q, which is not a boot id", s.Boot)
	}
	if s.Pods.Bits() != podsBits || !podsRange().Contains(s.Pods.Addr()) || s.Pods != s.Pods.Masked() {
		return fmt.Errorf("pods is %v, which is not a /%d of %v", s.Pods, podsBits, podsRange())
	}
	for name, value := range s.Sysctls {
		if err := checkSysctl(name, value); err != nil {
			return err
		}
	}
	for root, names := range s.Controllers {
		if !slices.Contains(roots, root) {
			return fmt.Errorf("controllers of %q, which is not the mount point of a cgroup hierarchy", root)
		}
		for _, name := range names {
			if !controller.MatchString(name) {
				return fmt.Errorf("controller %q of %s is not a name", name, root)
			}
		}
	}
	for dir := range s.Made {
		isPrefix := func(outside string) bool { return strings.HasPrefix(outside+"/", dir+"/") }
		if !filepath.IsAbs(dir) || !slices.ContainsFunc(outsideDirs(), isPrefix) {
			return fmt.Errorf("made %q, which a node does not create", dir)
		}
	}
	return nil
}

func (s *saved) write(l layout) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("record the machine's state: %w", err)
	}
	path := l.path(savedName)
	if err := atomicfile.Write(path, append(text, '\n'), atomicfile.Options{Perm: 0o600, Sync: true, Suffix: ".new"}); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// readSaved returns the recorded state, nil if there is none.
func readSaved(m machine, l layout) (*saved, error) {
	root, err := owned.Open(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no node has changed anything
	}
	if err != nil {
		return nil, fmt.Errorf("read the machine's recorded state: %w", err)
	}
	defer root.Close()
	text, err := owned.ReadFile(root, savedName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // as above
	}
	if err != nil {
		return nil, fmt.Errorf("read the machine's recorded state: %w", err)
	}
	s := &saved{}
	unknownFields, err := strictjson.UnmarshalStrict(text, s)
	if err = errors.Join(append(unknownFields, err)...); err == nil {
		var roots []string
		if roots, err = m.hierarchies(); err == nil {
			err = s.check(roots)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the machine's recorded state: %s was not written by pinfold-local: %w; nothing was restored", l.path(savedName), err)
	}
	return s, nil
}
