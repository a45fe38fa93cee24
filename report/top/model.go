// Package top implements the live table of "pinfold top": for each cgroup, its usage against its
// limit, its throttling, and its most recent periods. It has no clock, terminal or kernel access.
// Samples and keys are the inputs ([Model.Add], [Model.Press]) and text is the output
// ([Model.Draw]).
//
// Samples are stored per group in cells of 100 ms, by the end of each sample, for ten seconds. The
// value for a window is the sum of the newest cells that cover it, divided by the time that they
// really cover. So a late sample makes the window longer, not the value larger.
//
// Throttling is shown as two shares of the last ten seconds. THR/TIMER is the share of the periods
// in which the kernel's timer ran (nr_throttled/nr_periods); a group that sleeps in between has few
// of these. THR/WALL is the share of all wall-clock periods.
//
// WAIT is the share of the last ten seconds in which a thread of the group waited for a CPU,
// because others used it or because the group was throttled. The column exists if the kernel
// measures it.
//
// If the columns do not all fit, the least important ones are omitted, in the order of column.drop.
// Names keep their ends.
package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report"
)

// Model is the state of the table. It is not safe for concurrent use.
type Model struct {
	Sort    Order
	Reverse bool
	All     bool // also show groups that have no limit and have not used any CPU time
	// Always reports whether such a group is shown without All, and Never whether another one is not.
	Always, Never func(group string) bool
	Status        Status
	// Next returns the last line, which says what to do about the group that is throttled most.
	Next func(Worst) string
	rows map[string]*row
	top  int // first row shown
	page int // rows in the last drawing
}

// Status is the rest of the first line.
type Status struct {
	Share        float64 // of a CPU that sampling uses
	Late, Missed uint64
	Message      string // the last error
}

// Worst is the group that was throttled in the largest share of its last ten seconds.
type Worst struct {
	Group              string
	Throttled, OfLimit float64 // shares of the periods, and of the limit that was used
}

// Because returns a command line with the reason for it.
func (w Worst) Because(command string) string {
	return fmt.Sprintf("%s   # throttled in %s of its periods at %s of its limit",
		command, quantity.Share(w.Throttled).Whole(), quantity.Share(w.OfLimit).Whole())
}

// Order is the order of the rows.
type Order string

// The orders. The largest value comes first, except for names, and of equal ones the largest usage.
const (
	ByThrottled Order = "throttled" // of all periods
	ByUsage     Order = "usage"     // CPUs over 1 s
	ByShare     Order = "share"     // of the limit over 1 s
	ByBurst     Order = "burst"
	ByLimit     Order = "limit"
	ByName      Order = "name"
)

// Orders returns all orders, the usual one first.
func Orders() []Order { return []Order{ByThrottled, ByUsage, ByShare, ByBurst, ByLimit, ByName} }

// New returns a table without groups.
func New() *Model {
	no := func(string) bool { return false }
	return &Model{Sort: ByThrottled, Always: no, Never: no, Next: func(Worst) string { return "" }, rows: map[string]*row{}}
}

// Add adds a sample of a group.
func (m *Model) Add(group string, s trace.Sample) {
	r := m.rows[group]
	if r == nil {
		r = &row{group: group, name: report.Printable(group)}
		m.rows[group] = r
	}
	r.add(s)
}

// Remove forgets a group.
func (m *Model) Remove(group string) { delete(m.rows, group) }

// Rename sets the displayed names of groups.
func (m *Model) Rename(name func(group string) string) {
	for _, r := range m.rows {
		r.name = report.Printable(name(r.group))
	}
}

// SetWaits sets the parts of the last ten seconds in which threads of the groups waited for CPUs.
// of returns false if that is not known.
func (m *Model) SetWaits(of func(group string) (wait float64, known bool)) {
	for _, r := range m.rows {
		r.wait, r.waitKnown = of(r.group)
	}
}

// Key is a character or one of the following keys.
type Key rune

// Keys other than characters.
const (
	KeyUp Key = -1 - iota
	KeyDown
	KeyPageUp
	KeyPageDown
	KeyHome
	KeyEnd
)

// Press handles a key and reports whether the program should end.
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

// orderOf returns the order whose name begins with the key.
func orderOf(k Key) (Order, bool) {
	for _, o := range Orders() {
		if strings.HasPrefix(string(o), string(rune(k))) && k > 0 {
			return o, true
		}
	}
	return "", false
}

// shown returns the visible rows in order, and the number of hidden ones.
func (m *Model) shown() (rows []*row, hidden int) {
	for _, r := range m.rows {
		if m.All || r.active && !m.Never(r.group) || m.Always(r.group) {
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
	return cmp.Or(cmp.Compare(m.value(b), m.value(a)), cmp.Compare(b.last(time.Second).cpus(), a.last(time.Second).cpus()))
}

// next returns the last line, "" if no group is throttled in 1% of the time.
func (m *Model) next(rows []*row) string {
	worst := Worst{Throttled: .01}
	for _, r := range rows {
		if c := r.last(window); c.throttledOfWall() >= worst.Throttled {
			share, _ := c.ofLimit()
			worst = Worst{r.group, c.throttledOfWall(), share}
		}
	}
	if worst.Group == "" {
		return ""
	}
	return report.Printable(m.Next(worst))
}

// value returns the value by which a row is sorted.
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
