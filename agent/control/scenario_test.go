package control

import (
	"testing"

	"pinfold.dev/pinfold/test/golden"
)

// TestScenarios runs testdata/*.txt. A scenario is a sequence of blocks: commands, one
// a line, then "----" and what they print. Lines that begin with # are for the reader.
// The commands:
//
//	machine packages=1 numa=2 cores=4 threads=2 cgroup=v2 burst=none, offline CPUS, online CPUS
//	    the node's machine, with a kernel that cannot burst, and CPUs of it that go off and on
//	kubelet policy=none reserved=0 period=50ms, kubelet unknown
//	pod NAME CONTAINER...
//	    the API server has a pod of one container or more, NAME=LIMIT, followed by @
//	    and its CPUs when it is static, or by @node and its NUMA nodes; "-" is no limit;
//	    burst=JSON, koordinator=JSON and period=20ms are its words
//	resize POD CONTAINER=LIMIT, resized POD
//	    its limit changes; the kubelet has carried it out
//	remove POD
//	    the API server has it no more
//	api gone, api back
//	    while it is gone nothing of the above is seen
//	runtime POD/CONTAINER
//	    the runtime makes the group, as without NRI: all CPUs, the limit as quota; for
//	    a container that the pod does not have, a group that nobody knows
//	group POD
//	    the kubelet makes the pod's group, and the agent notices
//	other POD/NAME CONTAINER...
//	    a runtime makes a group with a name that is no container's, which these run in
//	status POD/CONTAINER
//	    the pod's status says that it runs
//	create POD/CONTAINER
//	    the runtime asks by NRI, and makes the group with what it is given
//	start POD/CONTAINER
//	    the runtime is about to start it, and tells by NRI
//	end POD/CONTAINER
//	    the container ends, and its group with it
//	write GROUP cpuset=0-3 quota=50ms period=50ms burst=10ms
//	    somebody else writes a setting
//	vanish GROUP, refuse GROUP, accept GROUP
//	    the group goes between reading and writing; the kernel refuses to move it,
//	    and does so no more
//	busy 0-3=900m
//	    a sample of usage
//	tick 30 web/main=30ms side=100ms! idle=50%
//	    so many tenths of a second in which containers use so much CPU time each, those with
//	    a mark throttled, and CPUs are idle for so long
//	stop
//	    the agent is about to end
//	restart
//	    another one starts, also where the one before was killed, with the flags of
//	agent burst=auto percent=100 quota-owner=other
//	    of which others are 300% of the limit for 60 s
//	round
//	    prints the writes in their order, and what users are told
//	groups
//	    prints what the groups hold
//	condition
//	cleanup
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		node := newFakeNode()
		got, err := golden.Blocks(text, node.run)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range node.broken {
			t.Error(b)
		}
		return got
	})
}
