package experiment

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/must"
)

// bursting returns an experiment in which five replicas may burst, and the recording of one that
// wants random amounts of CPU time: 70% of the quota on average.
func bursting(periods int) (Result, *trace.Recording) {
	c := small()
	c.Loads, c.CPUs = nil, 0
	c.Services = []Service{{Name: "container", Program: Demand, Use: .14, Replicas: 5}}
	c.Conditions = []Condition{
		{Name: "alone", Services: settings(`{"container": {"replicas": 1}}`)},
		{Name: "quota", Services: settings(`{"container": {"limit": "20%"}}`)},
		{Name: "burst", Services: settings(`{"container": {"limit": "20%", "burst": 1}}`)},
	}
	c.Answers = []Answer{{Figure: Full, Condition: "burst"}}
	const interval = 10 * time.Millisecond
	recording := &trace.Recording{Interval: interval, Series: []trace.Series{{Group: "/alone/container"}}}
	random := rand.New(rand.NewPCG(1, 2))
	at := time.Duration(0)
	result := Result{Config: c, Environment: Environment{CPUs: 2}}
	for range periods {
		used := time.Duration(random.ExpFloat64() * 0.28 * float64(trace.DefaultPeriod))
		for range trace.DefaultPeriod / interval {
			at += interval
			recording.Series[0].Samples = append(recording.Series[0].Samples, trace.Sample{At: at, Interval: interval, Usage: used})
			used = 0
		}
	}
	for round := range 10 {
		result.Windows = append(result.Windows, Window{Round: round, Condition: "alone", From: at * time.Duration(round) / 10, To: at * time.Duration(round+1) / 10,
			Figures: map[Figure]float64{Used: .28}})
	}
	return result, recording
}

// TestPredict compares predictions with the exact probability of throttling: sigma^(1+b) for
// exponential demand, where sigma = exp(-(1-sigma)/u). What waits for CPUs is throttled less.
func TestPredict(t *testing.T) {
	result, recording := bursting(20_000)
	must.Do(t, result.Config.Check())
	sigma := 0.46699642
	known := map[string]map[Figure]Prediction{}
	for _, condition := range []string{"quota", "burst"} {
		known[condition] = must.Get(result.Predict(t.Context(), condition, "alone", recording))(t)
	}
	for _, test := range []struct {
		figure    Figure
		condition string
		low, high float64
	}{
		{Throttled, "quota", .95 * sigma, 1.05 * sigma},
		{Throttled, "burst", .8 * sigma * sigma, 1.05 * sigma * sigma},
		{Full, "quota", .04, .08}, // work that waits runs at the end of a period and at the beginning of the next
		{Full, "burst", .1, .3},
	} {
		got := known[test.condition][test.figure]
		if e := got.Estimate; !(e >= test.low && e <= test.high && got.Low < e && e < got.High && got.High-got.Low < e/2) {
			t.Errorf("%s, %s: %+v, want %g to %g", test.figure, test.condition, got, test.low, test.high)
		}
	}
	for round := range 10 { // which use less than the one alone: 50% of their quotas
		result.Windows = append(result.Windows, Window{Round: round, Condition: "quota", Figures: map[Figure]float64{Used: 1}})
	}
	sigma = 0.20318787 // exp(-(1-sigma)/0.5)
	if got := must.Get(result.Predict(t.Context(), "quota", "alone", recording))(t)[Throttled]; math.Abs(got.Estimate/sigma-1) > .07 {
		t.Errorf("with a usage of half of the quotas %+v, want %.4f", got, sigma)
	}
	if again := must.Get(result.Predict(t.Context(), "burst", "alone", recording))(t); !maps.Equal(again, known["burst"]) {
		t.Errorf("%+v, and then %+v", known["burst"], again)
	}
}

// TestUnpredictable checks the reasons why nothing can be predicted.
func TestUnpredictable(t *testing.T) {
	for want, change := range map[string]func(*Result, **trace.Recording, *Published){
		"no undisturbed window was recorded":  func(r *Result, _ **trace.Recording, _ *Published) { r.Windows = nil },
		"recording of the usage is missing":   func(_ *Result, r **trace.Recording, _ *Published) { *r = nil },
		"the recording has no group /alone/":  func(_ *Result, r **trace.Recording, _ *Published) { (*r).Series[0].Group = "/other" },
		`there is no condition "absent"`:      func(_ *Result, _ **trace.Recording, p *Published) { p.Condition = "absent" },
		"no stationary state":                 func(_ *Result, r **trace.Recording, _ *Published) { multiply((*r).Series[0].Samples, 2) },
		"samples of 1s are longer than the p": func(_ *Result, r **trace.Recording, _ *Published) { (*r).Interval = time.Second },
		"the samples sum to 0; record while":  func(_ *Result, r **trace.Recording, _ *Published) { multiply((*r).Series[0].Samples, 0) },
	} {
		result, recording := bursting(200)
		p := Published{Answer: Answer{Figure: Full, Condition: "burst"}, From: "alone"}
		change(&result, &recording, &p)
		if got, err := result.Predict(t.Context(), p.Condition, p.From, recording); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, error %v, want %q", got, err, want)
		}
	}
}

func multiply(samples []trace.Sample, by time.Duration) {
	for i := range samples {
		samples[i].Usage *= by
	}
}

// TestRare checks means of what happens rarely, and intervals if it did not happen.
func TestRare(t *testing.T) {
	result, _ := bursting(1)
	add := func(round int, share float64, disturbed string) {
		result.Windows = append(result.Windows, Window{Round: round, Condition: "burst", Disturbed: disturbed,
			From: time.Duration(10*round) * time.Second, To: time.Duration(10*round+10) * time.Second, Figures: map[Figure]float64{Full: share, Backlog: 0, P99: 1}})
	}
	value := func(f Figure) Value { return result.Compare(Answer{Figure: f, Condition: "burst"}).Value }
	for round := range MinRounds {
		if v := value(Full); v.Bounded() {
			t.Errorf("%d rounds have the interval %+v", round, v)
		}
		add(round, 0, "")
	}
	add(6, 1, "by the test")
	if v := value(Full); v.Estimate != 0 || v.Low != 0 || math.Abs(v.High-3./60) > 1e-12 || v.Rounds != 6 {
		t.Errorf("%+v, want 0 to 0.05: nothing in 60 seconds", v)
	}
	if v := value(Backlog); v.Low != 0 || v.High != 0 {
		t.Errorf("%+v, want 0 milliseconds", v)
	}
	add(7, .14, "")
	if v := value(Full); math.Abs(v.Estimate-.02) > 1e-12 || v.Low != 0 || !(v.High > .05 && v.High < .1) {
		t.Errorf("%+v, want a mean of 0.02", v)
	}
	if v := result.Compare(Answer{Figure: Full, Condition: "quota"}).Value; v.Bounded() || v.Rounds != 0 {
		t.Errorf("%+v of a condition that was not measured", v)
	}
}

// TestWithout checks that nothing is compared with a condition that was left out.
func TestWithout(t *testing.T) {
	result, _ := bursting(1)
	c := result.Config
	c.Conditions = append(c.Conditions, Condition{Name: "more", Baseline: "quota"})
	answer := func(condition string) Answer { return Answer{Figure: Throttled, Condition: condition} }
	c.Answers = []Answer{answer("quota"), answer("burst"), answer("more")}
	c.Published = []Published{{Answer: answer("quota"), Value: 1}, {Answer: answer("burst"), From: "alone"}, {Answer: answer("more"), Value: 1}, {Answer: answer("more"), Value: 1, Of: 2}}
	before := fmt.Sprint(c)
	less, err := c.Without(map[string]string{"quota": "for the test"})
	if err == nil {
		err = less.Check()
	}
	if err != nil || len(less.Conditions) != 3 || len(less.Answers) != 1 || len(less.Published) != 2 {
		t.Errorf("%+v, error %v", less, err)
	}
	if baseline := (Result{Config: less}).Baseline("more"); baseline != "more" {
		t.Errorf("a condition without baseline is compared with %q", baseline)
	}
	if want := `The condition "quota" was left out: for the test.`; len(less.Notes) != 1 || less.Notes[0] != want {
		t.Errorf("notes %q, want %q", less.Notes, want)
	}
	if after := fmt.Sprint(c); after != before {
		t.Errorf("the experiment has changed from %s to %s", before, after)
	}
	if _, err := c.Without(map[string]string{"alone": "first", "quota": "second"}); err == nil || !strings.Contains(err.Error(), `"alone" was left out: first`) {
		t.Errorf("error %v, want that nothing is left to compare, with the reasons", err)
	}
}

// TestAnswering checks which conditions a quick run has: the first, those of answers, what these are
// compared with, and what predictions of them are made from.
func TestAnswering(t *testing.T) {
	result, _ := bursting(1)
	c := result.Config
	alone, burst := c.Conditions[0], c.Conditions[2]
	c.Conditions = append(c.Conditions, Condition{Name: "more", Baseline: "quota", Services: burst.Services},
		Condition{Name: "model", Services: alone.Services}, Condition{Name: "unused", Services: alone.Services})
	more := Answer{Figure: Throttled, Condition: "more"}
	c.Answers = []Answer{more}
	c.Published = []Published{{Answer: more, From: "model"}, {Answer: Answer{Figure: Throttled, Condition: "burst"}, From: "unused"}}
	less, err := c.Answering()
	if err == nil {
		err = less.Check()
	}
	var names []string
	for _, o := range less.Conditions {
		names = append(names, o.Name)
	}
	if err != nil || !slices.Equal(names, []string{"alone", "quota", "more", "model"}) {
		t.Errorf("conditions %q, error %v", names, err)
	}
	c.Answers = nil
	if all, err := c.Answering(); err != nil || len(all.Conditions) != len(c.Conditions) {
		t.Errorf("%d conditions without answers, error %v", len(all.Conditions), err)
	}
}
