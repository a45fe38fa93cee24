package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/test/must"
)

// TestInterrupted: interrupted commands print nothing and leave nothing, not even a hidden file.
func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	dir := t.TempDir()
	for args, want := range map[string]string{
		"advise testdata/recordings/shop.csv":                                    "interrupted, and nothing is printed",
		"trace convert testdata/recordings/shop.csv -o " + dir + "/shop.parquet": "interrupted: nothing was written",
		"simulate sweep --periods 1e12 -o " + dir + "/sweep":                     "interrupted: 0 of 216 combinations were done; ",
	} {
		var stdout strings.Builder
		err := frame.Run(ctx, newRoot("pinfold"), strings.Fields(args), strings.NewReader(""), &stdout, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || frame.ExitStatus(err) != 1 || stdout.Len() > 0 {
			t.Errorf("%s: error %v, status %d, output %q", args, err, frame.ExitStatus(err), stdout.String())
		}
	}
	if left := must.Get(os.ReadDir(dir))(t); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}
