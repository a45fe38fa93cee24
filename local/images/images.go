// Package images lists the container images of a local cluster ([All]). They replace, under the
// same names, the images of the example manifests, so that the manifests run unchanged on a machine
// that cannot pull images. Each image is one static program, built from the directories below, and
// the few files that it or a volume needs.
package images

import "path/filepath"

// Image describes an image.
type Image struct {
	Name    string   // full name, HOST/REPOSITORY:TAG
	Program string   // name of a directory of this package and of its executable
	Args    []string // arguments of the program
	Dirs    []string // empty directories, without leading slash
}

// Pause is the image of pod sandboxes.
const Pause = "pinfold.dev/pause:1"

// All returns every image.
func All() []Image {
	return []Image{
		{Name: Pause, Program: "pause"},
		{Name: "registry.k8s.io/pause:3.10.1", Program: "pause"}, // docs/operations.md
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

// Programs returns the names of all programs.
func Programs() []string { return []string{"pause", "pi", "web"} }

// Path returns the path of a program's executable in its image and, relative to the directory of
// built programs, on the machine.
func Path(program string) string { return filepath.Join("/bin", program) }
