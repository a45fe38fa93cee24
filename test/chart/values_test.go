package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// value is a leaf of values.yaml: what a user sets, with the comment above it.
type value struct{ path, comment, preset string }

// scalars returns the values below a node.
func scalars(t *testing.T, path string, node *yaml.Node) (all []value) {
	t.Helper()
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, below := node.Content[i], node.Content[i+1]
		name := strings.TrimPrefix(path+"."+key.Value, ".")
		if below.Kind == yaml.MappingNode && below.Style&yaml.FlowStyle == 0 && key.HeadComment == "" || slices.Contains(sections(), name) {
			all = append(all, scalars(t, name, below)...)
			continue
		}
		comment := strings.Join(strings.Fields(strings.ReplaceAll("\n"+key.HeadComment, "\n#", " ")), " ")
		if comment == "" {
			t.Errorf("values.yaml: %s has no comment above it", name)
		}
		all = append(all, value{name, comment, flow(t, below)})
	}
	return all
}

// sections returns the maps that have a comment and of which users set single values.
func sections() []string { return []string{"agent.burst"} }

// flow returns a node in one line.
func flow(t *testing.T, node *yaml.Node) string {
	t.Helper()
	one := *node
	one.Style |= yaml.FlowStyle
	one.HeadComment, one.FootComment = "", ""
	text := must.Get(yaml.Marshal(&one))(t)
	return strings.TrimSpace(string(text))
}

func values(t *testing.T) []value {
	t.Helper()
	text := must.Get(os.ReadFile(chartDir + "/values.yaml"))(t)
	var document yaml.Node
	must.Do(t, yaml.Unmarshal(text, &document))
	return scalars(t, "", document.Content[0])
}

// TestReadme compares the table of values in the chart's README.md with values.yaml.
func TestReadme(t *testing.T) {
	const file, begin = chartDir + "/README.md", "| value | default | meaning |\n|---|---|---|\n"
	text := must.Get(os.ReadFile(file))(t)
	before, rest, ok := strings.Cut(string(text), begin)
	if !ok {
		t.Fatalf("%s has no table %q", file, begin)
	}
	_, after, _ := strings.Cut(rest, "\n\n")
	var rows strings.Builder
	for _, v := range values(t) {
		fmt.Fprintf(&rows, "| `%s` | `%s` | %s |\n", v.path, v.preset, strings.ReplaceAll(v.comment, "|", `\|`))
	}
	golden.Compare(t, file, before+begin+rows.String()+"\n"+after)
}

// schema is a part of values.schema.json.
type schema struct {
	Reference            string             `json:"$ref"`
	Type                 any                `json:"type"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties json.RawMessage    `json:"additionalProperties"`
	Enum                 []any              `json:"enum"`
}

// TestBurstModes checks that the schema and the manual have each mode.
func TestBurstModes(t *testing.T) {
	var all struct {
		Definitions map[string]schema `json:"definitions"`
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(chartDir+"/values.schema.json"))(t), &all))
	if got, want := fmt.Sprint(all.Definitions["burst"].Properties["policy"].Enum), fmt.Sprint(burst.Modes()); got != want {
		t.Errorf("the schema has the policies %s, and there are %s", got, want)
	}
	manual := string(must.Get(os.ReadFile("../../docs/agent.md"))(t))
	for _, m := range burst.Modes() {
		if !strings.Contains(manual, fmt.Sprintf("\n| `%s` | ", m)) {
			t.Errorf("the table of policies in docs/agent.md has no row for %s", m)
		}
	}
}

// TestSchema checks that the schema describes exactly the values of values.yaml, and that every
// object with properties rejects others.
func TestSchema(t *testing.T) {
	text := must.Get(os.ReadFile(chartDir + "/values.schema.json"))(t)
	var all struct {
		schema
		Definitions map[string]*schema `json:"definitions"`
	}
	must.Do(t, json.Unmarshal(text, &all))
	var described []string
	var walk func(path string, s *schema)
	walk = func(path string, s *schema) {
		if s.Reference != "" {
			name := filepath.Base(s.Reference)
			if s = all.Definitions[name]; s == nil {
				t.Fatalf("%s: there is no definition %s", path, name)
			}
		}
		if len(s.Properties) > 0 && string(s.AdditionalProperties) != "false" {
			t.Errorf("%s accepts unknown names: set additionalProperties to false", path)
		}
		described = append(described, path)
		for name, one := range s.Properties {
			walk(strings.TrimPrefix(path+"."+name, "."), one)
		}
	}
	walk("", &all.schema)
	for _, v := range values(t) {
		if !slices.Contains(described, v.path) {
			t.Errorf("the schema does not describe %s", v.path)
		}
		// What is inside a value that is set as a whole, and what leads to a value.
		described = slices.DeleteFunc(described, func(path string) bool {
			return path == v.path || strings.HasPrefix(path, v.path+".") || strings.HasPrefix(v.path, path+".")
		})
	}
	described = slices.DeleteFunc(described, func(path string) bool { return path == "" || path == "global" })
	if len(described) > 0 {
		t.Errorf("values.yaml does not have %q, which the schema describes", described)
	}
	for _, name := range slices.Sorted(maps.Keys(all.Definitions)) {
		if !strings.Contains(string(text), `"#/definitions/`+name+`"`) {
			t.Errorf("definition %s is not used", name)
		}
	}
}
