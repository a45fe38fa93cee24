// Package images lists the container images of a local cluster ([All]). They replace, under the
// same names, the images of the example manifests, so that the manifests run unchanged on a machine
// that cannot pull images. Each image is one static program, built from the directories below, and
// the few files that it or a volume needs.
package images

import "path/filepath"

// Image says what is in an image and how it runs.
type Image struct {
	Name    string   // as a manifest writes it, in full
	Program string   // a folder of this package, and the name of its executable
	Args    []string // after the program's name
	Env     []string // KEY=VALUE; a pod's own come on top
	Dirs    []string // empty directories, without the leading slash
}

// Pause is the image of pod sandboxes.
const Pause = "pinfold.dev/pause:1"

// All returns every image.
func All() []Image {
	return []Image{
		{Name: Pause, Program: "pause"},
		{
			Name:    "docker.io/library/nginx:latest",
			Program: "web",
			Args:    []string{"--listen=:80"},
			Dirs:    []string{"etc/nginx", "tmp", "var/log/nginx"},
		},
		{
			Name:    "docker.io/library/httpd:latest", // Apache's
			Program: "web",
			Args:    []string{"--listen=:80"},
			Dirs:    []string{"tmp"},
		},
		{
			Name:    "registry.cn-hangzhou.aliyuncs.com/haoshuwei24/go-demo:1k",
			Program: "web",
			Args:    []string{"--listen=:8080", "--size=1024"},
			Dirs:    []string{"tmp"},
		},
		{
			Name:    "registry.cn-zhangjiakou.aliyuncs.com/xianlu/java-pi:latest",
			Program: "pi",
			Dirs:    []string{"tmp"},
		},
	}
}

// Programs returns the names of the programs, each once.
func Programs() []string { return []string{"pause", "pi", "web"} }

// Path is where the executable of a program is in its image and, without the
// leading slash, below the directory that they are built into.
func Path(program string) string { return filepath.Join("/bin", program) }
