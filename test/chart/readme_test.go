package chart

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/test/must"
)

// TestMountedDirectories compares the table of directories in README.md with what the agent mounts.
func TestMountedDirectories(t *testing.T) {
	text := string(must.Get(os.ReadFile(chartDir + "/README.md"))(t))
	_, table, _ := strings.Cut(text, "| directory | access | for |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	says, is := map[string]bool{}, map[string]bool{} // whether the agent writes there
	for _, row := range regexp.MustCompile("(?m)^\\| `(.*?)` \\| read( and write)?").FindAllStringSubmatch(table, -1) {
		says[row[1]] = row[2] != ""
	}
	pod := agentSets(t, render(t, "agent: {claims: numa}"))[0].Spec.Template.Spec
	for _, volume := range pod.Volumes {
		for _, mount := range pod.Containers[0].VolumeMounts {
			if mount.Name == volume.Name && volume.HostPath != nil {
				is[volume.HostPath.Path] = !mount.ReadOnly
			}
		}
	}
	if diff := cmp.Diff(is, says); diff != "" {
		t.Errorf("(-chart +README.md):\n%s", diff)
	}
}

// TestNamespaces checks that all objects are in the release's namespace, but for one in kube-system and
// those of agent.leaseNamespace.
func TestNamespaces(t *testing.T) {
	others := map[string]string{"other": "pinfold:agent", "kube-system": "pinfold:scheduler-authentication-reader"}
	all := allValues(t)
	all["second"] = "{scheduler: {enabled: false}, agent: {leaseNamespace: other}}"
	for name, values := range all {
		for _, object := range documents(t, render(t, values)) {
			if in := object.GetNamespace(); in != "" && in != namespace && object.GetName() != others[in] {
				t.Errorf("%s: %s %s is in %s", name, object.GetKind(), object.GetName(), in)
			}
		}
	}
}
