package experiment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"pinfold.dev/pinfold/test/must"
)

// TestQuantile compares the quantile of all requests with that of a histogram of all, and checks how
// many requests it needs.
func TestQuantile(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := Result{Config: Config{Conditions: []Condition{{Name: "alone"}}}}
	all := NewHistogram()
	for round := range 7 {
		h := NewHistogram()
		for range 100 + 100*round {
			must.Do(t, h.RecordValue(1+int64(1000*random.ExpFloat64())))
		}
		all.Merge(h)
		w := Window{Round: round, Condition: "alone", Latencies: must.Get(h.Encode(hdr.V2CompressedEncodingCookieBase))(t), Figures: map[Figure]float64{}}
		for f := range quantiles() {
			w.Figures[f] = 1
		}
		r.Windows = append(r.Windows, w)
	}
	for f, q := range quantiles() {
		rank := math.Ceil(q * float64(all.TotalCount())) // of the least latency that enough others do not exceed
		v, want := r.Compare(Answer{Figure: f, Condition: "alone"}).Value, float64(all.ValueAtQuantile(100*rank/float64(all.TotalCount())))/1000
		if f == P999 {
			if v.Rounds != 0 || v.Missing != "2800 requests are too few, 10000 are needed" {
				t.Errorf("%s of %d requests: %+v", f, all.TotalCount(), v)
			}
			continue
		}
		if math.Abs(v.Estimate-want) > 1e-9*want || !(v.Low < want && want < v.High) {
			t.Errorf("%s: %+v, want %g", f, v, want)
		}
	}
}

// TestQuantileOfFewRounds: where only some rounds have slow requests, and these are more than 1%, p99
// needs six such rounds.
func TestQuantileOfFewRounds(t *testing.T) {
	for slow := range 11 {
		r := Result{Config: Config{Conditions: []Condition{{Name: "alone"}}}}
		for round := range 10 {
			h := NewHistogram()
			must.Do(t, h.RecordValues(1000, 300))
			if round < slow {
				must.Do(t, h.RecordValues(50_000, 20))
			}
			encoded := must.Get(h.Encode(hdr.V2CompressedEncodingCookieBase))(t)
			r.Windows = append(r.Windows, Window{Round: round, Condition: "alone", Latencies: encoded, Figures: map[Figure]float64{P90: 1, P99: 1}})
		}
		value := func(f Figure) Value { return r.Compare(Answer{Figure: f, Condition: "alone"}).Value }
		want := ""
		if slow > 1 && slow < MinRounds { // one has 20 of more than 3,000
			want = fmt.Sprintf("those that took as long or longer are of %d rounds only, 6 are needed", slow)
		}
		if value(P90).Missing != "" || value(P99).Missing != want {
			t.Errorf("%d slow rounds: p90 %q, p99 %q, want %q", slow, value(P90).Missing, value(P99).Missing, want)
		}
	}
}
