package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report"
)

// Model is the table's state. It is for one goroutine at a time.
type Model struct {
	Sort    Order
	Reverse bool
	All     bool // show groups that have no limit and have not used any CPU time, too
	// Always reports whether a group is shown even then.
	Always func(group string) bool
	Status Status
	rows   map[string]*row
	top    int // first row shown
	page   int // rows that the last drawing had room for
}

// Status is what the first line says besides the groups.
type Status struct {
	Share        float64 // of a CPU that sampling takes
	Late, Missed uint64
	Message      string // what went wrong last
}

// Order is what rows are sorted by.
type Order string

// The orders, the largest value first but for names.
const (
	ByUsage     Order = "usage" // CPUs over 1 s
	ByShare     Order = "share" // of the limit over 1 s
	ByThrottled Order = "throttled"
	ByBurst     Order = "burst"
	ByLimit     Order = "limit"
	ByName      Order = "name"
)

// Orders returns all orders.
func Orders() []Order { return []Order{ByUsage, ByShare, ByThrottled, ByBurst, ByLimit, ByName} }

// New returns a table without groups.
func New() *Model {
	return &Model{Sort: ByUsage, Always: func(string) bool { return false }, rows: map[string]*row{}}
}

// Add adds a sample of a group. NoBursts says that the kernel does not count bursts.
func (m *Model) Add(group string, noBursts bool, s trace.Sample) {
	r := m.rows[group]
	if r == nil {
		r = &row{group: group, name: report.Printable(group)}
		m.rows[group] = r
	}
	r.noBursts = noBursts
	r.add(s)
}

// Remove forgets a group.
func (m *Model) Remove(group string) { delete(m.rows, group) }

// Rename gives groups the names that they are shown by.
func (m *Model) Rename(name func(group string) string) {
	for _, r := range m.rows {
		r.name = report.Printable(name(r.group))
	}
}

// Key is a key that was pressed: a character, or one of the following.
type Key rune

// Keys that are no characters.
const (
	KeyUp Key = -1 - iota
	KeyDown
	KeyPageUp
	KeyPageDown
	KeyHome
	KeyEnd
)

// Press acts on a key, and reports whether that is to end the program.
func (m *Model) Press(k Key) (quit bool) {
	switch k {
	case 'q', 'Q', 3, 4: // ctrl-C, ctrl-D
		return true
	case 'r':
		m.Reverse = !m.Reverse
	case 'a':
		m.All = !m.All
	case KeyUp, 'k':
		m.top--
	case KeyDown, 'j':
		m.top++
	case KeyPageUp:
		m.top -= max(m.page, 1)
	case KeyPageDown, ' ':
		m.top += max(m.page, 1)
	case KeyHome, 'g':
		m.top = 0
	case KeyEnd, 'G':
		m.top = len(m.rows)
	default:
		if o, ok := orderOf(k); ok {
			m.Sort, m.Reverse = o, false
		}
	}
	return false
}

// orderOf returns the order whose name begins with a character.
func orderOf(k Key) (Order, bool) {
	for _, o := range Orders() {
		if strings.HasPrefix(string(o), string(rune(k))) && k > 0 {
			return o, true
		}
	}
	return "", false
}

// shown returns the rows that are shown, in their order, and how many are left out.
func (m *Model) shown() (rows []*row, hidden int) {
	for _, r := range m.rows {
		if m.All || r.active || m.Always(r.group) {
			rows = append(rows, r)
		} else {
			hidden++
		}
	}
	slices.SortFunc(rows, func(a, b *row) int {
		by := m.compare(a, b)
		if m.Reverse {
			by = -by
		}
		return cmp.Or(by, strings.Compare(a.name, b.name), strings.Compare(a.group, b.group))
	})
	return rows, hidden
}

func (m *Model) compare(a, b *row) int {
	if m.Sort == ByName {
		return strings.Compare(a.name, b.name)
	}
	return cmp.Compare(m.value(b), m.value(a))
}

// value is what a row is sorted by.
func (m *Model) value(r *row) float64 {
	switch m.Sort {
	case ByShare:
		share, _ := r.last(time.Second).ofLimit()
		return share
	case ByThrottled:
		return r.last(window).throttledOfWall()
	case ByBurst:
		return float64(r.last(window).burst)
	case ByLimit:
		cpus, _ := r.limits.CPUs()
		return cpus
	}
	return r.last(time.Second).cpus()
}
