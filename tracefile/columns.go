package tracefile

import (
	"errors"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
)

// record is a row as Parquet and CSV have it; see the package comment. A quota of 0 is
// null, and stands for no limit.
type record struct {
	Time             int64  `parquet:"time,timestamp(nanosecond),delta"` // since 1970, UTC
	Group            string `parquet:"group,dict"`
	Name             string `parquet:"name,dict,optional"`
	Interval         int64  `parquet:"interval_ns,delta"`
	Usage            int64  `parquet:"usage_ns,delta"`
	Periods          uint32 `parquet:"periods,delta"`
	ThrottledPeriods uint32 `parquet:"throttled_periods,delta"`
	ThrottledTime    int64  `parquet:"throttled_time_ns,delta"`
	BurstPeriods     uint32 `parquet:"burst_periods,delta"`
	BurstTime        int64  `parquet:"burst_time_ns,delta"`
	Quota            int64  `parquet:"quota_ns,dict,optional"`
	Period           int64  `parquet:"period_ns,dict"`
	Burst            int64  `parquet:"burst_ns,dict"`
	Late             bool   `parquet:"late"`
	Nominal          int64  `parquet:"nominal_interval_ns,dict"`
}

// The names of columns that the code speaks of by itself.
const (
	timeColumn  = "time"
	groupColumn = "group"
)

// required are the columns that a file must have.
func required() []string { return []string{timeColumn, groupColumn, "interval_ns", "usage_ns"} }

// toRecord turns a row of a recording into the form that files have.
func toRecord(h Header, r *Row) record {
	rec := record{
		Time:             h.Start.UnixNano() + int64(r.At),
		Group:            r.Group,
		Name:             r.Name,
		Interval:         int64(r.Interval),
		Usage:            int64(r.Usage),
		Periods:          r.Periods,
		ThrottledPeriods: r.Throttled,
		ThrottledTime:    int64(r.ThrottledTime),
		BurstPeriods:     r.Bursts,
		BurstTime:        int64(r.BurstTime),
		Quota:            int64(r.Limits.Quota),
		Period:           int64(r.Limits.Period),
		Burst:            int64(r.Limits.Burst),
		Late:             r.Late,
		Nominal:          int64(h.Interval),
	}
	if r.Limits.Quota == bandwidth.Unlimited {
		rec.Quota = 0
	}
	return rec
}

// row turns a record of a file into a row, and checks it.
func (rec *record) row(start int64) (*Row, error) {
	r := &Row{Group: rec.Group, Name: rec.Name, Sample: trace.Sample{
		At:            time.Duration(rec.Time - start),
		Interval:      time.Duration(rec.Interval),
		Usage:         time.Duration(rec.Usage),
		Periods:       rec.Periods,
		Throttled:     rec.ThrottledPeriods,
		ThrottledTime: time.Duration(rec.ThrottledTime),
		Bursts:        rec.BurstPeriods,
		BurstTime:     time.Duration(rec.BurstTime),
		Limits: bandwidth.Limits{
			Quota:  time.Duration(rec.Quota),
			Period: time.Duration(rec.Period),
			Burst:  time.Duration(rec.Burst),
		},
		Late: rec.Late,
	}}
	if rec.Quota == 0 {
		r.Limits.Quota = bandwidth.Unlimited
	}
	return r, r.check()
}

// check says what cannot be true of a row.
func (r *Row) check() error {
	if r.Group == "" {
		return errors.New("it names no group")
	}
	return r.Validate()
}

// headerOf is the header of a file that has none, from its first row.
func (rec *record) headerOf() Header {
	h := Header{Start: time.Unix(0, rec.Time-rec.Interval).UTC(), Interval: time.Duration(rec.Nominal)}
	if h.Interval <= 0 || h.Interval > trace.MaxTime {
		h.Interval = time.Duration(rec.Interval)
	}
	return h
}
