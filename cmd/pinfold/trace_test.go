package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/files"
	"pinfold.dev/pinfold/test/must"
)

// TestInterruptedConversion leaves nothing behind, not even a hidden file.
func TestInterruptedConversion(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "a.csv")
	must.Do(t, os.WriteFile(from, []byte("time,group,interval_ns,usage_ns\n2026-01-01T00:00:01Z,/a,1000000000,1\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	err := frame.Run(ctx, newRoot("pinfold"), []string{"trace", "convert", from, "-o", filepath.Join(dir, "a.parquet")}, nil, &stdout, &stderr)
	if !errors.Is(err, files.ErrInterrupted) || frame.ExitStatus(err) != 1 {
		t.Errorf("error %v, want %v", err, files.ErrInterrupted)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files are left, want only the input: %v %v", len(entries), entries, err)
	}
}
