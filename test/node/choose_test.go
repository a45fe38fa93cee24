package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/lab/localnode"
	"pinfold.dev/pinfold/test/must"
)

// TestChoose executes the commands of docs/choose.md on a cluster that has nothing of Pinfold and
// keeps its stock scheduler: the agent alone is installed by the chart, and a pod gets exact CPUs by
// annotation, and another one by a claim.
func TestChoose(t *testing.T) {
	requireNode(t)
	if _, err := os.Stat(filepath.Join(repositoryDir, "bin", "helm4")); err != nil {
		t.Skipf("%v: make bin/helm4", err)
	}
	p := readPage(t, repositoryDir+"/docs/choose.md")
	registry, images := readPage(t, operationsPage).images(t)
	c := startWith(t, "--stock", "--images", images+"/first")
	o := newOperator(t, c)
	o.do("mkdir -p .local/bin && ln -s $(command -v pinfold) .local/bin/kubectl-pinfold")
	for name, text := range p.files {
		o.write(name, text)
	}
	agent := o.siteValues()["agent"].(map[string]any)
	agent["kubeletDir"], agent["cdiDir"] = filepath.Join(c.dir, "node", "kubelet"), filepath.Join(c.dir, "node", "cdi")
	o.write("values.yaml", merged(t, strings.ReplaceAll(p.files["values.yaml"], "REGISTRY", registry),
		map[string]any{"apiServer": o.siteValues()["apiServer"], "agent": agent}))
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
		out = o.do(strings.TrimSpace(script.text))
		switch script.name {
		case "annotated":
			holds("annotated")
		case "status":
			if !strings.Contains(out, "annotated") || !strings.Contains(out, localnode.Name) {
				t.Errorf("the status is\n%s", out)
			}
		}
	}
	if want := `{"container":"app","cpus":"` + holds("claimed").String() + `"}`; strings.TrimSpace(out) != want {
		t.Errorf("the claim has the data %s, want %s", out, want)
	}
	o.do("kubectl delete --filename claimed.yaml")
}
