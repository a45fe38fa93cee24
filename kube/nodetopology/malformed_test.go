package nodetopology

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestMalformed runs testdata/malformed.txt. Each case is one or more edits of the object of a
// machine of 2 packages, each with one NUMA node and one LLC of 2 cores of 2 threads, followed by
// the indented error of the reader. An edit is "FIELD = text". The digest of all cases matches
// but where "digest" is edited.
func TestMalformed(t *testing.T) {
	const path = "testdata/malformed.txt"
	text := must.Get(os.ReadFile(path))(t)
	var got bytes.Buffer
	var obj *NodeTopology
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

func verdict(obj *NodeTopology) string {
	if _, _, err := ToMachine(obj); err != nil {
		return err.Error()
	}
	return "read"
}

// edit carries out an edit.
func edit(obj *NodeTopology, line string) error {
	name, value, ok := strings.Cut(line, " =")
	value = strings.TrimSpace(value)
	if name == "digest" {
		obj.Digest = value
		return nil
	}
	for _, part := range []any{&obj.Machine, &obj.Status} {
		structure := reflect.ValueOf(part).Elem()
		for i := range structure.NumField() {
			tag, _, _ := strings.Cut(structure.Type().Field(i).Tag.Get("json"), ",")
			if ok && tag == name {
				structure.Field(i).SetString(value)
				obj.Digest = obj.digest()
				return nil
			}
		}
	}
	return errors.New("unknown edit")
}

// TestHostile: what one agent writes about its node neither takes the scheduler long to read, nor is
// repeated at any length.
func TestHostile(t *testing.T) {
	obj := encode(t, topology.Intel104().MustBuild(), State{AgentHealth: strings.Repeat("é", maxText)})
	_, state, err := ToMachine(throughJSON(t, obj))
	if n := len(state.AgentHealth); err != nil || n > maxText || !strings.HasSuffix(state.AgentHealth, "...") {
		t.Errorf("%v, a text of %d bytes", err, n)
	}
	obj.Status.AgentHealth, obj.Machine.NUMANodes = strings.Repeat("x", 1<<20), ""
	for i := range maxParts + 1 {
		obj.Machine.NUMANodes += fmt.Sprintf("%d: ", i)
	}
	obj.Digest = obj.digest()
	if _, _, err := ToMachine(obj); err == nil || !strings.Contains(err.Error(), "more than 1024 parts") {
		t.Errorf("%d NUMA nodes: %v", maxParts+1, err)
	}
	if state, err := obj.state(); err != nil || len(state.AgentHealth) > maxText {
		t.Errorf("%v, a text of %d bytes", err, len(state.AgentHealth))
	}
}
