package node

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/test/must"
)

// reloads is the number of reloads of TestReload.
const reloads = 5

// TestReload reloads systemd repeatedly while pods come and go: when a unit starts after a reload,
// systemd writes its own values into all units. No setting may change at any time, and no partition
// may end.
func TestReload(t *testing.T) {
	if naming().Driver != kubepods.Systemd {
		t.Skip("needs a node with the cgroup driver systemd")
	}
	s := settle(t, "--partition=root")
	check := func() error { return errors.Join(s.check(), s.checkPartition(cgroup.PartitionRoot)) }
	eventually(t, "settings", check)
	for round := range reloads {
		if text, err := exec.Command("systemctl", "daemon-reload").CombinedOutput(); err != nil {
			t.Fatalf("daemon-reload: %v\n%s", err, text)
		}
		name := "new" + strconv.Itoa(round)
		pod := podOf(name, "", container("main", "8001", "200m"))
		must.Do(t, s.create(t, pod))
		running := 0 // looks
		eventually(t, "the pod runs for a while", func() error {
			if err := check(); err != nil {
				t.Errorf("reload %d: %v", round, err)
				eventually(t, "settings after a reload", check)
			}
			now, err := s.client.CoreV1().Pods(pod.Namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err == nil && now.Status.Phase == corev1.PodRunning {
				running++
			}
			if err == nil && running < 10 {
				err = fmt.Errorf("%s: %+v, %d looks", now.Status.Phase, now.Status.ContainerStatuses, running)
			}
			return err
		})
		s.remove(t, name)
	}
}
