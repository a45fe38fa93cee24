// Package ledger keeps the CPU books of one node: which CPUs are exclusive, to which pod, and which
// are shared. It decides whether one more pod fits, and on which CPUs.
//
//	books := ledger.New(index, config, claims...)
//	decision, err := books.Decide(ask)
//	books.Add(claim)
//
// # Books
//
// Every online CPU is either exclusive to one pod or shared, except for isolated CPUs
// ([topology.Machine.Balanced]), which are not allocated or shared. [Books] depend only on the machine,
// the [Config] and the set of [Claim]s. The order in which claims were added has no effect, so
// books rebuilt after a restart equal the books before it.
//
// Colliding claims are resolved in the order (Rank, ID). The first keeps its CPUs. A later pod
// loses all of its CPUs, runs in the shared CPUs with everything it requests, and is listed by
// [Books.Conflicts].
//
// A claim loses if it cannot be enforced: it names a CPU that an earlier claim holds, that is
// reserved, or that the machine does not have, or a NUMA node that does not exist. Insufficient
// amounts never make a claim lose. A pod that was bound whatever the books say runs whether or not
// the sums hold, and taking its CPUs away would not help. [Books.Overflow] reports the sums
// instead.
//
// A CPU that goes offline still belongs to its pod. The pod keeps its other CPUs, none of them is
// allocated to another pod, and it gets the missing CPU again when that comes back ([Books.Offline]). A
// container with no CPU online runs in the shared CPUs meanwhile.
//
// # Rules
//
// Four rules constrain decisions, the agent's and the scheduler's, for every pod, annotated or not:
//
//  1. Everything that runs in the shared CPUs, together with Config.Reserved, requests at most the
//     number of shared CPUs.
//  2. For every union U of NUMA confinements (of static-burst containers), everything confined
//     within U requests at most the shared CPUs in U.
//  3. The NUMA nodes of every static-burst pod keep at least one shared CPU. What its limits exceed
//     its requests by is not kept for it, because that costs its owner nothing.
//  4. At least Config.MinShared CPUs, and all of Config.ReservedCPUs, stay shared.
//
// Rule 2 covers exponentially many unions, so they are not checked one by one. Model the confined
// requests as sources and the NUMA nodes as sinks with the capacity of their shared CPUs, where a
// request may flow only to the nodes of its confinement. By max-flow min-cut, everything can be
// served if and only if no set A of confinements requests more than the nodes N(A) of their union
// have. Adding to A everything else confined within N(A) only strengthens the condition, and gives
// exactly rule 2 for U = N(A). So one maximum flow (flow.go, polynomial for any number of
// confinements) decides rule 2, and if it fails, the minimum cut names a violated union. Rule 1 is
// the same condition for unconfined requests, whose union is the whole machine.
//
// If the books already overflow, a decision must not make it worse: the amount of requests that
// cannot be served must not grow. Without an overflow that amount is 0, and the condition equals
// the four rules. Pods without requests, and pods that do not touch what is short, are still
// accepted.
//
// # Decisions
//
// [Books.Decide] asks package placement for the best choice among all CPUs that the rules permit.
//
// For static containers, the rules are upper bounds on the CPUs taken from unions of NUMA nodes,
// too many to list. Decide starts with the bounds of the whole machine and of each single
// confinement, places, and checks the result with the flow. If the check fails, it adds the bound
// of the union that the minimum cut names and places again. Each bound is necessary, so no
// permitted placement is excluded, and the first placement that passes is the best permitted one.
// Each round excludes a new union, so the loop ends; on real machines it takes one or two rounds.
// (No algorithm is polynomial in the number of NUMA nodes: with tiny requests confined to pairs of
// nodes of one CPU each, the problem is maximum independent set in a graph.)
//
// For static-burst pods, Decide tries candidate confinements against the flow, best first. A larger
// confinement is never harder to serve, so if any is possible, the confinement to all nodes is.
package ledger
