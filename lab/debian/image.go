package debian

import (
	"fmt"
	"io/fs"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"pinfold.dev/pinfold/internal/ociimage"
)

// The users and groups of every image. On a Debian system, maintainer scripts create them.
const (
	passwd = "root:x:0:0:root:/root:/usr/sbin/nologin\nwww-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	groups = "root:x:0:\nwww-data:x:33:\nnogroup:x:65534:\n"
)

// Image returns an OCI image that runs the program as root with the given arguments. Its digest
// depends on the lock and the arguments only. The image has no configuration that would serve a
// page: mount one. The whole image is in memory.
func (r Root) Image(args ...string) (v1.Image, error) {
	spec := ociimage.Spec{
		Architecture: Architecture,
		Links:        map[string]string{},
		Dirs:         []string{"run", "tmp"},
		Files: []ociimage.File{
			{Name: "etc/group", Mode: 0o644, Data: []byte(groups)},
			{Name: "etc/passwd", Mode: 0o644, Data: []byte(passwd)},
		},
		Config: v1.Config{
			Entrypoint: []string{"/" + r.Program.Executable},
			Cmd:        args,
			Env:        []string{"PATH=/usr/sbin:/usr/bin"},
			WorkingDir: "/",
		},
	}
	if dirs := r.Program.Libraries; len(dirs) > 1 { // the dynamic loader searches the first by itself
		spec.Config.Env = append(spec.Config.Env, "LD_LIBRARY_PATH=/"+strings.Join(dirs, ":/"))
	}
	if err := r.addTo(&spec); err != nil {
		return nil, fmt.Errorf("image of %s: %w", r.Program.Name, err)
	}
	return ociimage.Build(spec)
}

// addTo adds all files of the root to an image.
func (r Root) addTo(spec *ociimage.Spec) error {
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		switch {
		case entry.IsDir():
			spec.Dirs = append(spec.Dirs, name)
			return nil
		case entry.Type() == fs.ModeSymlink:
			spec.Links[name], err = root.Readlink(name)
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data, err := root.ReadFile(name)
		spec.Files = append(spec.Files, ociimage.File{Name: name, Mode: int64(info.Mode().Perm()), Data: data})
		return err
	})
}
