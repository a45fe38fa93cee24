package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/test/must"
)

// TestChoose executes the commands of docs/choose.md on a cluster that has nothing of Pinfold and
// keeps its stock scheduler: the agent alone is installed by the chart, and a pod gets exact CPUs by
// annotation, and another one by a claim. Its values are those of the page and of docs/local.md. It is
// removed only when no pod has a claim.
func TestChoose(t *testing.T) {
	requireNode(t)
	if _, err := os.Stat(filepath.Join(repositoryDir, "bin", "helm4")); err != nil {
		t.Skipf("%v: make bin/helm4", err)
	}
	p := readPage(t, repositoryDir+"/docs/choose.md")
	from := publish(t, firstVersion)
	c := startWith(t, "--stock", "--images", from.images(firstVersion))
	o := newOperator(t, c, from.variables()...)
	for name, text := range p.files {
		o.write(name, text)
	}
	o.write("values.yaml", merged(t, p.files["values.yaml"], o.siteValues()))
	k := openKernel(t)
	holds := func(name string) (cpus cpuset.Set) {
		pod := c.awaitRunning(t, name)
		cpus = must.Get(k.groups.Read(k.containerGroup(pod, "app")))(t).CPUs
		if cpus.Len() != 1 {
			t.Fatalf("pod %s has CPUs %q", name, cpus)
		}
		eventually(t, "what the kernel has", func() error {
			return k.expectContainer(pod, "app", settings{cpus: cpus, quota: bandwidth.Unlimited})
		})
		return cpus
	}
	var out string
	for _, script := range p.scripts {
		if out = o.do(strings.TrimSpace(script.text)); script.name == "annotated" {
			holds("annotated")
		}
	}
	if want := `{"container":"app","cpus":"` + holds("claimed").String() + `"}`; strings.TrimSpace(out) != want {
		t.Errorf("the claim has the data %s, want %s", out, want)
	}
	const uninstall = "helm uninstall pinfold --namespace pinfold-system --timeout 2m --wait"
	if out, err := o.try(uninstall); err == nil || !strings.Contains(out, "pod default/claimed") || !strings.Contains(out, "delete them, and uninstall again") {
		t.Errorf("while a pod has a claim, %s: %v\n%s", uninstall, err, out)
	}
	o.do("kubectl delete --filename claimed.yaml") // by the agent, which still runs
	o.do(uninstall)
}
