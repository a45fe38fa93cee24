package status

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/status"
)

// TestWidth: 500 pods fit in 80 columns, each once.
func TestWidth(t *testing.T) {
	for _, node := range []string{"worker-%d", "ip-10-0-12-%d.eu-west-1.compute.internal"} {
		r := &status.Report{}
		for i := range 40 {
			r.Nodes = append(r.Nodes, status.Node{Name: fmt.Sprintf(node, i)})
		}
		for i := range 500 {
			n := &r.Nodes[i%40]
			n.Containers = append(n.Containers, status.Container{Pod: fmt.Sprintf("shop/checkout-7d9f8c6b5d-%05d", i), Container: "app", CPUs: cpuset.Of(cpuset.CPU(2*i%104), cpuset.CPU(2*i%104+1))})
		}
		var out bytes.Buffer
		if err := WriteHolders(&out, r, "shop", Options{}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if len(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("too wide: %s", line)
			}
		}
		for i := range 500 {
			if name := fmt.Sprintf("shop/checkout-7d9f8c6b5d-%05d", i); strings.Count(out.String(), name) != 1 {
				t.Errorf("%s is not there once", name)
			}
		}
	}
}
