// Package ledger keeps the CPU books of one node: which CPUs are exclusive, to which pod, and which
// are shared. It decides whether one more pod fits, and on which CPUs.
//
//	books := ledger.New(index, config, claims...)
//	decision, err := books.Decide(ask)       // the best CPUs that the rules permit
//	books.Add(decision.Claim(id, rank))
//
// Every online CPU is exclusive to one pod or shared, or isolated ([topology.Machine.Balanced]). What
// static-burst pods request of their NUMA nodes is divided into an amount for each node, and static
// pods take whole CPUs of what is available:
//
//	NUMA node 0  [ exclusive | amounts of confined pods | available ]
//	NUMA node 1  [ exclusive                  | amounts | available ]
//	machine      [ exclusive | requests of all pods in the shared CPUs, Config.Reserved | available ]
//
// [Books] depend only on the machine, the [Config] and the set of [Claim]s. The order in which claims
// were added has no effect, so books rebuilt after a restart equal the books before it.
//
// # Rules
//
// They constrain decisions, the agent's and the scheduler's, for every pod, annotated or not:
//
//  1. Everything that runs in the shared CPUs, together with Config.Reserved, requests at most the
//     number of shared CPUs.
//  2. On every NUMA node, the amounts are at most its shared CPUs.
//  3. The NUMA nodes of every static-burst pod keep at least one shared CPU. What its limits exceed
//     its requests by is not kept for it, because that costs its owner nothing.
//  4. At least Config.MinShared CPUs, and all of Config.ReservedCPUs, stay shared.
//
// A pod that was bound whatever the books say runs whether or not the sums hold, and taking its CPUs
// away would not help. [Books.Overflow] reports the sums, and no decision makes them worse: pods that
// do not touch what is short are still accepted.
//
// # Conflicts
//
// Colliding claims are resolved in the order (Rank, ID). The first keeps its CPUs. A later pod loses
// all of its CPUs, runs in the shared CPUs with everything it requests, and is listed by
// [Books.Conflicts], like one whose claim cannot be enforced: it names a CPU that is reserved, or a
// CPU or NUMA node that the machine does not have. A CPU that goes offline still belongs to its pod
// ([Books.Offline]).
package ledger
