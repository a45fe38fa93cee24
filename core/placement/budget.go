package placement

// decisionSteps is the work that one decision may take: some milliseconds, see "The worst
// decision" in docs/figures.md.
const decisionSteps = 3 << 18

// Budget bounds the work of one decision, however many placements it takes: the number of sets of
// nodes is exponential, and with limits on some of the nodes the problem has no polynomial solution.
// When it is exhausted, [Result.Exact] is false or, if nothing was found, the request is rejected
// ([InsufficientError.GaveUp]). Work is counted in steps of a few nanoseconds and not in time, so
// equal questions get equal answers on every machine.
type Budget struct{ steps int }

// fullBudgets is how many decisions in a row have all of a budget. More of them share that, but each
// has leastSteps, which suffice where nothing is searched for.
const fullBudgets, leastSteps = 16, 1 << 12

// NewBudget returns the budget of one decision.
func NewBudget() *Budget { return ShareOf(1) }

// ShareOf returns the budget of each of some decisions that follow each other while others wait. A
// tenant or a node chooses how many these are.
func ShareOf(decisions int) *Budget {
	return &Budget{max(leastSteps, min(decisionSteps, fullBudgets*decisionSteps/max(1, decisions)))}
}

// Spend counts steps. It returns false if the budget is exhausted.
func (b *Budget) Spend(steps int) bool {
	b.steps -= steps
	return b.steps > 0
}

// Exhausted reports whether nothing is left.
func (b *Budget) Exhausted() bool { return b.steps <= 0 }
