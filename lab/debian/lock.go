package debian

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the lock file
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Architecture is the only architecture with locked packages, in the spelling of Debian and GOARCH.
const Architecture = "amd64"

//go:embed lock.txt
var lockFile string

// Package identifies one .deb file.
type Package struct {
	Name, Version, Architecture string // as in the package's control file

	SHA256 string // 64 hexadecimal digits
	Size   int64  // bytes
	Path   string // relative to the top of a mirror, such as pool/main/w/wrk/wrk_4.1.0-3_amd64.deb
}

// file returns the name of the package's file.
func (p Package) file() string { return path.Base(p.Path) }

// String returns the package's line in a lock file.
func (p Package) String() string {
	return fmt.Sprintf("%s %s %s %s %d %s", p.Name, p.Version, p.Architecture, p.SHA256, p.Size, p.Path)
}

// Program is a program with all packages that it needs to run, including the C library.
type Program struct {
	Name       string
	Executable string    // path below the root, without leading slash
	Libraries  []string  // directories of shared libraries, likewise, in order of search
	Packages   []Package // sorted by name, each name once
}

// String returns the program's part of a lock file.
func (p Program) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, "program", p.Name, p.Executable, strings.Join(p.Libraries, " "))
	for _, pkg := range p.Packages {
		fmt.Fprintln(&b, pkg)
	}
	return b.String()
}

// unpackFormat is changed when [Unpack] begins to write other files than before.
const unpackFormat = "1"

// ID returns the name of the program's root directory. It differs for each set of packages.
func (p Program) ID() string {
	digest := sha256.Sum256([]byte(unpackFormat + "\n" + p.String()))
	return p.Name + "-" + hex.EncodeToString(digest[:8])
}

// Lock lists the packages of each program.
type Lock struct {
	Snapshot string // a time at which the archive had all packages, YYYYMMDDThhmmssZ
	Programs []Program
}

// Locked returns the lock that is part of this package.
func Locked() (Lock, error) {
	lock, err := ParseLock(strings.NewReader(lockFile))
	if err != nil {
		return Lock{}, fmt.Errorf("read the embedded lock: %w", err)
	}
	return lock, nil
}

// Program returns the program with a name.
func (l Lock) Program(name string) (Program, error) {
	i := slices.IndexFunc(l.Programs, func(p Program) bool { return p.Name == name })
	if i < 0 {
		return Program{}, fmt.Errorf("program %q is not locked: use %s", name, strings.Join(l.names(), ", "))
	}
	return l.Programs[i], nil
}

func (l Lock) names() []string {
	var names []string
	for _, p := range l.Programs {
		names = append(names, p.Name)
	}
	return names
}

// String returns the lock without comments, as [ParseLock] reads it.
func (l Lock) String() string {
	text := "snapshot " + l.Snapshot + "\n"
	for _, p := range l.Programs {
		text += "\n" + p.String()
	}
	return text
}

// ParseLock reads a lock: a line "snapshot TIME"; then, for each program, a line "program NAME
// EXECUTABLE DIRECTORY..." and a line "NAME VERSION ARCHITECTURE SHA256 SIZE PATH" per package. It
// ignores empty lines and lines that begin with #.
func ParseLock(r io.Reader) (Lock, error) {
	var lock Lock
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if err := lock.add(fields); err != nil {
			return Lock{}, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return Lock{}, fmt.Errorf("read a lock: %w", err)
	}
	return lock, nil
}

// add adds the line with the given fields.
func (l *Lock) add(fields []string) error {
	switch {
	case fields[0] == "snapshot" && len(fields) == 2:
		l.Snapshot = fields[1]
		return nil
	case fields[0] == "program":
		if len(fields) < 4 {
			return fmt.Errorf("the program has %d fields, want name, executable and directories of libraries", len(fields)-1)
		}
		l.Programs = append(l.Programs, Program{Name: fields[1], Executable: fields[2], Libraries: fields[3:]})
		return nil
	case len(l.Programs) == 0:
		return errors.New("there is a package before the first program")
	}
	pkg, err := parsePackage(fields)
	if err != nil {
		return err
	}
	p := &l.Programs[len(l.Programs)-1]
	if n := len(p.Packages); n > 0 && p.Packages[n-1].Name >= pkg.Name {
		return fmt.Errorf("package %s of %s comes after %s: sort the packages", pkg.Name, p.Name, p.Packages[n-1].Name)
	}
	p.Packages = append(p.Packages, pkg)
	return nil
}

func parsePackage(fields []string) (Package, error) {
	if len(fields) != 6 {
		return Package{}, fmt.Errorf("package %s has %d fields, want name, version, architecture, SHA-256, size and path", fields[0], len(fields))
	}
	size, err := strconv.ParseInt(fields[4], 10, 64)
	if err != nil || size <= 0 {
		return Package{}, fmt.Errorf("package %s: size %q is not a positive number of bytes", fields[0], fields[4])
	}
	if digest, err := hex.DecodeString(fields[3]); err != nil || len(digest) != sha256.Size {
		return Package{}, fmt.Errorf("package %s: %q is not a SHA-256 digest", fields[0], fields[3])
	}
	if p := fields[5]; !strings.HasPrefix(p, "pool/") || !strings.HasSuffix(p, ".deb") || path.Clean(p) != p {
		return Package{}, fmt.Errorf("package %s: %q is not the path of a .deb file below pool/", fields[0], p)
	}
	return Package{fields[0], fields[1], fields[2], fields[3], size, fields[5]}, nil
}
