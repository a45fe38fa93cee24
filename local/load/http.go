package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
)

// HTTP sends GET requests to one URL. It keeps and reuses one connection per concurrent request.
type HTTP struct {
	// Header is sent with every request. Answers are not decompressed.
	Header http.Header
	url    string
	client *http.Client
}

// NewHTTP returns a sender for an http URL. The host must be "localhost" or a loopback, private or
// link-local address, such as that of a pod, so that no load is sent to public servers.
func NewHTTP(address string) (*HTTP, error) {
	target, err := url.Parse(address)
	if err == nil {
		err = checkTarget(target)
	}
	if err != nil {
		return nil, fmt.Errorf("send requests to %q: %w", address, err)
	}
	return &HTTP{url: address, client: &http.Client{
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: maxConcurrent},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func checkTarget(target *url.URL) error {
	if target.Scheme != "http" {
		return errors.New("the URL must begin with http://")
	}
	host := target.Hostname()
	if host == "localhost" {
		return nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return fmt.Errorf("the host must be an IP address or localhost, not %q", host)
	}
	if ip = ip.Unmap(); !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast() {
		return fmt.Errorf("%v is neither of this machine nor of a private network", ip)
	}
	return nil
}

// Send sends one request, for [Run]. A status other than 200 is an error.
func (h *HTTP) Send(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, http.NoBody)
	if err != nil {
		return err
	}
	maps.Copy(request.Header, h.Header)
	response, err := h.client.Do(request)
	if err != nil {
		return withoutAddresses(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return withoutAddresses(err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered with %s", response.Status)
	}
	return nil
}

// withoutAddresses removes URL and ports from an error, so that failures of the same kind have the
// same message.
func withoutAddresses(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if wrapped, ok := errors.AsType[*net.OpError](err); ok {
		err = fmt.Errorf("%s: %w", wrapped.Op, wrapped.Err)
	}
	return err
}

// Close closes the idle connections.
func (h *HTTP) Close() { h.client.CloseIdleConnections() }
