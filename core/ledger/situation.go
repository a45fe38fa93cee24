package ledger

import (
	"encoding/binary"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
)

// Situation is all that decisions depend on beside the question: books whose situations are equal
// (==) give equal answers to every question, whoever the claims are from, and on whichever node.
type Situation struct {
	index     *placement.Index
	config    Config
	exclusive cpuset.Set
	demand    MilliCPU
	// confinements is a text of them, nodes excepted, which follow from CPUs.
	confinements string
}

// Situation returns that of the books as they are.
func (b *Books) Situation() Situation {
	return Situation{b.index, b.config, b.Exclusive(), b.demand, b.confinementText()}
}

func (b *Books) confinementText() string {
	if len(b.confinements) == 0 {
		return ""
	}
	text := make([]byte, 0, 64)
	for i := range b.confinements {
		c := &b.confinements[i]
		text = binary.AppendUvarint(text, uint64(len(c.nodes)))
		for _, n := range c.nodes {
			text = binary.AppendUvarint(text, uint64(n))
		}
		text = binary.AppendUvarint(text, uint64(c.demand))
		text = binary.AppendUvarint(text, uint64(c.limit))
	}
	return string(text)
}
