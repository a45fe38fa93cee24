package registry

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"pinfold.dev/pinfold/internal/ociimage"
	"pinfold.dev/pinfold/local/images"
)

// The users and groups of every image.
const (
	passwd = "root:x:0:0:root:/root:/sbin/nologin\nnginx:x:101:101:nginx:/nonexistent:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"
	groups = "root:x:0:\nnginx:x:101:\nnogroup:x:65534:\n"
)

// build returns an image of the executable in dir.
func build(image images.Image, dir string) (v1.Image, error) {
	program := images.Path(image.Program)
	executable, err := os.ReadFile(filepath.Join(dir, program))
	if err != nil {
		return nil, fmt.Errorf("read the program of image %s: %w", image.Name, err)
	}
	return ociimage.Build(ociimage.Spec{
		Architecture: runtime.GOARCH,
		Dirs:         image.Dirs,
		Files: []ociimage.File{
			{Name: "etc/group", Mode: 0o644, Data: []byte(groups)},
			{Name: "etc/passwd", Mode: 0o644, Data: []byte(passwd)},
			{Name: strings.TrimPrefix(program, "/"), Mode: 0o755, Data: executable},
		},
		Config: v1.Config{
			Entrypoint: []string{program},
			Cmd:        image.Args,
			Env:        []string{"PATH=" + path.Dir(program)},
			WorkingDir: "/",
		},
	})
}
