package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
)

// TestIdle checks that a kubelet's and a runtime's control groups are as without an agent until a
// pod asks for CPUs, and after it has gone.
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
			paths = append(paths, c.Path)
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
