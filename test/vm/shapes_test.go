package vm

import (
	"pinfold.dev/pinfold/core/cpuset"
)

// named is a shape with the name of its capture in linux/sysfs/testdata.
type named struct {
	name, about string
	Shape
}

// mainShape is the machine for all tests: two packages, each with two NUMA nodes (sub-NUMA
// clustering) of two cores with two threads.
var mainShape = named{
	name:  "sub-numa",
	about: "Two packages of two NUMA nodes each, with one L3 for both; cores of two threads.",
	Shape: Shape{Packages: 2, Dies: 1, Cores: 4, Threads: 2,
		Nodes: []Node{
			{CPUs: cpuset.Range(0, 3), MiB: 512}, {CPUs: cpuset.Range(4, 7), MiB: 512},
			{CPUs: cpuset.Range(8, 11), MiB: 512}, {CPUs: cpuset.Range(12, 15), MiB: 512},
		},
		Distances: [][]int{{10, 12, 21, 23}, {12, 10, 23, 21}, {21, 23, 10, 12}, {23, 21, 12, 10}}},
}

// oddShape is the name of the other shape that is booted in each run: it has CPUs that are offline and
// isolated, which only a guest shows.
const oddShape = "offline-isolated"

// shapes are the other machines.
var shapes = []named{
	{
		name:  "dies",
		about: "Two packages of two dies with an L3 each, a NUMA node per package; cores of one thread.",
		Shape: Shape{Packages: 2, Dies: 2, Cores: 2, Threads: 1,
			Nodes:     []Node{{CPUs: cpuset.Range(0, 3), MiB: 512}, {CPUs: cpuset.Range(4, 7), MiB: 512}},
			Distances: [][]int{{10, 21}, {21, 10}}},
	},
	{
		name:  "eight-nodes",
		about: "Two packages of four NUMA nodes, a core of two threads each.",
		Shape: Shape{Packages: 2, Dies: 1, Cores: 4, Threads: 2, Nodes: eightNodes(), Distances: eightDistances()},
	},
	{
		name:  "no-srat",
		about: "Two packages of which firmware does not say how memory is attached: one NUMA node.",
		Shape: Shape{Packages: 2, Dies: 1, Cores: 2, Threads: 2},
	},
	{
		name:  "memory-only",
		about: "Two NUMA nodes with CPUs and two of memory only, each nearest to one of those by its distances.",
		Shape: Shape{Packages: 2, Dies: 1, Cores: 2, Threads: 1,
			Nodes: []Node{{CPUs: cpuset.Range(0, 1), MiB: 512}, {CPUs: cpuset.Range(2, 3), MiB: 512}, {MiB: 256}, {MiB: 256}},
			Distances: [][]int{
				{10, 21, 17, 28}, {21, 10, 28, 17}, {17, 28, 10, 28}, {28, 17, 28, 10},
			}},
	},
	{
		name: "memory-only-initiators",
		about: "Two NUMA nodes with CPUs and two of memory only, whose initiators the firmware names (HMAT):\n" +
			"node 2 belongs to node 1, which the distances do not say.",
		Shape: Shape{Packages: 2, Dies: 1, Cores: 2, Threads: 1,
			Nodes: []Node{{CPUs: cpuset.Range(0, 1), MiB: 512}, {CPUs: cpuset.Range(2, 3), MiB: 512},
				{MiB: 256, Initiators: []int{1}}, {MiB: 256, Initiators: []int{0}}},
			Distances: [][]int{
				{10, 21, 17, 17}, {21, 10, 17, 17}, {17, 17, 10, 28}, {17, 17, 28, 10},
			}},
	},
	{
		name:  "offline-isolated",
		about: "Offline: the second thread of core 1, both threads of core 3 and all of NUMA node 3. Isolated: core 2.",
		Shape: Shape{Packages: 2, Dies: 1, Cores: 4, Threads: 2,
			Offline: cpuset.MustParse("3,6-7,12-15"), Isolated: cpuset.MustParse("4-5"),
			Nodes: mainShape.Nodes, Distances: mainShape.Distances},
	},
	{
		name:  "asymmetric",
		about: "A package of four cores and one of which three cores are not there, as if it had another processor in it.",
		Shape: Shape{Packages: 2, Dies: 1, Cores: 4, Threads: 2, Empty: 6,
			Nodes:     []Node{{CPUs: cpuset.Range(0, 7), MiB: 512}, {CPUs: cpuset.Range(8, 15), MiB: 512}},
			Distances: [][]int{{10, 21}, {21, 10}}},
	},
	{
		name:  "node-of-two-packages",
		about: "Four packages, of which two and two make a NUMA node.",
		Shape: Shape{Packages: 4, Dies: 1, Cores: 2, Threads: 1,
			Nodes: []Node{{CPUs: cpuset.MustParse("0-1,4-5"), MiB: 512}, {CPUs: cpuset.MustParse("2-3,6-7"), MiB: 512}}},
	},
}

func eightNodes() []Node {
	var nodes []Node
	for i := range cpuset.CPU(8) {
		nodes = append(nodes, Node{CPUs: cpuset.Of(2*i, 2*i+1), MiB: 128})
	}
	return nodes
}

func eightDistances() [][]int {
	var all [][]int
	for i := range 8 {
		var row []int
		for j := range 8 {
			switch {
			case i == j:
				row = append(row, 10)
			case i/4 == j/4:
				row = append(row, 12)
			default:
				row = append(row, 32)
			}
		}
		all = append(all, row)
	}
	return all
}
