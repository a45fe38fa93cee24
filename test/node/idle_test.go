package node

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
)

// TestIdle checks that a kubelet's and a runtime's control groups are as without an agent until a
// pod asks for CPUs, and after it has gone. An agent that observes keeps them so, and says what it
// would write; no pod that asks starts on its node.
func TestIdle(t *testing.T) {
	requireNode(t)
	c := start(t)
	k := openKernel(t)
	plain := c.run(t, podOf("plain", "", container("main", "8001", "500m")))
	if err := k.expectUnbound(); err != nil {
		t.Error("before a pod asks: ", err)
	}
	if text := c.metrics(t); strings.Contains(text, "\npinfold_cgroup_writes_total") {
		t.Errorf("settings were written before a pod asked:\n%s", text)
	}
	c.run(t, podOf("static", "static", container("main", "8002", "1")))
	plain = c.awaitRunning(t, plain.Name)
	if s, err := k.groups.Read(k.containerGroup(plain, "main")); err != nil || s.CPUs.IsEmpty() || s.CPUs == must.Get(k.groups.Effective("/"))(t) {
		t.Errorf("while a pod has exclusive CPUs, another one has CPUs %q (%v)", s.CPUs, err)
	}
	c.remove(t, "static")
	eventually(t, "groups without cpusets", k.expectUnbound)
	c.down(t)

	c = start(t, "--mode=observe")
	k = openKernel(t)
	bursting := podOf("bursting", "", container("main", "8001", "500m"))
	bursting.Annotations = map[string]string{api.CPUBurstAnnotation: `{"policy":"burst"}`}
	c.run(t, bursting)
	if err := c.create(t, podOf("static", "static", container("main", "8002", "1"))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the reason why a pod that asks waits", func() error {
		static, err := c.client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "static", metav1.GetOptions{})
		if err != nil || !strings.Contains(fmt.Sprint(static.Status.Conditions), "has a Pinfold agent that only observes") {
			return errors.Join(err, fmt.Errorf("conditions %+v", static.Status.Conditions))
		}
		return nil
	})
	eventually(t, "the condition", func() error {
		is, err := c.condition(t.Context())
		if is.Reason != nodetopology.Observing {
			err = errors.Join(err, fmt.Errorf("reason %s", is.Reason))
		}
		return err
	})
	eventually(t, "what would be written", func() error {
		out, err := exec.Command(filepath.Join(programs, "pinfold-agent"), "status", "--run-dir="+c.agentFlag(t, "run-dir")).CombinedOutput()
		if text := string(out); err != nil || !strings.Contains(text, "mode observe") || !strings.Contains(text, "container main of pod default/bursting") {
			return errors.Join(err, errors.New(text))
		}
		return nil
	})
	if text := c.metrics(t); strings.Contains(text, "\npinfold_cgroup_writes_total") || !strings.Contains(text, "\npinfold_pending_groups") {
		t.Errorf("the metrics of an agent that observes:\n%s", text)
	}
	if err := k.expectUnbound(); err != nil {
		t.Error("an agent that observes: ", err)
	}
}

// expectUnbound returns an error if a group of a pod or of anything in it has CPUs of its own.
func (k kernel) expectUnbound() error {
	all, err := k.groups.Effective("/")
	if err != nil {
		return err
	}
	pods, err := k.naming.Pods(k.groups)
	for _, pod := range pods {
		paths := append([]string{pod.Path}, pod.Others...)
		for _, c := range pod.Containers {
			paths = append(paths, k.levels(c.Path)...)
		}
		for _, path := range paths {
			s, errRead := k.groups.Read(path)
			if errors.Is(errRead, cgroup.ErrGone) {
				continue
			}
			// On version 1 the kubelet and the runtime copy the CPUs of the group above.
			if bound := !s.CPUs.IsEmpty() && (k.groups.Layout().CPUSet == cgroup.V2 || s.CPUs != all); errRead != nil || bound {
				err = errors.Join(err, errRead, fmt.Errorf("%s has CPUs %q", path, s.CPUs))
			}
		}
	}
	return err
}
