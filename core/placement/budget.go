package placement

// decisionSteps is the work that one decision may take: some milliseconds, see "The worst
// decision" in docs/figures.md.
const decisionSteps = 3 << 17

// Budget bounds the work of one decision, however many placements it takes. Work is counted in
// steps of a few nanoseconds and not in time, so equal questions get equal answers on every
// machine.
type Budget struct{ left int }

// NewBudget returns the budget of one decision.
func NewBudget() *Budget { return &Budget{decisionSteps} }

// Spend counts steps. It returns false if the budget is exhausted.
func (b *Budget) Spend(steps int) bool {
	b.left -= steps
	return b.left > 0
}

// Exhausted reports whether nothing is left.
func (b *Budget) Exhausted() bool { return b.left <= 0 }

// Split returns half of what is left, as a budget of its own.
func (b *Budget) Split() *Budget {
	half := max(0, b.left/2)
	b.left -= half
	return &Budget{half}
}

// Return takes back what is left of a part.
func (b *Budget) Return(part *Budget) { b.left += part.left }
