package nodetopology

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/golden"
)

// TestMalformed runs testdata/malformed.txt. Each case is one or more edits of the object of a
// machine of 2 packages, each with one NUMA node and one LLC of 2 cores of 2 threads, followed by
// the indented error of the reader. Zone "." is the object itself, and "" stands for empty text.
func TestMalformed(t *testing.T) {
	const path = "testdata/malformed.txt"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	var obj *v1alpha2.NodeResourceTopology
	m := topology.Shape{Packages: 2, CoresPerLLC: 2, ThreadsPerCore: 2, Numbering: topology.SiblingsAdjacent}.MustBuild()
	finish := func() {
		if obj != nil {
			fmt.Fprintf(&got, "    %s\n", verdict(obj))
		}
		obj = nil
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "    "):
			finish()
			continue
		case line == "" || strings.HasPrefix(line, "#"):
			finish()
		default:
			if obj == nil {
				obj = encode(t, m, someState)
			}
			if err := edit(obj, line); err != nil {
				t.Fatalf("%s: %s: %v", path, line, err)
			}
		}
		fmt.Fprintln(&got, line)
	}
	finish()
	golden.Compare(t, path, got.String())
}

func verdict(obj *v1alpha2.NodeResourceTopology) string {
	_, _, err := ToMachine(obj)
	var foreign *ForeignError
	switch {
	case err == nil:
		return "read"
	case errors.As(err, &foreign) != errors.Is(err, ErrForeign):
		return fmt.Sprintf("error of unexpected type %T: %v", err, err)
	}
	return err.Error()
}

// edit applies one line of a transcript to an object.
func edit(obj *v1alpha2.NodeResourceTopology, line string) error {
	f := strings.Fields(line)
	for i := range f {
		f[i] = strings.ReplaceAll(strings.Trim(f[i], `"`), "_", " ")
	}
	switch {
	case f[0] == "unlabel":
		obj.Labels = nil
		return nil
	case f[0] == "drop" && len(f) == 2:
		obj.Zones = slices.DeleteFunc(obj.Zones, func(z v1alpha2.Zone) bool { return z.Name == f[1] })
		return nil
	case f[0] == "copy":
		z := *zoneNamed(obj, f[1])
		z.Name, z.Type = f[2], f[3]
		obj.Zones = append(obj.Zones, z)
		return nil
	case f[0] == "strip":
		for i := range obj.Zones {
			obj.Zones[i].Attributes = nil
		}
		return nil
	}
	attributes := &obj.Attributes
	z := zoneNamed(obj, f[1])
	if z != nil {
		attributes = &z.Attributes
	}
	switch f[0] {
	case "drop":
		*attributes = slices.DeleteFunc(*attributes, func(a v1alpha2.AttributeInfo) bool { return a.Name == attrPrefix+f[2] })
	case "add":
		*attributes = append(*attributes, attribute(attrPrefix+f[2], f[3]))
	case "set":
		i := slices.IndexFunc(*attributes, func(a v1alpha2.AttributeInfo) bool { return a.Name == attrPrefix+f[2] })
		(*attributes)[i].Value = f[3]
	case "parent":
		z.Parent = f[2]
	case "cost":
		value, err := strconv.ParseInt(f[3], 10, 64)
		z.Costs = slices.DeleteFunc(z.Costs, func(c v1alpha2.CostInfo) bool { return c.Name == f[2] && err == nil })
		z.Costs = append(z.Costs, v1alpha2.CostInfo{Name: f[2], Value: value})
	case "uncost":
		z.Costs = slices.DeleteFunc(z.Costs, func(c v1alpha2.CostInfo) bool { return c.Name == f[2] })
	default:
		return errors.New("unknown edit")
	}
	return nil
}

func zoneNamed(obj *v1alpha2.NodeResourceTopology, name string) *v1alpha2.Zone {
	i := slices.IndexFunc(obj.Zones, func(z v1alpha2.Zone) bool { return z.Name == name })
	if i < 0 {
		return nil
	}
	return &obj.Zones[i]
}
