// Package placement chooses CPUs for one request on one machine, and rates the choice.
//
//	index := placement.NewIndex(machine)     // once per machine
//	result, err := index.Place(free, request)
//	quality := index.Quality(cpus)
//
//	query.go      a request and free CPUs; what sums decide
//	    v
//	search.go     one NUMA node suffices, or a set of them: nodesets.go
//	    +-----------------------------------------+
//	    v                                         v
//	uniform*.go   a closed form, if all cores     general*.go   a dynamic programme for all other
//	are alike and have one or two threads         machines, two orders of magnitude slower
//	    +---------------------+-------------------+
//	                          v
//	                Result, rated by Quality
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
// Criteria 1 to 6 are optimal unless the budget is exhausted ([Budget], [Result.Exact]); the tests
// compare them with an enumeration of all choices. An LLC that spans NUMA nodes counts as one in
// each. Criterion 7 is optimal on regular machines if one NUMA node suffices. With several nodes it
// is optimal except for rare arrangements of LLCs, and the general solver approximates it by sums
// of squares. Isolated CPUs are never chosen.
//
// A static-burst request gets all shared CPUs of a set of NUMA nodes that has at least n of them,
// the best one by criteria 2 and 3. Between equal sets, the quality of the best n CPUs in them
// decides.
package placement
