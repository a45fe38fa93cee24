package interference

import "fmt"

// Rule says when a period misses its deadline. What is submitted to a period is what the
// groups need and their quota and saved-up tokens allow.
type Rule int

const (
	// Strict counts a miss whenever what is submitted exceeds the capacity.
	Strict Rule = iota
	// Published is the rule of the tables on the Linux kernel's mailing list (12 May
	// 2021): as Strict, but when every group needs at least its whole quota, nothing is
	// left to be handed out, and the period counts as met. With few groups under high
	// load this hides more than half of the misses. Its quotas sum to the capacity: where
	// they sum to more and do not fit, it is as Strict.
	Published
)

// String returns the word that users write.
func (r Rule) String() string {
	switch r {
	case Strict:
		return "strict"
	case Published:
		return "published"
	}
	return fmt.Sprintf("Rule(%d)", int(r))
}

// ParseRule reads "strict" or "published".
func ParseRule(word string) (Rule, error) {
	for _, r := range []Rule{Strict, Published} {
		if word == r.String() {
			return r, nil
		}
	}
	return 0, fmt.Errorf("no rule %q for a missed deadline; write strict or published", word)
}

// roundingTicks is a millionth of the smallest quota. Sharing hands out whole ticks, so what
// would come to nothing in real numbers may come to a few ticks.
const roundingTicks = quotaTicks / 1_000_000

// missed judges a period of which free is left after the quotas, below 0 when not even
// these fit, and wants are submitted beyond them. Sums over all groups are exact, whether
// the quotas of all are used up is not.
func (r Rule) missed(free, wants int64) bool {
	if r == Published && free >= 0 && free <= roundingTicks {
		return false
	}
	return wants > free
}
