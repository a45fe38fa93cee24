package control

import (
	"testing"

	"pinfold.dev/pinfold/test/golden"
)

// TestScenarios runs testdata/*.txt. A scenario is a sequence of blocks: commands, one per line,
// then "----" and their output. Lines that begin with # are comments. The commands:
//
//	machine packages=1 numa=2 cores=4 threads=2 cgroup=v2 burst=none|off partitions=none, offline CPUS,
//	online CPUS
//	    sets the machine and a kernel without burst or partitions; CPUs go offline and online
//	kubelet policy=none reserved=0 period=50ms groups=none, kubelet unknown
//	    sets the kubelet's configuration
//	pod NAME CONTAINER...
//	    adds a pod to the API server. A container is NAME=LIMIT ("-" for no limit), followed by
//	    @CPUS if it is static or @nodeNODES if it is static-burst, or by @? if it asks for CPUs that
//	    no scheduler has chosen, with a request of its limit, or with @?1 of 1. policy=static-burst
//	    and full-cores=required are annotations, too. burst=JSON, koordinator=JSON, period=20ms and
//	    move=false are annotations, and qos=BE is a label. The QoS class is Burstable without
//	    tier=BestEffort
//	resize POD CONTAINER=LIMIT, request POD CONTAINER=REQUEST, deferred POD, infeasible POD, resized POD
//	    changes a limit, and the request if there is one; changes the request; the kubelet has deferred
//	    or refused the change; it has carried it out
//	edit POD
//	    changes another field of the spec, which the kubelet has not seen yet
//	asks POD false, asks POD true
//	    the pod asks for no CPUs any more; it asks again
//	claim POD app=4@numa-0 app=2@numa-1,required init=app of=OTHER, forfeit POD ..., unclaim POD
//	    the kubelet prepares the pod's resource claim, which has the name of the pod or of another:
//	    with 4 CPUs of a NUMA node and 2 full cores' of another for a container, whose CPUs an init
//	    container shares; the agent looks whether the pod never gets them; the kubelet no longer needs
//	    the claim
//	class POD LS, class POD
//	    changes or removes the label
//	done POD
//	    all containers of the pod have ended for good
//	remove POD
//	    removes a pod from the API server
//	mirror POD, static asked, static fails
//	    the pod is the mirror pod of a static pod, or a new one of it; the kubelet is asked for its static
//	    pods, and answers or not
//	api gone, api back
//	    while the API server is gone, the agent does not see the changes above
//	node unread, node read
//	    agents that start have not read the Node object; they have
//	updated POD/CONTAINER
//	    the kubelet updates the container: the agent tells the runtime no raised quota, which the kubelet
//	    would take for the limit
//	runtime POD/CONTAINER
//	    the runtime makes a cgroup without NRI: with all CPUs, and the limit as quota. If the pod has
//	    no such container, the cgroup is unknown
//	group POD
//	    the kubelet makes the pod's cgroup, and the agent notices
//	other POD/NAME CONTAINER...
//	    a runtime makes a cgroup whose name is not a container's, and these containers run in it
//	status POD/CONTAINER
//	    the pod's status shows that the container runs
//	create POD/CONTAINER
//	    the runtime asks by NRI, and makes the cgroup with the answer
//	start POD/CONTAINER
//	    the runtime tells by NRI that it is about to start the container
//	end POD/CONTAINER
//	    the container and its cgroup end
//	write GROUP cpuset=0-3 quota=50ms period=50ms burst=10ms idle=1 bvt=-1 partition=member exclusive=0
//	    another program writes settings
//	vanish GROUP, refuse GROUP, unpartition GROUP, accept GROUP
//	    the cgroup disappears between reading and writing; the kernel refuses to move it; a partition
//	    of it is invalid; and no more
//	affinity POD/CONTAINER CPUS, inner POD/CONTAINER
//	    its threads have inherited an affinity, or without CPUs nothing runs in its cgroup; its runtime
//	    makes a group in it with its settings
//	take CPUS
//	    a partition elsewhere takes CPUs
//	wait 1m
//	    time passes
//	tick 30 web/main=30ms side=100ms! idle=50% others=2.5
//	    30 ticks of 100 ms, in each of which the containers use this CPU time, those with ! are
//	    throttled, and CPUs are idle for this share of the time; of a pod with idle priority, its
//	    name alone; others is the CPUs that all but batch pods use, others=? if that is not known
//	stop
//	    the agent is about to end
//	restart
//	    an agent starts after the last one has ended or was killed. It has the flags of
//	agent burst=auto percent=100 quota-owner=other partition=root batch-priority=idle batch=65% mode=observe on-failure=refuse min-shared=1 repack=cores
//	    quota-percent is 300 and quota-burst-seconds 60; the least budget of batch pods is 0.5 CPUs
//	round
//	    prints the writes in their order, and what users are told
//	groups
//	    prints the settings of all cgroups
//	given
//	    prints what the agent has given to pods
//	devices
//	    prints how many CPUs claims can have of each NUMA node
//	disk full, disk free, forget, cut
//	    the agent cannot save this, and can again; what it has saved is lost, or cut off
//	keep, revert
//	    an administrator copies what is saved, and brings it back
//	pending
//	    prints what an agent that observes would write
//	condition
//	    prints the node's condition
//	lost
//	    prints how many pods have lost their CPUs
//	cleanup
//	    prints the writes of a cleanup
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		node := newFakeNode()
		got := golden.Blocks(t, text, node.run)
		for _, b := range node.broken {
			t.Error(b)
		}
		return got
	})
}
