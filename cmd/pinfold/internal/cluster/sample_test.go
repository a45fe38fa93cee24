package cluster

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

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
