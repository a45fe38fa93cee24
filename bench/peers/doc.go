// Command peers compares Pinfold's choice of CPUs with the kubelet's: on the same machines, out of
// the same free CPUs, in the same process.
//
// # The kubelet
//
// The kubelet's own code is used: its topology manager and the static policy of its CPU manager are
// linked in and combined as in the kubelet. The machine is passed in cAdvisor's types, and the pod
// is Guaranteed. The decision starts where a scheduled pod arrives, at the topology manager's
// admission: hints for all sets of NUMA nodes, their merge, and the allocation. Writing the state
// to disk and logging are omitted. No CPU is reserved.
//
// The kubelet is asked once per [variant]: with its defaults, and with the options that bring it
// closer to Pinfold's criteria.
//
// # The comparison
//
// A question is a machine, a set of free CPUs and a number of CPUs wanted. The free sets leave 60%
// of the machine free at random, by single thread or by whole core. An answer is rated by criteria
// 2 to 5 of package placement: NUMA nodes, then distance, split cores and LLCs. (Criterion 1 is
// about kinds of core; these machines have one, and the kubelet does not distinguish kinds.
// Criteria 6 and 7 are about the remaining CPUs.) Both answers are rated by the CPUs that they
// contain.
//
// Pinfold claims to be optimal, so a single better answer of a kubelet ends the run with an error
// that names the question.
//
// Everything except the times is the same in every run. Times are CPU time: one admission of a
// kubelet; one placement by Pinfold with an existing machine index, as in its scheduler plugin, the
// mean of 100 in a row. The median is over the free sets.
package main
