package cluster

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/tracefile"
)

// TestBrokenStream cuts a stream of samples and spans at every byte. What is recorded is what has
// arrived in whole blocks, and never another number.
func TestBrokenStream(t *testing.T) {
	var sent bytes.Buffer
	r, err := tracefile.RecordJournal(&sent, tracefile.Header{Start: time.Unix(1.7e9, 0), Interval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var whole []int // length after each sample, which is a block
	for i := range 3 {
		at := time.Duration(i+1) * time.Second
		if i == 2 {
			span := &trace.Span{Group: "/a", From: at - time.Second, To: at - time.Millisecond, State: blame.Running, Thread: 7}
			if err := r.AppendSpan(span); err != nil {
				t.Fatal(err)
			}
		}
		row := &tracefile.Row{Group: "/a", Sample: trace.Sample{At: at, Interval: time.Second, Usage: time.Duration(12345 + i), Limits: bandwidth.Limits{Quota: bandwidth.Unlimited}}}
		if err := r.Append(row); err != nil {
			t.Fatal(err)
		}
		whole = append(whole, sent.Len())
	}
	if _, err := r.Finish(); err != nil || whole[0] == whole[1] || sent.Len() != whole[2] {
		t.Fatal(err, whole, sent.Len())
	}
	for end := range sent.Len() + 1 {
		o := &sampleOptions{}
		o.output.Name = filepath.Join(t.TempDir(), "a.parquet")
		if err := o.record(bytes.NewReader(sent.Bytes()[:end]), io.Discard, io.Discard); err != nil {
			t.Fatalf("%d bytes: %v", end, err)
		}
		want := 0
		for want < 3 && end >= whole[want] {
			want++
		}
		rec, _, err := tracefile.Read(o.output.Name, 0)
		if want == 0 {
			if err == nil {
				t.Errorf("%d bytes: a file without samples", end)
			}
			continue
		}
		if err != nil || len(rec.Series[0].Samples) != want {
			t.Fatalf("%d bytes: %v, %+v", end, err, rec)
		}
		for i, s := range rec.Series[0].Samples {
			if s.Usage != time.Duration(12345+i) {
				t.Errorf("%d bytes: %+v", end, s)
			}
		}
		spans := 0
		for s, err := range tracefile.Spans(o.output.Name) {
			if spans++; err != nil || s.Thread != 7 {
				t.Errorf("%d bytes: %+v, %v", end, s, err)
			}
		}
		if (spans == 1) != (want == 3) {
			t.Errorf("%d bytes: %d spans", end, spans)
		}
	}
}

// TestOtherStream: an agent of another version may send something else.
func TestOtherStream(t *testing.T) {
	o := &sampleOptions{}
	o.output.Name = filepath.Join(t.TempDir(), "a.csv")
	if err := o.record(bytes.NewReader([]byte("time,group,interval_ns,usage_ns\n")), io.Discard, io.Discard); err == nil {
		t.Error("CSV is a journal")
	}
}

func TestPodNames(t *testing.T) {
	for want, args := range map[string][]string{
		"":                           {"web"},
		"0 pods are named":           {},
		"2 pods are named":           {"a", "b"},
		"give -n shop web":           {"shop/web"},
		"1 pods are named: give one": {""},
	} {
		cmd := &cobra.Command{}
		(&podOptions{}).addFlags(cmd)
		if err := cmd.Args(cmd, args); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
