package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/kube/api"
)

// TestMessages creates the pods of testdata/messages. The first line of each file is what the user
// sees: the message of a waiting pod, or the number of CPUs of each container.
func TestMessages(t *testing.T) {
	files, err := filepath.Glob("testdata/messages/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			c := begin(t)
			text, err := os.ReadFile(file)
			c.must(err)
			first, _, _ := strings.Cut(string(text), "\n")
			name := c.create(string(text)).Name
			if message, ok := strings.CutPrefix(first, "# waits: "); ok {
				c.waits(name, message)
				return
			}
			want, ok := strings.CutPrefix(first, "# bound:")
			if !ok {
				t.Fatalf("%s: the first line has neither waits nor bound", file)
			}
			a, err := api.AllocationOf(c.bound(name))
			c.must(err)
			var got []string
			if a != nil {
				for _, part := range a.Containers {
					got = append(got, fmt.Sprintf("%s=%d", part.Name, part.CPUs.Len()))
				}
			}
			slices.Sort(got)
			if got := strings.Join(got, " "); got != strings.TrimSpace(want) {
				t.Errorf("got %q, want %q", got, want)
			}
			c.checkBooks()
		})
	}
}

// TestEditedWords: a pod whose annotations are corrected is tried again immediately.
func TestEditedWords(t *testing.T) {
	c := begin(t)
	c.create(`
metadata: {name: asks, annotations: {cpuset-scheduler: "true", cpu-policy: dynamic}}
spec:
  containers: [{name: app, image: app, resources: {limits: {cpu: 2}}}]
`)
	c.waits("asks", `"dynamic"`)
	c.annotate("asks", "cpu-policy", "static")
	c.allocation(c.bound("asks"))
}
