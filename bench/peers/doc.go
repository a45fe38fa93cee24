// Command peers compares Pinfold's choice of CPUs with that of the kubelet: on the
// same machines, out of the same free CPUs, in the same process.
//
// # The peer
//
// Nothing of the kubelet is imitated: its topology manager and the static policy
// of its CPU manager are linked in and put together as the kubelet does it. The
// machine is handed over in cAdvisor's words, the pod is Guaranteed, and the
// decision starts where a pod that was scheduled arrives, at the topology
// manager's admission: hints for all sets of NUMA nodes, their merge, and the
// allocation. What the kubelet writes to disk afterwards is left out, and so are
// its log lines. No CPU is reserved.
//
// The kubelet is asked once per [variant]: as it comes, and with the options that
// bring it nearer to Pinfold's criteria.
//
// # The comparison
//
// A question is a machine, a set of free CPUs and a number of CPUs wanted. Free
// sets leave 60% of the machine free at random, by single thread or by whole core.
// An answer is judged by criteria 2 to 5 of package placement: NUMA nodes, then
// distance, split cores and LLCs. (Criterion 1 is about kinds of core, of which
// these machines have one and the kubelet knows none; 6 and 7 are about what
// stays.) Both answers are judged by what they hold, not by what was promised.
//
// Pinfold claims to be optimal, so a single better answer of a kubelet ends the
// run with an error that names the question.
//
// All but the times is the same in every run. A time is CPU time: of a kubelet's
// admission; of a placement by Pinfold with the machine's index at hand, as its
// scheduler plugin has it, the mean of 100 in a row. The median is over the free
// sets.
package main
