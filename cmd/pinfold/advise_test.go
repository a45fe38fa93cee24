package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"pinfold.dev/pinfold/cmd/internal/frame"
)

// TestInterruptedBefore: without any advice, an interrupted command prints nothing.
func TestInterruptedBefore(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var stdout, stderr bytes.Buffer
	err := frame.Run(ctx, newRoot("pinfold"), []string{"advise", "testdata/recordings/shop.csv"}, strings.NewReader(""), &stdout, &stderr)
	if err == nil || err.Error() != "interrupted, and nothing is printed" || frame.ExitStatus(err) != 1 || stdout.Len() > 0 {
		t.Errorf("error %v, status %d, output %q", err, frame.ExitStatus(err), stdout.String())
	}
}
