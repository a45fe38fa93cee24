// Package placement chooses CPUs for one request on one machine, and rates the choice.
//
//	index := placement.NewIndex(machine)     // once per machine
//	result, err := index.Place(free, request)
//	quality := index.Quality(cpus)
//
//	query.go      a request and free CPUs; what sums decide
//	    v
//	solve.go      designs of core and the number of NUMA nodes, as few as possible
//	    v
//	nodesets.go   the sets of that many nodes whose distance is least
//	    v
//	search.go     what each LLC and each node of them can give, and at what cost
//	    v
//	divide.go     the cheapest division over one of the sets
//	    v
//	Result, rated by Quality
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
//  7. the least fragmentation: the numbers of whole cores of these designs left free in each NUMA
//     node, in descending order, form the lexicographically largest list; then those in each LLC;
//  8. the lowest numbers: of nodes, then LLCs, then cores, then threads, each identified by its
//     lowest CPU.
//
// Criteria 1 to 7 are optimal unless the budget is exhausted ([Budget], [Result.Exact]); the tests
// compare them with an enumeration of all choices. An LLC that spans NUMA nodes counts as one in
// each. Where the powers that compare the lists of criterion 7 exceed 61 bits (as on 2 NUMA nodes of
// more than 37 cores), smaller ones or squares approximate it. Isolated CPUs are never chosen.
//
// A static-burst request gets all shared CPUs of a set of NUMA nodes that has at least n of them,
// the best one by criteria 2 and 3. Between equal sets, the quality of the best n CPUs in them
// decides.
package placement
