// Package placement chooses CPUs for one request on one machine, and rates the choice.
//
//	index := placement.NewIndex(machine)     // once per machine
//	result, err := index.Place(free, request)
//	quality := index.Quality(cpus)
//
// # Criteria
//
// A static request gets n CPUs out of a free set. The best choice has, in this order of priority:
//
//  1. the fewest designs of core (of a hybrid machine), faster designs first;
//  2. the fewest NUMA nodes;
//  3. the least total distance between them;
//  4. the fewest split cores: physical cores of which it has some but not all online threads;
//  5. the fewest LLCs;
//  6. the fastest cores: as few CPUs as possible are of a slower kind. Cores of one design can be of
//     different kinds, too, by their clock ([topology.ClockKind]);
//  7. the least fragmentation: the numbers of whole cores left free in each NUMA node, in
//     descending order, form the lexicographically largest list; then those in each LLC;
//  8. the lowest numbers: of nodes, then LLCs, then cores, then threads, each identified by its
//     lowest CPU.
//
// Criteria 1 to 7 are optimal unless the budget is exhausted ([Budget], [Result.Exact]); the tests
// compare them with an enumeration of all choices. An LLC that spans NUMA nodes counts as one in
// each. Where the powers that compare the lists of criterion 7 exceed 61 bits (as on 2 NUMA nodes of
// more than 37 cores), sums of squares approximate it. Isolated CPUs are never chosen.
//
// A static-burst request gets all shared CPUs of a set of NUMA nodes that has at least n of them,
// the best one by criteria 2 and 3. Between equal sets, the quality of the best n CPUs in them
// decides.
//
// # Sets of NUMA nodes
//
// Criterion 2 fixes the number k of nodes: the k nodes with the most free CPUs must have n. Since k
// is minimal, every choice on k nodes uses each of them. The sets of k nodes at the least distance
// are found by a depth-first search with bounds on CPUs and distance (nodesets.go). The other
// criteria decide between these. If none is possible because of limits, the next distance follows,
// then one node more.
//
// # The dynamic programme
//
// Every other criterion is a sum over cores, so the least cost of each number of CPUs is found by
// dynamic programming: over the classes of alike cores in each piece (the part of an LLC in one NUMA
// node), the pieces of each node and the nodes of each set. Three things make it fast:
//
//   - pieces with equally many cores of each class have one table, which one question computes once;
//   - a node must give what the fullest other nodes cannot, so tables begin there and not at 0;
//   - sets of nodes that begin with the same nodes share what these cost.
//
// Limits that cover some of the chosen nodes but not all of them turn the last step into a search,
// bounded by the solution without them.
//
// # The budget
//
// With such limits the problem has no polynomial solution (see package ledger), and without them the
// number of sets of nodes is exponential. So all searches of a decision share a [Budget]. When it is
// exhausted, [Result.Exact] is false or, if nothing was found, the request is rejected
// ([InsufficientError.GaveUp]).
package placement
