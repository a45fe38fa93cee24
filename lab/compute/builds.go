package compute

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// mostParts is the largest build that a request may ask for.
const mostParts = 64

// Builds is a server that runs make for each request: ?n=N compiles N parts of the project in a
// directory, with two jobs at a time. When it is ready it prints a line that ends with its address.
func Builds(ctx context.Context, project, address string, out io.Writer) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serve builds: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts, err := strconv.Atoi(r.URL.Query().Get("n"))
		if err != nil || parts < 1 || parts > mostParts {
			http.Error(w, fmt.Sprintf("n must be 1 to %d", mostParts), http.StatusBadRequest)
			return
		}
		if err := build(r.Context(), project, parts); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})}
	fmt.Fprintln(out, "building on", listener.Addr())
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); ctx.Err() == nil {
		return fmt.Errorf("serve builds: %w", err)
	}
	return nil
}

// build builds parts of a project in a new directory.
func build(ctx context.Context, project string, parts int) error {
	dir, err := os.MkdirTemp("", "pinfold-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	command := exec.CommandContext(ctx, "make", "-C", project, "-j2", "OUT="+dir, "PARTS="+strconv.Itoa(parts))
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("make: %w: %s", err, output)
	}
	return nil
}
