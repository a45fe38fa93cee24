package node

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/must"
)

// TestPartition checks that a container with exclusive CPUs is a cpuset partition: no other process
// of the machine may run on its CPUs. It remains one while the agent is killed, becomes one again
// when it is restarted or another program has written, and leaves its CPUs to the next pod.
func TestPartition(t *testing.T) {
	groups := must.Get(cgroup.Open("/"))(t)
	if err := groups.CheckPartitions(); err != nil {
		t.Skipf("%v: test/vm runs this test in a virtual machine", err)
	}
	s := settle(t, "--partition=root")
	check := func() error { return errors.Join(s.check(), s.checkPartition(cgroup.PartitionRoot)) }
	eventually(t, "settings", check)

	s.restart(t, localnode.Agent)
	if err := check(); err != nil {
		t.Errorf("after the agent was killed: %v", err)
	}
	group := s.kernel.containerGroup(s.pods["static"], "main")
	must.Do(t, os.WriteFile(s.kernel.groups.File(group, cgroup.CPUSetPartition), []byte("member"), 0))
	eventually(t, "a partition after another program has ended it", check)

	processes := must.Get(cgrouptree.ProcessesIn(s.kernel.groups.Dir(cgroup.CPUSet, group)))(t)
	must.Do(t, syscall.Kill(processes[0], syscall.SIGKILL))
	s.awaitAnotherContainer(t, "static")
	eventually(t, "a partition after the container was restarted", check)

	s.remove(t, "static")
	next := podOf("static", "static", container("main", "8001", "1"), container("side", "8002", "200m"))
	eventually(t, "the pod is gone", func() error { return s.create(t, next) })
	s.pods["static"] = s.awaitRunning(t, "static")
	eventually(t, "a partition of the next pod, which gets the same CPUs", check)
}

// checkPartition checks the partition of the container with exclusive CPUs.
func (s *settled) checkPartition(kind cgroup.Partition) error {
	pod := s.pods["static"]
	group := s.kernel.containerGroup(pod, "main")
	got, err := s.kernel.groups.ReadParts(group, cgroup.Parts{Partition: true})
	if err != nil {
		return err
	}
	if want := (cgroup.PartitionState{Kind: kind}); got.Partition != want || got.Exclusive != s.own {
		return fmt.Errorf("%s is %+v with exclusive CPUs %q, want %+v with %s", group, got.Partition, got.Exclusive, want, s.own)
	}
	tier := api.TierOf(pod)
	for group, want := range map[string]cpuset.Set{s.kernel.podGroup(pod): s.own, s.kernel.naming.Tier(tier): s.own,
		s.kernel.naming.Tier(qos.Guaranteed): s.own, s.kernel.podGroup(s.pods["limited"]): {}} {
		got, err := s.kernel.groups.ReadParts(group, cgroup.Parts{Partition: true})
		if err != nil {
			return err
		}
		if got.Partition.Is() || got.Exclusive != want {
			return fmt.Errorf("%s is %+v with exclusive CPUs %q, want a member with %q", group, got.Partition, got.Exclusive, want)
		}
	}
	own, err := allowedCPUs(os.Getpid())
	if err == nil && own.Intersects(s.own) {
		err = fmt.Errorf("this process, which is in no pod, may run on %s, of which %s belong to a partition", own, s.own)
	}
	return err
}
