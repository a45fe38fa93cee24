package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"pinfold.dev/pinfold/internal/ociimage"
)

// platform is a platform for which there is an archive.
type platform struct{ OS, Arch string }

func (p platform) String() string { return p.OS + "_" + p.Arch }

// platforms returns all platforms, in the order of the manifest.
func platforms() []platform {
	return []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
}

// archive is a written archive.
type archive struct {
	platform
	Name   string // of the file
	SHA256 string // in hexadecimal digits
	Bytes  int
}

// writeArchive writes the archive of one platform to a directory. The same files give the same
// bytes: owners, times and modes in the archive do not depend on the machine.
func writeArchive(dir string, p platform, files []ociimage.File) (archive, error) {
	made := archive{platform: p, Name: fmt.Sprintf("pinfold_%s.tar.gz", p)}
	data, err := ociimage.Archive(files)
	if err != nil {
		return made, fmt.Errorf("write %s: %w", made.Name, err)
	}
	made.SHA256, made.Bytes = fmt.Sprintf("%x", sha256.Sum256(data)), len(data)
	return made, os.WriteFile(filepath.Join(dir, made.Name), data, 0o644)
}
