package perfetto_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report/perfetto"
	"pinfold.dev/pinfold/test/must"
)

const ms = time.Millisecond

// write writes a trace of two containers, a (1) and b (2), of which b uses up its quota.
func write(t *testing.T) []byte {
	t.Helper()
	var file bytes.Buffer
	out := perfetto.New(&file, perfetto.Clocks{Monotonic: time.Hour, Real: time.Unix(1_800_000_000, 0)})
	at := func(d time.Duration) time.Duration { return time.Hour + d }
	for _, s := range []trace.Span{
		{Group: "/a", Name: "a", Thread: 10, CPU: 0, State: blame.Running, From: at(0), To: at(10 * ms)},
		{Group: "/a", Name: "a", Thread: 10, CPU: 0, State: blame.Sleeping, From: at(10 * ms), To: at(20 * ms)},
		{Group: "b", Thread: 20, CPU: 0, State: blame.Waiting, Behind: "a", From: at(0), To: at(10 * ms)},
		{Group: "b", Thread: 20, CPU: 0, State: blame.Running, From: at(10 * ms), To: at(30 * ms)},
		{Group: "b", Thread: 20, CPU: 0, State: blame.Throttled, From: at(30 * ms), To: at(100 * ms)},
		{Group: "b", Thread: 20, CPU: 1, State: blame.Running, From: at(100 * ms), To: at(115 * ms)},
		{Group: "b", Thread: 20, CPU: 1, State: blame.Unknown, From: at(115 * ms), To: at(120 * ms)},
		{Group: "b", From: at(100 * ms), To: at(100 * ms), Quota: &blame.Quota{Before: -time.Millisecond, Left: 20 * ms}},
	} {
		s.Process = "worker"
		out.Add(&s)
	}
	must.Do(t, out.Close())
	return file.Bytes()
}

// TestTraceProcessor compares what Perfetto's trace processor reads with what was written.
func TestTraceProcessor(t *testing.T) {
	written := write(t)
	for sql, want := range map[string][]string{
		`select printf('%s %s %s %d %d', ifnull(parent.name, 'NULL'), track.name, slice.name, sum(slice.dur)/1000, count()) from slice join track on slice.track_id = track.id
		 left join track parent on track.parent_id = parent.id group by parent.name, track.name, slice.name order by 1`: {
			"NULL CPU 0 a 10000 1",
			"NULL CPU 0 b 20000 1",
			"NULL CPU 1 b 15000 1",
			"a worker 10 running on CPU 0 10000 1",
			"b worker 20 running on CPU 0 20000 1",
			"b worker 20 running on CPU 1 15000 1",
			"b worker 20 throttled 70000 1",
			"b worker 20 unknown 5000 1",
			"b worker 20 waiting behind a 10000 1",
		},
		`select printf('%s %s %d %d', track.name, unit, ts, value) from counter join counter_track track on counter.track_id = track.id order by ts`: {
			"quota left at edges, b us 3600099999999 -1000",
			"quota left at edges, b us 3600100000000 20000",
		},
		`select name || value from stats where severity in ('error', 'data_loss') and value > 0`: nil,
		`select cast(to_realtime(min(ts)) as text) from slice`:                                   {"1800000000000000000"},
	} {
		if diff := cmp.Diff(want, query(t, written, sql)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sql, diff)
		}
	}
}

// TestCutOff: what was written of a trace can be read, whatever is missing at the end.
func TestCutOff(t *testing.T) {
	written := write(t)
	rows := query(t, written[:len(written)*2/3], `select cast(count() as text) from slice`)
	if len(rows) != 1 || rows[0] == "0" {
		t.Errorf("%v", rows)
	}
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestFullDisk(t *testing.T) {
	w := perfetto.New(full{}, perfetto.Clocks{})
	for i := range 100_000 {
		w.Add(&trace.Span{Group: "a", Thread: 1, State: blame.Running, From: time.Duration(i), To: time.Duration(i + 1)})
	}
	if err := w.Close(); err == nil || err.Error() != "write the trace: no space left" {
		t.Error(err)
	}
}
