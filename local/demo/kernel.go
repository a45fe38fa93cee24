package demo

import (
	"fmt"

	"github.com/prometheus/procfs"
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
	return fmt.Sprintf("%s allowed on %s, last on %s, %s", threads, named(s.allowed), named(s.ran), quota)
}

// named returns CPUs as a sentence names them.
func named(cpus cpuset.Set) string {
	if cpus.Len() == 1 {
		return "CPU " + cpus.String()
	}
	return "CPUs " + cpus.String()
}

// kernel reads the state of this machine's containers.
type kernel struct {
	groups *cgroup.FS
	naming kubepods.Naming
	proc   procfs.FS
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
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, fmt.Errorf("open /proc: %w", err)
	}
	return &kernel{groups, naming, proc}, nil
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
	if cgroup.IsGone(err) {
		return seen{}, nil
	}
	if err != nil {
		return seen{}, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	s := seen{limits: settings.Limits}
	threads, err := cgrouptree.Threads(k.groups, group)
	if err != nil && !cgroup.IsGone(err) {
		return seen{}, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	for _, tid := range threads {
		if err := s.look(k.proc, tid); err != nil && !cgroup.IsGone(err) {
			return seen{}, fmt.Errorf("pod %s: thread %d: %w", pod.Name, tid, err)
		}
	}
	return s, nil
}

// look adds a thread (proc_pid_status(5), proc_pid_stat(5)).
func (s *seen) look(proc procfs.FS, tid int) error {
	thread, err := proc.Proc(tid)
	if err != nil {
		return err
	}
	status, err := thread.NewStatus()
	if err != nil {
		return err
	}
	stat, err := thread.Stat()
	if err != nil {
		return err
	}
	var allowed cpuset.Set
	for _, cpu := range status.CpusAllowedList {
		allowed.Add(cpuset.CPU(cpu))
	}
	s.add(allowed, cpuset.CPU(stat.Processor))
	return nil
}

// add adds a thread by the CPUs on which it may run, and the one on which it ran last.
func (s *seen) add(allowed cpuset.Set, last cpuset.CPU) {
	s.uneven = s.uneven || (s.threads > 0 && s.allowed != allowed)
	s.threads++
	s.allowed = s.allowed.Union(allowed)
	s.ran.Add(last)
}
