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

// record is a row of a Parquet or CSV file. A quota of 0 means no limit and is written as null.
// Amounts are those of the sample.
type record struct {
	Time             int64  `parquet:"time,timestamp(nanosecond),delta"` // end of the sample, since 1970 (UTC)
	Group            string `parquet:"group,dict"`                       // path of the cgroup in the hierarchy
	Name             string `parquet:"name,dict,optional"`               // NAMESPACE/POD/CONTAINER, if known
	Interval         int64  `parquet:"interval_ns,delta"`                // the real length of the sample
	Usage            int64  `parquet:"usage_ns,delta"`
	Periods          uint32 `parquet:"periods,delta"` // in which the bandwidth timer ran
	ThrottledPeriods uint32 `parquet:"throttled_periods,delta"`
	ThrottledTime    int64  `parquet:"throttled_time_ns,delta"` // summed over CPUs
	BurstPeriods     uint32 `parquet:"burst_periods,delta"`     // in which more than the quota was used
	BurstTime        int64  `parquet:"burst_time_ns,delta"`     // CPU time beyond the quota
	Quota            int64  `parquet:"quota_ns,dict,optional"`
	Period           int64  `parquet:"period_ns,dict"`
	Burst            int64  `parquet:"burst_ns,dict"` // unused CPU time that may be saved up
	Late             bool   `parquet:"late"`          // taken too late: it covers more than the nominal interval
	Nominal          int64  `parquet:"nominal_interval_ns,dict"`
	Waited           int64  `parquet:"waited_ns,delta"` // in which a thread waited for a CPU, or was throttled
}

// values returns pointers to the fields of the record, in the order of columnNames.
func (rec *record) values() []any {
	return []any{
		(*unixTime)(&rec.Time), &rec.Group, &rec.Name, &rec.Interval, &rec.Usage,
		&rec.Periods, &rec.ThrottledPeriods, &rec.ThrottledTime, &rec.BurstPeriods, &rec.BurstTime,
		(*optional)(&rec.Quota), &rec.Period, &rec.Burst, &rec.Late, &rec.Nominal, &rec.Waited,
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
		Waited:           int64(r.Waited),
	}
	if r.Limits.Quota == bandwidth.Unlimited {
		rec.Quota = 0
	}
	return rec
}

// row converts a record to a row and checks it. start is in nanoseconds since 1970.
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
		Late:   rec.Late,
		Waited: time.Duration(rec.Waited),
	}}
	if rec.Quota == 0 {
		r.Limits.Quota = bandwidth.Unlimited
	}
	return r, r.check()
}

// headerOf derives a header from the first row of a file that has none.
func (rec *record) headerOf() Header {
	h := Header{Start: time.Unix(0, rec.Time-rec.Interval).UTC(), Interval: time.Duration(rec.Nominal)}
	if h.Interval <= 0 || h.Interval > trace.MaxTime {
		h.Interval = time.Duration(rec.Interval)
	}
	return h
}
