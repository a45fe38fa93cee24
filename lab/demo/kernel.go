package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/kubepods"
)

// seen is the kernel's view of the threads of a container.
type seen struct {
	threads int
	allowed cpuset.Set // on which at least one of them may run
	uneven  bool       // whether their allowed CPUs differ
	ran     cpuset.Set // on which they ran last
	limits  bandwidth.Limits
}

func (s seen) String() string {
	threads := quantity.Count(s.threads, "thread")
	if s.uneven {
		threads += " (not all the same)"
	}
	quota := "no quota"
	if s.limits.Quota != bandwidth.Unlimited {
		quota = fmt.Sprintf("quota %v per %v", s.limits.Quota, s.limits.Period)
	}
	return fmt.Sprintf("%s allowed on CPU %s, last on CPU %s, %s", threads, s.allowed, s.ran, quota)
}

// kernel reads the state of this machine's containers.
type kernel struct {
	groups *cgroup.FS
	naming kubepods.Naming
}

func openKernel() (*kernel, error) {
	groups, err := cgroup.Open("/")
	if err != nil {
		return nil, fmt.Errorf("find the cgroups: %w", err)
	}
	naming, err := kubepods.Find(groups, "")
	if err != nil {
		return nil, fmt.Errorf("find the kubelet's cgroups: %w", err)
	}
	return &kernel{groups: groups, naming: naming}, nil
}

// look returns the kernel's view of the only container of a pod, without threads if it is not
// running.
func (k *kernel) look(pod *corev1.Pod) (seen, error) {
	if len(pod.Status.ContainerStatuses) == 0 {
		return seen{}, nil
	}
	group := k.naming.StatusContainer(api.TierOf(pod), string(pod.UID), pod.Status.ContainerStatuses[0].ContainerID)
	if group == "" {
		return seen{}, nil
	}
	settings, err := k.groups.Read(group)
	if errors.Is(err, cgroup.ErrGone) {
		return seen{}, nil
	}
	if err != nil {
		return seen{}, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	s := seen{limits: settings.Limits}
	threads, err := cgrouptree.Threads(k.groups, group)
	if err != nil && !errors.Is(err, cgroup.ErrGone) {
		return seen{}, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	for _, tid := range threads {
		if err := s.add(os.DirFS("/proc"), tid); err != nil {
			return seen{}, fmt.Errorf("pod %s: thread %d: %w", pod.Name, tid, err)
		}
	}
	return s, nil
}

// add adds a thread's Cpus_allowed_list (proc_pid_status(5)) and the CPU on which it ran last
// (proc_pid_stat(5), field 39). It ignores a thread that has ended.
func (s *seen) add(proc fs.FS, tid int) error {
	status, err1 := fs.ReadFile(proc, fmt.Sprintf("%d/status", tid))
	stat, err2 := fs.ReadFile(proc, fmt.Sprintf("%d/stat", tid))
	if err1 != nil || err2 != nil {
		return nil //nolint:nilerr // threads end at any time
	}
	_, list, _ := strings.Cut(string(status), "\nCpus_allowed_list:")
	list, _, _ = strings.Cut(list, "\n")
	allowed, err := cpuset.Parse(strings.TrimSpace(list))
	if err != nil {
		return fmt.Errorf("read Cpus_allowed_list: %w", err)
	}
	// Field 3 follows the name, which is in parentheses and may contain any character.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 37 {
		return fmt.Errorf("read the last CPU: stat has %d fields after the name", len(fields))
	}
	last, err := strconv.Atoi(fields[36])
	if err != nil {
		return fmt.Errorf("read the last CPU: %w", err)
	}
	s.uneven = s.uneven || (s.threads > 0 && s.allowed != allowed)
	s.threads++
	s.allowed = s.allowed.Union(allowed)
	s.ran.Add(cpuset.CPU(last))
	return nil
}
