package sysfs

import (
	"pinfold.dev/pinfold/core/cpuset"
)

// claim is what a file says about one CPU: that it shares something with these
// online CPUs, itself among them.
type claim struct {
	cpus cpuset.Set
	file string
}

// grouping divides the online CPUs into groups.
type grouping struct {
	claims []claim // by CPU
	index  []int   // by CPU: the number of its group, dense in order of lowest CPU
	first  []int   // by group: the position in scan.cpus of its lowest CPU
}

// group makes the groups that the claims describe, one claim by CPU, or reports
// two claims that contradict each other. what names the groups in the error.
func (s scan) group(what string, claims []claim) (grouping, error) {
	position := map[cpuset.CPU]int{}
	for i, c := range s.cpus {
		position[c] = i
	}
	g := grouping{claims: claims, index: make([]int, len(claims))}
	for i, c := range s.cpus {
		own := claims[i]
		if !own.cpus.Contains(c) {
			return g, contradiction("%s says that the %s of CPU %d has the online CPUs %q, without CPU %d itself", own.file, what, c, own.cpus, c)
		}
		lowest := position[own.cpus.First()]
		if lowest < i {
			if claims[lowest].cpus != own.cpus {
				return g, s.disagreement(what, claims, lowest, i)
			}
			g.index[i] = g.index[lowest]
			continue
		}
		for other := range own.cpus.All() {
			if claims[position[other]].cpus != own.cpus {
				return g, s.disagreement(what, claims, i, position[other])
			}
		}
		g.index[i] = len(g.first)
		g.first = append(g.first, i)
	}
	return g, nil
}

func (s scan) disagreement(what string, claims []claim, i, j int) error {
	return contradiction("%s says that the %s of CPU %d has the online CPUs %q, but %s says that that of CPU %d has %q",
		claims[i].file, what, s.cpus[i], claims[i].cpus, claims[j].file, s.cpus[j], claims[j].cpus)
}

// claimsByKey makes one claim for all CPUs of the same key.
func claimsByKey[Key comparable](cpus []cpuset.CPU, key func(i int) Key, file func(i int) string) []claim {
	members := map[Key]cpuset.Set{}
	for i, c := range cpus {
		set := members[key(i)]
		set.Add(c)
		members[key(i)] = set
	}
	claims := make([]claim, len(cpus))
	for i := range cpus {
		claims[i] = claim{members[key(i)], file(i)}
	}
	return claims
}
