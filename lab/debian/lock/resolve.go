package main

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"pinfold.dev/pinfold/lab/debian"
)

// libraryDir is the first directory of shared libraries. Some packages use directories below it.
const libraryDir = "usr/lib/x86_64-linux-gnu"

// resolver collects the packages of one program.
type resolver struct {
	cache    debian.Cache
	index    map[string]candidate
	unpacked string // directory with the files of each package, in a directory with its name

	packages  []string          // wanted
	libraries map[string]string // directories of the libraries found, by soname
	pending   []user
}

// user is an ELF file whose libraries are to be found.
type user struct{ pkg, path string }

// resolve returns the packages of a program.
func resolve(ctx context.Context, g goal, index map[string]candidate, messages io.Writer) (debian.Program, error) {
	dir, err := os.MkdirTemp("", "pinfold-lock-")
	if err != nil {
		return debian.Program{}, err
	}
	defer os.RemoveAll(dir)
	cache := debian.Cache{Progress: func(line string) { fmt.Fprintln(messages, line) }}
	r := &resolver{cache: cache, index: index, unpacked: dir, libraries: map[string]string{}}
	if err := r.start(ctx, g); err != nil {
		return debian.Program{}, err
	}
	for len(r.pending) > 0 {
		next := r.pending[0]
		r.pending = r.pending[1:]
		if err := r.resolveFile(ctx, next); err != nil {
			return debian.Program{}, fmt.Errorf("%s of package %s: %w", next.path, next.pkg, err)
		}
	}
	return r.program(g), nil
}

// start adds the goal's own packages and files.
func (r *resolver) start(ctx context.Context, g goal) error {
	r.packages = slices.Clone(g.packages)
	if err := r.unpack(ctx, g.packages); err != nil {
		return err
	}
	for _, file := range append([]string{g.executable}, g.plugins...) {
		i := slices.IndexFunc(g.packages, func(pkg string) bool { return r.has(pkg, file) })
		if i < 0 {
			return fmt.Errorf("no package of %v contains %s", g.packages, file)
		}
		r.pending = append(r.pending, user{g.packages[i], file})
	}
	return nil
}

// resolveFile finds the libraries of a file (DT_NEEDED).
func (r *resolver) resolveFile(ctx context.Context, u user) error {
	file, err := elf.Open(filepath.Join(r.dir(u.pkg), u.path))
	if err != nil {
		return err
	}
	needed, err := file.ImportedLibraries()
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	for _, soname := range needed {
		if _, ok := r.libraries[soname]; ok {
			continue
		}
		if err := r.resolveLibrary(ctx, u, soname); err != nil {
			return err
		}
	}
	return nil
}

// resolveLibrary finds a library in the package of its user or in those on which that depends.
func (r *resolver) resolveLibrary(ctx context.Context, u user, soname string) error {
	depends := slices.DeleteFunc(slices.Clone(r.index[u.pkg].depends), func(name string) bool {
		return r.index[name].Name == "" // a virtual package
	})
	candidates := append([]string{u.pkg}, depends...)
	if err := r.unpack(ctx, candidates); err != nil {
		return err
	}
	for _, pkg := range candidates {
		file, err := r.find(pkg, soname)
		if err != nil {
			return err
		}
		if file == "" {
			continue
		}
		r.libraries[soname] = path.Dir(file)
		r.pending = append(r.pending, user{pkg, file})
		if !slices.Contains(r.packages, pkg) {
			r.packages = append(r.packages, pkg)
		}
		return nil
	}
	return fmt.Errorf("library %s is in none of the packages %v", soname, candidates)
}

// unpack fetches and unpacks packages, each into its own directory, unless it did before.
func (r *resolver) unpack(ctx context.Context, names []string) error {
	var packages []debian.Package
	for _, name := range names {
		c, ok := r.index[name]
		if !ok {
			return fmt.Errorf("package %s is not in the list of packages", name)
		}
		if _, err := os.Stat(r.dir(name)); errors.Is(err, fs.ErrNotExist) {
			packages = append(packages, c.Package)
		}
	}
	if err := r.cache.Fetch(ctx, packages...); err != nil {
		return err
	}
	for _, p := range packages {
		if err := r.unpackPackage(p); err != nil {
			return fmt.Errorf("package %s: %w", p.Name, err)
		}
	}
	return nil
}

func (r *resolver) unpackPackage(p debian.Package) error {
	file, err := r.cache.Open(p)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.Mkdir(r.dir(p.Name), 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(r.dir(p.Name))
	if err != nil {
		return err
	}
	defer root.Close()
	return debian.Unpack(root, file)
}

// dir returns the directory with the files of a package.
func (r *resolver) dir(pkg string) string { return filepath.Join(r.unpacked, pkg) }

// has reports whether a package contains a regular file or a link to one.
func (r *resolver) has(pkg, file string) bool {
	info, err := os.Stat(filepath.Join(r.dir(pkg), file))
	return err == nil && info.Mode().IsRegular()
}

// find returns the path of a library in a package, or "" if the package does not contain it.
func (r *resolver) find(pkg, soname string) (string, error) {
	inDirs, err := filepath.Glob(filepath.Join(r.dir(pkg), libraryDir, "*"))
	if err != nil {
		return "", err
	}
	dirs := []string{libraryDir, "usr/lib64"} // usr/lib64 has the dynamic loader
	for _, dir := range inDirs {
		dirs = append(dirs, path.Join(libraryDir, filepath.Base(dir)))
	}
	for _, dir := range dirs {
		if file := path.Join(dir, soname); r.has(pkg, file) {
			return file, nil
		}
	}
	return "", nil
}

// program returns the result.
func (r *resolver) program(g goal) debian.Program {
	p := debian.Program{Name: g.name, Executable: g.executable, Libraries: []string{libraryDir}}
	for _, dir := range r.libraries {
		if dir != "usr/lib64" && !slices.Contains(p.Libraries, dir) {
			p.Libraries = append(p.Libraries, dir)
		}
	}
	slices.Sort(p.Libraries[1:])
	for _, name := range r.packages {
		p.Packages = append(p.Packages, r.index[name].Package)
	}
	slices.SortFunc(p.Packages, func(a, b debian.Package) int { return cmp.Compare(a.Name, b.Name) })
	return p
}
