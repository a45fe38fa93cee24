package cluster

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/test/must"
)

func TestPodNames(t *testing.T) {
	for want, args := range map[string][]string{
		"":                           {"web"},
		"0 pods are named":           {},
		"2 pods are named":           {"a", "b"},
		"give -n shop web, or shop":  {"shop/web"},
		"give its name alone":        {"web/main", "-n", "shop"},
		"1 pods are named: give one": {""},
	} {
		cmd := &cobra.Command{}
		(&podOptions{}).addFlags(cmd)
		must.Do(t, cmd.ParseFlags(args))
		if err := cmd.Args(cmd, cmd.Flags().Args()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
