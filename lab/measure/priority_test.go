package measure

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/lab/host"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/priority"
	"pinfold.dev/pinfold/linux/scx"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// TestPutBehind puts a program behind others by the mechanisms that this machine has.
func TestPutBehind(t *testing.T) {
	groups := cgrouptest.OpenHost(t)
	machine := machine{host.Machine{Groups: groups}}
	lacking := must.Get(machine.lackingPriorities(t.Context()))(t)
	for name, has := range map[experiment.Priority]func(pid int) (bool, error){
		experiment.CoreScheduling: func(pid int) (bool, error) {
			cookie, err := priority.Of(pid)
			return cookie != 0, err
		},
		experiment.SchedExt: func(pid int) (bool, error) {
			attr, err := unix.SchedGetAttr(pid, 0)
			return err == nil && attr.Policy == 7 && scx.Running() != "", err // SCHED_EXT
		},
	} {
		t.Run(string(name), func(t *testing.T) {
			if why := lacking[name]; why != "" {
				t.Skip(why)
			}
			group := fmt.Sprintf("/pinfold-lab-test-%d", os.Getpid())
			cgrouptest.Make(t, groups, group, cgroup.CPU)
			program := func() int {
				cmd := exec.Command("/proc/self/exe", "workload", "batch")
				must.Do(t, cmd.Start())
				t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
				cgrouptest.Move(t, groups, group, cmd.Process.Pid, cgroup.CPU)
				return cmd.Process.Pid
			}
			first := program()
			one := &service{Service: experiment.Service{Name: "batch", Priority: name}, replicas: []*host.Process{{Group: group}}}
			end := must.Get(controller{machine: machine, dir: t.TempDir()}.start(t.Context(), &services{all: []*service{one}}))(t)
			later := program()
			for _, pid := range []int{first, later} {
				wait.True(t, fmt.Sprintf("process %d is put behind", pid), func() bool { return must.Get(has(pid))(t) })
			}
			if err := end(); err != nil {
				t.Error(err)
			}
			if name := scx.Running(); name != "" {
				t.Errorf("the kernel still runs %s", name)
			}
		})
	}
}
