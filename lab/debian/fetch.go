package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"strings"
)

// MirrorVariable is the environment variable with the http or https URL of a Debian mirror, or of an
// archive of Debian's packages at the time of [Lock.Snapshot].
const MirrorVariable = "PINFOLD_DEBIAN_MIRROR"

// ErrUnavailable reports that no source has a package.
var ErrUnavailable = errors.New("cannot download Debian packages")

// A source downloads packages.
type source interface {
	fmt.Stringer
	// fetch calls add with the content of each package that the source has. It returns an error if
	// add does or if the source lacks a package.
	fetch(ctx context.Context, packages []Package, add func(Package, io.Reader) error) error
}

// defaultSources returns the sources in the order in which they are used. They may write to the
// directory temporary.
func defaultSources(temporary string) ([]source, error) {
	var sources []source
	if mirror := os.Getenv(MirrorVariable); mirror != "" {
		if u, err := url.Parse(mirror); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("%s is %q: set it to the http or https URL of a Debian mirror", MirrorVariable, mirror)
		}
		sources = append(sources, newMirror(mirror))
	}
	if _, err := exec.LookPath(aptCommand); err == nil {
		sources = append(sources, apt{temporary})
	}
	return sources, nil
}

// fetch downloads those packages that the store does not have. The store must be locked.
func (s *store) fetch(ctx context.Context, packages []Package) error {
	missing, err := s.missing(packages)
	if err != nil {
		return err
	}
	var failed []string
	if len(s.sources) == 0 {
		failed = append(failed, "this machine has no "+aptCommand)
	}
	for _, source := range s.sources {
		if len(missing) == 0 {
			return nil
		}
		s.progress(fmt.Sprintf("downloading %d packages (%.1f MB) from %s", len(missing), megabytes(missing), source))
		if err := source.fetch(ctx, missing, s.add); err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", source, err))
		}
		if ctx.Err() != nil {
			return fmt.Errorf("download %s: %w", list(missing), context.Cause(ctx))
		}
		if missing, err = s.missing(missing); err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: %s; set %s to a mirror that has these versions, or copy the .deb files to %s",
		ErrUnavailable, list(missing), strings.Join(failed, "; "), MirrorVariable, s.path(packagesDir))
}

// missing returns the packages that the store does not have or has in a damaged file.
func (s *store) missing(packages []Package) ([]Package, error) {
	var missing []Package
	for _, p := range packages {
		file, err := s.openPackage(p)
		switch {
		case err == nil:
			_ = file.Close() // read only
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, p)
		default:
			return nil, err
		}
	}
	return missing, nil
}

func megabytes(packages []Package) float64 {
	var bytes int64
	for _, p := range packages {
		bytes += p.Size
	}
	return float64(bytes) / 1e6
}

// list returns the file of the first package and the number of the others.
func list(packages []Package) string {
	if len(packages) == 1 {
		return packages[0].file()
	}
	return fmt.Sprintf("%s and %d more", packages[0].file(), len(packages)-1)
}
