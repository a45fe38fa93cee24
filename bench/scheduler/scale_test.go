package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, test := range []struct {
		values []time.Duration
		part   float64
		want   time.Duration
	}{
		{hundred, 0.50, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{hundred[:1], 0.99, 1},
		{hundred[:2], 0.50, 1},
		{hundred[:2], 0.51, 2},
	} {
		if got := quantile(test.values, test.part); got != test.want {
			t.Errorf("quantile(%d values, %v) = %d, want %d", len(test.values), test.part, got, test.want)
		}
	}
}

func TestScaleLine(t *testing.T) {
	var out bytes.Buffer
	printScale(&out, 5000, variant{name: withPlugin}, scaleFigures{
		latencies: []time.Duration{12 * time.Millisecond, 30500 * time.Microsecond}, perSecond: 245.25,
		idle: 700 << 20, peak: 900 << 20, first: 310 * time.Millisecond, failover: 4900 * time.Millisecond})
	const want = "BenchmarkScale/nodes=5000/plugin=pinfold 1 12.0 p50-ms 30.5 p99-ms 245.2 pods/s 700 idle-MiB 900 peak-MiB 310 first-ms 4900 failover-ms"
	if got := strings.Join(strings.Fields(out.String()), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
