package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	Bytes  int64
}

// member is a file in an archive.
type member struct {
	name, path string
	mode       int64
}

// writeArchive writes the archive of one platform to a directory. The same members give the same
// bytes: owners, times and modes in the archive do not depend on the machine.
func writeArchive(dir string, p platform, members []member) (made archive, err error) {
	made = archive{platform: p, Name: fmt.Sprintf("pinfold_%s.tar.gz", p)}
	file, err := os.Create(filepath.Join(dir, made.Name))
	if err != nil {
		return made, err
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	sum := sha256.New()
	zipped := gzip.NewWriter(io.MultiWriter(file, sum))
	tarred := tar.NewWriter(zipped)
	for _, m := range members {
		if err := addMember(tarred, m); err != nil {
			return made, fmt.Errorf("write %s: %w", made.Name, err)
		}
	}
	for _, end := range []io.Closer{tarred, zipped} {
		if err := end.Close(); err != nil {
			return made, fmt.Errorf("write %s: %w", made.Name, err)
		}
	}
	info, err := file.Stat()
	if err != nil {
		return made, err
	}
	made.SHA256, made.Bytes = hex.EncodeToString(sum.Sum(nil)), info.Size()
	return made, nil
}

func addMember(archive *tar.Writer, m member) error {
	data, err := os.ReadFile(m.path)
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: m.name, Mode: m.mode, Size: int64(len(data)), Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err = archive.Write(data)
	return err
}
