package scx

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/priority"
)

// policyExt is SCHED_EXT of include/uapi/linux/sched.h.
const policyExt = 7

// passes bounds how often TurnOver lists the threads of the groups. A pass misses the threads that
// start while it lists, unless their parent has the policy already, which they inherit. The next
// pass finds them. The passes end when one changes nothing.
const passes = 4

// TurnOver gives the policy SCHED_EXT to all threads of groups and of the groups below, except
// threads with a real-time policy. It returns the number of threads whose policy it changed. It
// skips threads that end meanwhile.
func TurnOver(groups *cgroup.FS, paths []string) (turned int, err error) {
	for range passes {
		n, err := setPolicies(groups, paths, isFair, policyExt)
		turned += n
		if n == 0 || err != nil {
			return turned, err
		}
	}
	return turned, nil
}

// TurnBack gives the default policy to the threads of groups and of the groups below that have
// SCHED_EXT.
func TurnBack(groups *cgroup.FS, paths []string) error {
	for range passes {
		n, err := setPolicies(groups, paths, isExt, unix.SCHED_NORMAL)
		if n == 0 || err != nil {
			return err
		}
	}
	return nil
}

func isFair(policy uint32) bool {
	return policy == unix.SCHED_NORMAL || policy == unix.SCHED_BATCH || policy == unix.SCHED_IDLE
}

func isExt(policy uint32) bool { return policy == policyExt }

// setPolicies gives threads whose policy from accepts the policy to. It returns the number of these
// threads.
func setPolicies(groups *cgroup.FS, paths []string, from func(policy uint32) bool, to uint32) (set int, err error) {
	err = priority.EachThread(groups, paths, func(thread int) error {
		attr, err := unix.SchedGetAttr(thread, 0)
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		if err == nil && from(attr.Policy) {
			attr.Policy = to
			attr.Flags &= unix.SCHED_FLAG_RESET_ON_FORK
			err = unix.SchedSetAttr(thread, attr, 0)
			if err == nil {
				set++
			}
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("set the scheduling policy of thread %d: %w", thread, err)
		}
		return nil
	})
	return set, err
}
