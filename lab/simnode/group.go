package simnode

import (
	"fmt"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/topology"
)

// maxGroup bounds the nodes of one group. KWOK has been seen to carry some
// thousands.
const maxGroup = 20000

// Group is a number of equal nodes.
type Group struct {
	Name    string // the nodes are Name-0, Name-1, ...
	Machine *topology.Machine
	Count   int
	Labels  map[string]string
}

// ParseCount reads "WHAT=COUNT" or "WHAT", which means one.
func ParseCount(text string) (what string, count int, err error) {
	at := strings.LastIndex(text, "=")
	if at < 0 {
		return text, 1, nil
	}
	count, err = strconv.Atoi(text[at+1:])
	if err != nil || count < 0 || count > maxGroup {
		return "", 0, fmt.Errorf("%q: the count is not a number from 0 to %d", text, maxGroup)
	}
	return text[:at], count, nil
}

// Nodes returns the nodes of all groups. Groups of one name are numbered on, so
// that every name is used once.
func Nodes(groups []Group) []Node {
	var nodes []Node
	next := map[string]int{}
	for _, group := range groups {
		for range group.Count {
			nodes = append(nodes, Node{
				Name:    fmt.Sprintf("%s-%d", group.Name, next[group.Name]),
				Machine: group.Machine,
				Labels:  group.Labels,
			})
			next[group.Name]++
		}
	}
	return nodes
}
