package doctor

import (
	"compress/gzip"
	"io"
	"os"
)

// kernelConfig returns the configuration that the kernel was built with, between line
// ends, and where it was found; "" when it is nowhere (IKCONFIG is an option, and
// containers do not see /boot).
func (x *examination) kernelConfig() (text, from string) {
	if text, err := readGzip(x.path("proc/config.gz")); err == nil {
		return "\n" + text + "\n", "/proc/config.gz"
	}
	release, _, err := x.read("proc/sys/kernel/osrelease")
	if err != nil || release == "" {
		return "", ""
	}
	from = "/boot/config-" + release
	text, found, err := x.read(from)
	if err != nil || !found {
		return "", ""
	}
	return "\n" + text + "\n", from
}

// maxConfig bounds what is read: a real one has 300 KB.
const maxConfig = 4 << 20

func readGzip(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return "", err
	}
	defer z.Close()
	data, err := io.ReadAll(io.LimitReader(z, maxConfig))
	return string(data), err
}
