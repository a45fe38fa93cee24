package tracefile

import (
	"errors"
	"time"

	"github.com/parquet-go/parquet-go"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
)

// Header is the metadata that is known before the first sample of a recording.
type Header struct {
	Start    time.Time     // wall clock when the recording began; At of the samples is relative to it
	Interval time.Duration // nominal, > 0
}

// Row is one sample of one cgroup.
type Row struct {
	Group string // path in the hierarchy
	Name  string // NAMESPACE/POD/CONTAINER, "" if not known
	trace.Sample
}

// check returns an error if the row is impossible.
func (r *Row) check() error {
	if r.Group == "" {
		return errors.New("the group has no name")
	}
	return r.Validate()
}

// record is a row of a Parquet or CSV file. Amounts are those of the sample; nil is unknown. A quota
// of 0 means no limit, or with a period of 0 an unknown one, and both are then written as null.
type record struct {
	Time             int64   `parquet:"time,timestamp(nanosecond)"` // end of the sample, since 1970 (UTC)
	Group            string  `parquet:"group,dict"`                 // path of the cgroup in the hierarchy
	Name             string  `parquet:"name,dict,optional"`         // NAMESPACE/POD/CONTAINER, if known
	Interval         int64   `parquet:"interval_ns"`                // the real length of the sample
	Usage            int64   `parquet:"usage_ns"`
	Periods          *uint32 `parquet:"periods"` // in which the bandwidth timer ran
	ThrottledPeriods *uint32 `parquet:"throttled_periods"`
	ThrottledTime    *int64  `parquet:"throttled_time_ns"` // summed over CPUs
	BurstPeriods     *uint32 `parquet:"burst_periods"`     // in which more than the quota was used
	BurstTime        *int64  `parquet:"burst_time_ns"`     // CPU time beyond the quota
	Quota            int64   `parquet:"quota_ns,dict,optional"`
	Period           int64   `parquet:"period_ns,dict,optional"`
	Burst            *int64  `parquet:"burst_ns,dict"` // unused CPU time that may be saved up
	Late             bool    `parquet:"late"`          // taken too late: it covers more than the nominal interval
	Nominal          int64   `parquet:"nominal_interval_ns,dict"`
	Waited           *int64  `parquet:"waited_ns"` // in which a thread waited for a CPU, or was throttled
	Raised           bool    `parquet:"raised,optional"`
	TraceEnded       bool    `parquet:"trace_ended,optional"`
}

// values returns pointers to the fields of the record, in the order of columnNames.
func (rec *record) values() []any {
	return []any{
		(*unixTime)(&rec.Time), &rec.Group, &rec.Name, &rec.Interval, &rec.Usage,
		&rec.Periods, &rec.ThrottledPeriods, &rec.ThrottledTime, &rec.BurstPeriods, &rec.BurstTime,
		(*optional)(&rec.Quota), (*optional)(&rec.Period), &rec.Burst, &rec.Late, &rec.Nominal, &rec.Waited,
		&rec.Raised, &rec.TraceEnded,
	}
}

// columnNames returns the names of all columns of a table, in the order of the fields of R.
func columnNames[R any]() []string {
	var names []string
	for _, field := range parquet.SchemaOf(*new(R)).Fields() {
		names = append(names, field.Name())
	}
	return names
}

// required returns the columns that a file must have.
func required() []string { return []string{"time", "group", "interval_ns", "usage_ns"} }

func toRecord(h Header, r *Row) record {
	rec := record{
		Time:             h.Start.UnixNano() + int64(r.At),
		Group:            r.Group,
		Name:             r.Name,
		Interval:         int64(r.Interval),
		Usage:            int64(r.Usage),
		Periods:          trace.Known(r.Unknown, trace.Periods, r.Periods),
		ThrottledPeriods: trace.Known(r.Unknown, trace.Periods, r.Throttled),
		ThrottledTime:    trace.Known(r.Unknown, trace.ThrottledTime, int64(r.ThrottledTime)),
		BurstPeriods:     trace.Known(r.Unknown, trace.Bursts, r.Bursts),
		BurstTime:        trace.Known(r.Unknown, trace.Bursts, int64(r.BurstTime)),
		Quota:            int64(r.Limits.Quota),
		Period:           int64(r.Limits.Period),
		Burst:            trace.Known(r.Unknown, trace.Limits|trace.Burst, int64(r.Limits.Burst)),
		Late:             r.Late,
		Nominal:          int64(h.Interval),
		Waited:           trace.Known(r.Unknown, trace.Waits, int64(r.Waited)),
		Raised:           r.Raised,
		TraceEnded:       r.TraceEnded,
	}
	if r.Limits.Quota == bandwidth.Unlimited {
		rec.Quota = 0
	}
	if r.Unknown.Has(trace.Limits) {
		rec.Period = 0
	}
	return rec
}

// row converts a record to a row and checks it. start is in nanoseconds since 1970.
func (rec *record) row(start int64) (*Row, error) {
	r := &Row{Group: rec.Group, Name: rec.Name, Sample: trace.Sample{
		At:       time.Duration(rec.Time - start),
		Interval: time.Duration(rec.Interval),
		Usage:    time.Duration(rec.Usage),
		Limits: bandwidth.Limits{
			Quota:  time.Duration(rec.Quota),
			Period: time.Duration(rec.Period),
		},
		Late: rec.Late, Raised: rec.Raised, TraceEnded: rec.TraceEnded,
	}}
	if rec.Quota != 0 {
		set(&r.Limits.Burst, (*time.Duration)(rec.Burst), r, trace.Burst)
	} else { // a burst has no effect
		r.Limits.Quota = bandwidth.Unlimited
	}
	if rec.Quota == 0 && rec.Period == 0 {
		r.Unknown = trace.Limits
	}
	set(&r.Periods, rec.Periods, r, trace.Periods)
	set(&r.Throttled, rec.ThrottledPeriods, r, trace.Periods)
	set(&r.ThrottledTime, (*time.Duration)(rec.ThrottledTime), r, trace.ThrottledTime)
	set(&r.Bursts, rec.BurstPeriods, r, trace.Bursts)
	set(&r.BurstTime, (*time.Duration)(rec.BurstTime), r, trace.Bursts)
	set(&r.Waited, (*time.Duration)(rec.Waited), r, trace.Waits)
	return r, r.check()
}

// set sets a field of a row to a value, unless that is unknown.
func set[T any](field, value *T, r *Row, figure trace.Figures) {
	if value == nil {
		r.Unknown |= figure
		return
	}
	*field = *value
}

// headerOf derives a header from the first row of a file that has none.
func (rec *record) headerOf() Header {
	h := Header{Start: time.Unix(0, rec.Time-rec.Interval).UTC(), Interval: time.Duration(rec.Nominal)}
	if h.Interval <= 0 || h.Interval > trace.MaxTime {
		h.Interval = time.Duration(rec.Interval)
	}
	return h
}
