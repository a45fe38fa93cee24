// Package placement chooses CPUs for one request on one machine, and says how
// good the choice is.
//
// # Criteria
//
// A static request gets n CPUs out of a free set. Among all choices the best is,
// in this order, the one with
//
//  1. the fewest kinds of core, the faster kinds first;
//  2. the fewest NUMA nodes;
//  3. the least total distance between them;
//  4. the fewest split cores: physical cores of which it holds some online threads
//     and not others;
//  5. the fewest LLCs;
//  6. the least fragmentation: what stays free, as the descending list of whole
//     free cores per NUMA node and then per LLC, is lexicographically largest;
//  7. the lowest numbers: of nodes, then LLCs, then cores, then threads, each
//     known by its lowest CPU.
//
// Criteria 1 to 5 are optimal, not approximated, on every machine of up to 16 NUMA
// nodes; the tests compare them with an enumeration of all choices. On larger
// machines criterion 2 is still optimal, and 3 is as long as there are not more
// than 20,000 sets of that many nodes; otherwise sets are grown greedily from the
// fullest nodes and [Result.Exact] is false. Criterion 6 is optimal on regular machines when
// one NUMA node is enough; with several it is optimal but for rare arrangements of
// LLCs, and the general solver stands it in for by sums of squares. Where kinds of
// core have to be mixed, as many CPUs as criteria 2 to 5 allow are of the faster
// kind.
//
// A static-burst request gets all shared CPUs of the best NUMA nodes that have at
// least n of them, by the same criteria: what the best n CPUs in these nodes would
// be decides between nodes that are equal by criteria 2 and 3.
//
// # The closed form
//
// Criterion 2 fixes the number k of nodes (the k with the most free CPUs must have
// n), and since k is the least, every choice on k nodes touches each of them. So
// the sets of k nodes, tabulated in the order of their distance, are looked at from
// the front until one has n free CPUs; only the sets at that same distance compete.
//
// On a regular machine (one kind of core, t online threads each), the minimum of
// split cores on given nodes follows from three sums: free CPUs, whole free cores W
// and partly free cores by their free threads. Take min(W, n/t) cores whole. If
// whole cores are left over, the rest of n costs one split core at most; otherwise
// it costs as many partly free cores, fullest first, as it takes to reach it. The
// fewest LLCs are then a prefix of the LLCs by whole free cores, and since k and the
// number of LLCs are least, what remains free is less than any LLC that is used:
// which LLCs are left untouched is decided greedily from the largest down.
//
// Sets of nodes may still tie by the rooms that they leave per node. The counts of
// LLCs by whole free cores then bound the rooms that they can leave per LLC, mostly
// to a single possibility; which LLCs give what is worked out for the set that is
// chosen, and otherwise only where the bounds do not decide.
//
// Free CPUs are held as bit planes in tree order, one plane per thread, so that the
// sums are popcounts over words, and cores that give all they have are taken by the
// word.
//
// # The dynamic programme
//
// All other machines (mixed kinds or sizes of core, LLCs across NUMA nodes) and
// limits on single nodes are solved by a dynamic programme: over the cores of each
// piece of an LLC, the pieces of each node and the nodes of each set. It is slower
// by two orders of magnitude.
//
// Limits that tie some of the chosen nodes together, but not all of them, make the
// last step a search, which the solution without them bounds. It is given up after
// 100,000 steps: then [Result.Exact] is false, or, if nothing was found until then,
// the request is refused.
package placement
