package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Limits of a download.
const (
	stallTimeout   = 30 * time.Second // without a byte, including those of the response's header
	packageTimeout = 10 * time.Minute // for one package
)

var (
	errStalled = errors.New("the server stopped sending")
	errSlow    = errors.New("the server is too slow")
)

// mirror is a Debian mirror, or an archive of one, with a pool directory.
type mirror struct {
	url   string // without trailing slash
	stall time.Duration
}

func newMirror(url string) mirror { return mirror{strings.TrimSuffix(url, "/"), stallTimeout} }

// String returns the URL.
func (m mirror) String() string { return m.url }

// fetch implements [source]. It continues after a package that the mirror does not have, and ends
// after any other error.
func (m mirror) fetch(ctx context.Context, packages []Package, add func(Package, io.Reader) error) error {
	var absent []Package
	for _, p := range packages {
		found, err := m.fetchOne(ctx, p, add)
		if err != nil {
			return fmt.Errorf("%s: %w", p.file(), err)
		}
		if !found {
			absent = append(absent, p)
		}
	}
	if len(absent) > 0 {
		return fmt.Errorf("it does not have %s", list(absent))
	}
	return nil
}

// fetchOne reports whether the mirror has the package.
func (m mirror) fetchOne(ctx context.Context, p Package, add func(Package, io.Reader) error) (bool, error) {
	ctx, cancelTimeout := context.WithTimeoutCause(ctx, packageTimeout, errSlow)
	defer cancelTimeout()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(m.stall, func() { cancel(errStalled) })
	defer stalled.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url+"/"+p.Path, http.NoBody)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, causeOf(ctx, err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotFound:
		return false, nil
	case response.StatusCode != http.StatusOK:
		return false, fmt.Errorf("status %s", response.Status)
	}
	if err := add(p, resetting{response.Body, stalled, m.stall}); err != nil {
		return false, causeOf(ctx, err)
	}
	return true, nil
}

// causeOf returns why a request with ctx was cancelled, or err if it was not.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// resetting resets a timer whenever it has read.
type resetting struct {
	io.Reader
	timer *time.Timer
	after time.Duration
}

// Read reads and resets the timer.
func (r resetting) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.timer.Reset(r.after)
	return n, err
}
