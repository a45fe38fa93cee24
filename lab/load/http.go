package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
)

// HTTP sends GET requests to one address. Connections are kept and used again, as many
// as requests are under way at a time.
type HTTP struct {
	url    string
	client *http.Client
}

// NewHTTP returns a sender for a URL with a host that is "localhost" or an address of
// this machine or of a private network, such as that of pods: load is for what one owns.
func NewHTTP(address string) (*HTTP, error) {
	target, err := url.Parse(address)
	if err == nil {
		err = checkTarget(target)
	}
	if err != nil {
		return nil, fmt.Errorf("send requests to %q: %w", address, err)
	}
	return &HTTP{url: address, client: &http.Client{
		Transport: &http.Transport{
			Proxy:               nil,
			DialContext:         (&net.Dialer{}).DialContext,
			DisableCompression:  true,
			MaxIdleConnsPerHost: MaxUnderWay,
		},
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

// Send is a [Send]. An answer other than 200 is a failure.
func (h *HTTP) Send(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := h.client.Do(request)
	if err != nil {
		return plain(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return plain(err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered with %s", response.Status)
	}
	return nil
}

// plain takes off what differs from one request to the next, method and ports, so that
// failures of one kind have one message.
func plain(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if wrapped, ok := errors.AsType[*net.OpError](err); ok {
		err = fmt.Errorf("%s: %w", wrapped.Op, wrapped.Err)
	}
	return err
}

// Close ends the connections that are kept.
func (h *HTTP) Close() { h.client.CloseIdleConnections() }
