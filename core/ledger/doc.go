// Package ledger keeps one node's books: which CPUs are exclusive, to whom, and
// which are shared; and it answers whether, and where, one more pod can be taken.
//
// # Books
//
// Every online CPU is either exclusive to one pod or shared. The [Books] are a
// function of the machine, the [Config] and the set of [Claim]s, and of nothing
// else: the order in which claims were added and removed leaves no trace, so
// books rebuilt after a restart are the books of before. Claims that collide are
// settled in the order (Rank, ID): the first keeps its CPUs, and a later pod
// loses all of its own, lives in the shared CPUs with everything it requests,
// and is listed by [Books.Conflicts].
//
// What makes a claim lose is that it cannot be enforced: a CPU that an earlier
// claim holds, that is reserved, or that the machine does not have; a NUMA node
// that is not there. Amounts never do. A pod that came in beside the scheduler is running
// whether or not the sums come out, and taking its CPUs away would help nobody;
// [Books.Overflow] reports the sums instead.
//
// A CPU that goes offline stays whose it is. Its pod keeps its other CPUs for
// itself, nobody else is given any of them, and it has the one that is missing
// again when it comes back ([Books.Offline]). A container without any CPU online
// lives in the shared CPUs meanwhile.
//
// # Rules
//
// Four rules bind what the scheduler decides, for every pod, annotated or not:
//
//  1. What lives in the shared CPUs, together with Config.Reserved, requests no
//     more than there are shared CPUs.
//  2. For every union U of NUMA confinements (of static-burst containers), what
//     is confined within U requests no more than the shared CPUs in U.
//  3. The NUMA nodes of every static-burst pod keep at least as many shared CPUs
//     as the limits of those of its containers together that run at the same time.
//  4. At least Config.MinShared CPUs stay shared, and Config.ReservedCPUs do.
//
// Rule 2 ranges over exponentially many unions, so it is not checked one by one.
// Think of the confined requests as sources, of NUMA nodes as sinks that take
// what their shared CPUs can serve, and let a request flow to the nodes of its
// confinement only. By max-flow min-cut, everything can be served if and only if
// no set A of confinements requests more than the nodes N(A) of their union have;
// adding to A whatever else is confined within N(A) only makes the condition
// stronger, and gives exactly rule 2 for U = N(A). So one maximum flow (file
// flow.go, polynomial, however many confinements there are) decides rule 2, and
// when it fails the minimum cut names a union that is broken. Rule 1 is the same
// condition for what is not confined, whose union is the whole machine.
//
// When the books overflow already, a decision must not make it worse: the amount
// of requests that cannot be served must not grow. Without an overflow that
// amount is 0, and this is the four rules. It lets pods without requests, and
// those that touch nothing that is short, still come in.
//
// # Decisions
//
// [Books.Decide] has package placement choose among all CPUs that the rules
// leave. For static containers the rules are upper bounds on what may be taken
// from unions of NUMA nodes, too many to list. It lists those of the whole
// machine and of each single confinement, places, checks the outcome by the
// flow, and when that fails adds the bound of the union that the minimum cut
// names and places again. Each bound is necessary, so no permitted placement is
// ever excluded, and the first placement that passes is the best of all
// permitted ones. Each round excludes a union that was not excluded before, so
// the rounds end; on real machines one or two do. (No algorithm is polynomial in
// the number of NUMA nodes here: with tiny requests confined to pairs of nodes of
// one CPU each, the question is for a largest independent set of a graph.)
//
// A static-burst confinement is chosen by asking the flow about each candidate,
// best first. A larger confinement is never harder to serve, so when any is
// possible the one of all nodes is.
package ledger
