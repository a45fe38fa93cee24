package node

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/test/must"
)

// kernel reads the kernel's settings of pods.
type kernel struct {
	groups *cgroup.FS
	naming kubepods.Naming
}

func openKernel(t testing.TB) kernel {
	t.Helper()
	groups := must.Get(cgroup.Open("/"))(t)
	naming := must.Get(kubepods.Find(groups, ""))(t)
	return kernel{groups, naming}
}

// settings are what a test expects of a container or pod. An empty set of CPUs is not compared.
type settings struct {
	cpus   cpuset.Set
	quota  time.Duration // bandwidth.Unlimited for no quota
	period time.Duration // 0 for 100 ms
	burst  time.Duration
}

func (k kernel) podGroup(pod *corev1.Pod) string { return k.naming.Pod(api.TierOf(pod), uidOf(pod)) }

// uidOf returns the kubelet's UID of a pod.
func uidOf(pod *corev1.Pod) string {
	if hash := pod.Annotations["kubernetes.io/config.hash"]; hash != "" {
		return hash // a static pod has an ID from the kubelet
	}
	return string(pod.UID)
}

// containerGroup returns "" while the container has no ID.
func (k kernel) containerGroup(pod *corev1.Pod, container string) string {
	for _, s := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses) {
		if s.Name == container {
			return k.naming.StatusContainer(api.TierOf(pod), uidOf(pod), s.ContainerID)
		}
	}
	return ""
}

// expectPod compares a pod's own cgroup.
func (k kernel) expectPod(pod *corev1.Pod, want settings) error {
	return k.expect(k.podGroup(pod), want)
}

// expectContainer compares a container's cgroups, and the CPUs that each of its threads may use.
func (k kernel) expectContainer(pod *corev1.Pod, container string, want settings) error {
	group := k.containerGroup(pod, container)
	if group == "" {
		return fmt.Errorf("container %s has not started: %+v", container, pod.Status.ContainerStatuses)
	}
	for _, group := range k.levels(group) {
		if err := k.expect(group, want); err != nil {
			return err
		}
	}
	threads, err := cgrouptree.Threads(k.groups, k.inside(group))
	if err != nil {
		return err
	}
	if len(threads) == 0 {
		return fmt.Errorf("%s has no threads", group)
	}
	for _, thread := range threads {
		allowed, err := allowedCPUs(thread)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended
		}
		if err == nil && !want.cpus.IsEmpty() && allowed != want.cpus {
			err = fmt.Errorf("thread %d of %s may run on %s, want %s", thread, container, allowed, want.cpus)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inside returns the cgroup that has a container's processes: with crun another one in its own.
func (k kernel) inside(group string) string { return cmp.Or(kubepods.Inner(k.groups, group), group) }

// levels returns the cgroups whose settings apply to a container.
func (k kernel) levels(group string) []string {
	return slices.Compact([]string{group, k.inside(group)})
}

// spin runs a busy process in a container's cgroup until end is called or the test ends.
func (k kernel) spin(t *testing.T, group string) (end func()) {
	t.Helper()
	command := exec.Command("sh", "-c", "while :; do :; done")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.Do(t, command.Start())
	end = sync.OnceFunc(func() { _ = command.Process.Kill(); _ = command.Wait() })
	t.Cleanup(end)
	controllers := []cgroup.Controller{cgroup.CPU}
	if k.groups.Layout().CPU == cgroup.V1 {
		controllers = append(controllers, cgroup.CPUAcct)
	}
	for _, controller := range controllers {
		file := filepath.Join(k.groups.Dir(controller, k.inside(group)), string(cgroup.Procs))
		must.Do(t, os.WriteFile(file, fmt.Append(nil, command.Process.Pid), 0))
	}
	return end
}

// expectSingle compares the cgroup of a pod that has one container, and thereby the same quota, and
// that container's.
func (k kernel) expectSingle(pod *corev1.Pod, want settings) error {
	if err := k.expectPod(pod, settings{quota: want.quota, period: want.period, burst: want.burst}); err != nil {
		return err
	}
	return k.expectContainer(pod, pod.Spec.Containers[0].Name, want)
}

func (k kernel) expect(group string, want settings) error {
	got, err := k.groups.Read(group)
	if err != nil {
		return err
	}
	if want.period == 0 {
		want.period = 100 * time.Millisecond
	}
	if got.Quota != want.quota || got.Quota != bandwidth.Unlimited && got.Period != want.period {
		return fmt.Errorf("%s: quota %v per %v, want %v per %v", group, got.Quota, got.Period, want.quota, want.period)
	}
	if got.Burst != want.burst {
		return fmt.Errorf("%s: burst %v, want %v", group, got.Burst, want.burst)
	}
	if cpus := ownCPUs(got); !want.cpus.IsEmpty() && cpus != want.cpus {
		return fmt.Errorf("%s: CPUs %s, want %s", group, cpus, want.cpus)
	}
	return nil
}

// ownCPUs returns a group's own CPUs or, if it has none, as on version 2, those of its parent.
// These include the CPUs that a partition below has.
func ownCPUs(s cgroup.Settings) cpuset.Set {
	if s.CPUs.IsEmpty() {
		return s.Effective.Union(s.Exclusive)
	}
	return s.CPUs
}

// expectNobodyElseOn checks that no other container may use some CPUs, including sandboxes.
func (k kernel) expectNobodyElseOn(cpus cpuset.Set, owner string) error {
	pods, err := k.naming.Pods(k.groups)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		for _, c := range pod.Containers {
			s, err := k.groups.Read(c.Path)
			if err != nil || c.Path == owner {
				continue // it was removed, or is the owner
			}
			if its := ownCPUs(s); its.Intersects(cpus) {
				return fmt.Errorf("%s has CPUs %s, of which %s belong to another container", c.Path, its, its.Intersection(cpus))
			}
		}
	}
	return nil
}

// allowedCPUs returns Cpus_allowed_list of a thread.
func allowedCPUs(thread int) (cpuset.Set, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread))
	if err != nil {
		return cpuset.Set{}, err
	}
	_, rest, ok := strings.Cut(string(text), "Cpus_allowed_list:")
	if !ok {
		return cpuset.Set{}, fmt.Errorf("/proc/%d/status has no Cpus_allowed_list", thread)
	}
	list, _, _ := strings.Cut(rest, "\n")
	return cpuset.Parse(strings.TrimSpace(list))
}
