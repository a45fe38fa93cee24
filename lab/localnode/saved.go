package localnode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/linux/owned"
)

// savedName is the file, in the node's directory, that says how the machine was.
const savedName = "before.json"

// saved is how the machine was before the node. It holds values only: what they belong to
// is fixed here (changedSysctls, outsideDirs, the mounted hierarchies), and a file that
// names anything else is refused as a whole.
type saved struct {
	// Boot is the kernel's name for the time since it started (random(4), boot_id). With
	// it everything is gone that the kernel keeps.
	Boot        string              `json:"boot"`
	Pods        netip.Prefix        `json:"pods"`        // the pods' network
	Sysctls     map[string]int64    `json:"sysctls"`     // by their names below /proc/sys
	Controllers map[string][]string `json:"controllers"` // passed on by each version 2 root
	Made        map[string]string   `json:"made"`        // directories that did not exist, see makeOutside
}

// machine is where the kernel and other programs keep their files.
type machine struct {
	root        string                   // "/", or that of a fixture
	hierarchies func() ([]string, error) // the control group roots
}

func host() machine { return machine{"/", hierarchies} }

func (m machine) path(path string) string { return filepath.Join(m.root, path) }

func (m machine) boot() (string, error) {
	text, err := os.ReadFile(m.path("/proc/sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("ask which start of the kernel this is: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// look returns how the machine is.
func look(m machine, pods netip.Prefix) (*saved, error) {
	roots, err := m.hierarchies()
	if err != nil {
		return nil, err
	}
	// Again: what is written down here decides what is removed in the end.
	if err := checkHierarchies(roots); err != nil {
		return nil, err
	}
	s := &saved{Pods: pods, Made: absentDirs(m)}
	if s.Boot, err = m.boot(); err != nil {
		return nil, err
	}
	if s.Sysctls, err = readSysctls(m); err != nil {
		return nil, err
	}
	if s.Controllers, err = readControllers(roots); err != nil {
		return nil, err
	}
	return s, s.check(roots) // what is not believed later is not written now
}

// check refuses what look does not return on a machine with these control group roots.
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
			return fmt.Errorf("controllers of %q, which is not the mount point of a control group hierarchy", root)
		}
		for _, name := range names {
			if !controller.MatchString(name) {
				return fmt.Errorf("controller %q of %s is not a name", name, root)
			}
		}
	}
	for dir := range s.Made {
		if !slices.Contains(outsideDirs(), dir) {
			return fmt.Errorf("made %q, which a node does not make", dir)
		}
	}
	return nil
}

func (s *saved) write(l layout) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write down how the machine is: %w", err)
	}
	path := l.path(savedName)
	if err := atomicfile.Write(path, append(text, '\n'), atomicfile.Options{Perm: 0o600, Sync: true, Suffix: ".new"}); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// readSaved returns what a node wrote down, nil when there is nothing.
func readSaved(m machine, l layout) (*saved, error) {
	root, err := owned.Open(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing was changed: nothing to put back
	}
	if err != nil {
		return nil, fmt.Errorf("read how the machine was: %w", err)
	}
	defer root.Close()
	text, err := owned.ReadFile(root, savedName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // as above
	}
	if err != nil {
		return nil, fmt.Errorf("read how the machine was: %w", err)
	}
	s, err := parseSaved(text)
	if err == nil {
		var roots []string
		if roots, err = m.hierarchies(); err == nil {
			err = s.check(roots)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read how the machine was: %s, which is not as pinfold-local writes it: %w; nothing was put back", l.path(savedName), err)
	}
	return s, nil
}

func parseSaved(text []byte) (*saved, error) {
	s := &saved{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(s); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows its end")
	}
	return s, nil
}
