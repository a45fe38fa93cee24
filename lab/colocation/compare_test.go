package colocation

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// experiment returns windows of a service that takes 1 ms alone and ratio times as long with batch
// work, both with the noise of a machine, which is partly the same for the windows of a round.
func experiment(random *rand.Rand, rounds int, ratio float64) (windows []Window) {
	for round := range rounds {
		common := math.Exp(0.1 * random.NormFloat64())
		for name, factor := range map[string]float64{Alone: 1, "idle": ratio} {
			w := Window{Round: round, Condition: name, Online: 0.3, Batch: 0.4}
			for _, q := range []*float64{&w.P50, &w.P90, &w.P99, &w.P999} {
				*q = 1000 * factor * common * math.Exp(0.05*random.NormFloat64())
			}
			windows = append(windows, w)
		}
	}
	return windows
}

// TestIntervals checks that the interval contains the true ratio about as often as it promises, and
// that it is as narrow as the noise within a round allows: that of whole rounds cancels out.
func TestIntervals(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const experiments, rounds = 300, 30
	contained, width := 0, 0.0
	for range experiments {
		ratio := math.Exp(0.3 * random.NormFloat64())
		c := Compare([]Condition{{Name: "idle"}}, experiment(random, rounds, ratio), random.Uint64())[0]
		if c.P99.Low <= ratio && ratio <= c.P99.High {
			contained++
		}
		width += math.Log(c.P99.High/c.P99.Low) / experiments
	}
	// 95%, less what the percentile bootstrap lacks with 30 pairs, and four standard errors.
	if contained < experiments*88/100 || contained > experiments*995/1000 {
		t.Errorf("%d of %d intervals contain the ratio", contained, experiments)
	}
	// Twice 1.96 standard errors of the mean of differences with a deviation of 0.05 * sqrt(2).
	want := 2 * 1.96 * 0.05 * math.Sqrt(2.0/rounds)
	if width < 0.8*want || width > 1.2*want {
		t.Errorf("the intervals have a mean width of %.4f, want about %.4f", width, want)
	}
}

// TestPairs checks which windows are compared: a disturbed one is replaced by its repetition, and a
// round without one of the two does not count.
func TestPairs(t *testing.T) {
	conditions := []Condition{{Name: Alone}, {Name: "idle", Batch: true}}
	windows := func(rounds int) []Window { return experiment(rand.New(rand.NewPCG(3, 4)), rounds, 1) }
	disturbedAlone := windows(leastPairs)
	disturbedAlone[0].Disturbed = "other processes"
	repeated := append(disturbedAlone, disturbedAlone[0])
	repeated[len(repeated)-1].Disturbed = ""
	for _, test := range []struct {
		name       string
		windows    []Window
		pairs      int
		conclusive bool
	}{
		{"none", nil, 0, false},
		{"one too few", windows(leastPairs - 1), leastPairs - 1, false},
		{"enough", windows(leastPairs), leastPairs, true},
		{"one disturbed", disturbedAlone, leastPairs - 1, false},
		{"repeated", repeated, leastPairs, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := Result{Config: Config{Conditions: conditions}, Windows: test.windows}
			idle := result.Compare()[1]
			if idle.Pairs != test.pairs || idle.Conclusive != test.conclusive {
				t.Errorf("%d pairs, conclusive %t, want %d, %t", idle.Pairs, idle.Conclusive, test.pairs, test.conclusive)
			}
			var table strings.Builder
			if err := result.WriteTable(&table); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(table.String(), "cannot conclude") == test.conclusive {
				t.Errorf("the table says\n%s", table.String())
			}
		})
	}
}

// TestDisturbed checks what makes a window unusable.
func TestDisturbed(t *testing.T) {
	c := Config{Foreign: 0.02}
	for _, test := range []struct {
		window Window
		want   string
	}{
		{Window{Foreign: 0.02, Stolen: 0.02, P99: 1e9}, ""},
		{Window{Foreign: 0.021}, "other processes used 2.1%"},
		{Window{Stolen: 0.03}, "the hypervisor took 3.0%"},
		{Window{Failed: 1}, "1 requests failed"},
	} {
		if got := c.disturbed(test.window); !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%+v: %q, want %q", test.window, got, test.want)
		}
	}
}

// TestFile writes and reads a result, and reads damaged ones.
func TestFile(t *testing.T) {
	config := small()
	config.Workload, config.Progress = nil, nil
	want := Result{Config: config, CPUTime: 1000, Every: 3000, Windows: experiment(rand.New(rand.NewPCG(5, 6)), 3, 1.1)}
	var file strings.Builder
	if err := want.Write(&file); err != nil {
		t.Fatal(err)
	}
	have, err := Read(strings.NewReader(file.String()))
	if err != nil || !reflect.DeepEqual(have, want) {
		t.Errorf("%+v, error %v, want %+v", have, err, want)
	}
	head, _, _ := strings.Cut(file.String(), "\n")
	for text, want := range map[string]string{
		"":                                 "the first line is no experiment",
		"{}":                               "the first line is no experiment",
		"[]":                               "the first line is no experiment",
		head + "\n{\"round\":":             "line 2 is no window",
		head + "\n{\"unknown\":1}":         "line 2 is no window",
		head + "\n{\"round\":1}\n\"text\"": "line 3 is no window",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q...: error %v, want %q", text, err, want)
		}
	}
}
