package cluster

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestOtherStream: an agent of another version may send something else.
func TestOtherStream(t *testing.T) {
	o := &sampleOptions{}
	o.output.Name = filepath.Join(t.TempDir(), "a.csv")
	if err := o.record(bytes.NewReader([]byte("time,group,interval_ns,usage_ns\n")), io.Discard, io.Discard); err == nil {
		t.Error("CSV is a journal")
	}
}

func TestPodNames(t *testing.T) {
	for want, args := range map[string][]string{
		"":                           {"web"},
		"0 pods are named":           {},
		"2 pods are named":           {"a", "b"},
		"give -n shop web":           {"shop/web"},
		"1 pods are named: give one": {""},
	} {
		cmd := &cobra.Command{}
		(&podOptions{}).addFlags(cmd)
		if err := cmd.Args(cmd, args); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
