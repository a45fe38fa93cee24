// Command peers compares Pinfold's choice of CPUs with the kubelet's: on the same machines, out of
// the same free CPUs, in the same process.
//
// # The kubelet
//
// The kubelet's own code is used; see package kubelet. No CPU is reserved. The kubelet is asked
// once per [kubelet.Variant]: with its defaults, and with the options that bring it closer to
// Pinfold's criteria.
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
