package interference

// quotaTicks is the smallest quota in ticks, the unit of all amounts: close to 2^32, and
// a multiple of 1000, so that demands of a thousandth of the quota are exact and their
// sums meet the capacity exactly when they should.
const quotaTicks = 1000 << 22

// roomTicks bounds what all groups together may hold, so that sums stay within 63 bits.
const roomTicks = 1 << 58

// engine steps all groups of one replica through periods.
type engine interface {
	// step says whether the period missed its deadline.
	step() (missed bool, err error)
	// sums are those since the last reset, one for each kind of group.
	sums() []sums
	reset()
}

// sums are over the groups of one kind and over periods, in ticks.
type sums struct {
	demand, backlog, burst float64
	throttled              int64
}

// rows draws the demands, less the quotas, of whole periods, several at a time.
type rows struct {
	drawer drawer
	all    []int64
	at, m  int
}

func newRows(d drawer, m int) *rows {
	all := make([]int64, max(1, 1024/m)*m)
	return &rows{drawer: d, all: all, at: len(all), m: m}
}

// next returns those of one period, valid until the next call.
func (r *rows) next() ([]int64, error) {
	if r.at == len(r.all) {
		if err := r.drawer.draw(r.all); err != nil {
			return nil, err
		}
		r.at = 0
	}
	row := r.all[r.at : r.at+r.m]
	r.at += r.m
	return row, nil
}
