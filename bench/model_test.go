package bench_test

import (
	"context"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"text/template"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference"
)

// modelFunctions are those whose figures are computed by the model.
func modelFunctions() template.FuncMap {
	return template.FuncMap{"late": late, "lateOf": lateOf, "throttled": throttled, "oneIn": oneIn}
}

// late returns the percentage of late periods of m containers with exponential demand of mean u and
// burst b, both in quotas, over some millions of periods. It is what 'pinfold simulate --seed 1'
// computes.
func late(rule string, millions float64, m int, u, b float64) (float64, error) {
	d, err := demand.NewExponential(u)
	if err != nil {
		return 0, err
	}
	return simulated(rule, millions, m, b, d)
}

// lateOf is late for lognormal demand.
func lateOf(sigma, millions float64, m int, u, b float64) (float64, error) {
	d, err := demand.NewLognormal(sigma, u)
	if err != nil {
		return 0, err
	}
	return simulated("strict", millions, m, b, d)
}

func simulated(rule string, millions float64, m int, b float64, d demand.Distribution) (float64, error) {
	r, err := interference.ParseRule(rule)
	if err != nil {
		return 0, err
	}
	if b < 0 {
		b = math.Inf(1)
	}
	result, err := interference.Simulate(context.Background(), interference.Config{
		Groups:   []interference.Group{{Count: m, Quota: 1 / float64(m), Burst: b, Demand: demand.Independent{Distribution: d}}},
		Capacity: 1, Rule: r, Periods: int64(1e6 * millions), Workers: runtime.GOMAXPROCS(0),
		Random: func(n uint64) *rand.Rand {
			var key [32]byte
			key[0] = 1
			binary.LittleEndian.PutUint64(key[8:16], n)
			return rand.New(rand.NewChaCha8(key))
		},
	})
	if err != nil {
		return 0, err
	}
	return 100 * (1 - result.ProbabilityWCET1.Value), nil
}

// throttled returns the share of throttled periods of one container with exponential demand of mean
// u and burst b, both in quotas, by its closed form, as a percentage.
func throttled(u, b float64) string {
	sigma := 0.
	for range 10_000 {
		sigma = math.Exp(-(1 - sigma) / u)
	}
	percent := 100 * math.Pow(sigma, 1+b)
	if percent >= 1 {
		return fmt.Sprintf("%.2f%%", percent)
	}
	return significant(3, percent) + "%"
}

// oneIn returns how many periods there are for each late one, with n significant digits, from the
// simulations for the charts.
func oneIn(n int, distribution string, mean float64, cgroups int, burst string) (string, error) {
	file, err := os.Open("../docs/charts/sweep.csv")
	if err != nil {
		return "", err
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return "", err
	}
	column := func(name string) int { return slices.Index(rows[0], name) }
	for _, row := range rows[1:] {
		if row[column("distribution")] != distribution || row[column("mean")] != fmt.Sprint(mean) || row[column("cgroups")] != strconv.Itoa(cgroups) || row[column("burst")] != burst {
			continue
		}
		inTime, err := strconv.ParseFloat(row[column("probabilityWCET1")], 64)
		if err != nil || inTime == 1 {
			return "", fmt.Errorf("P(WCET = 1) is %s: %w", row[column("probabilityWCET1")], err)
		}
		periods, err := strconv.ParseFloat(strconv.FormatFloat(1/(1-inTime), 'g', n, 64), 64)
		if err != nil {
			return "", err
		}
		text := strconv.FormatFloat(periods, 'f', -1, 64)
		if periods >= 1000 {
			text = text[:len(text)-3] + "," + text[len(text)-3:]
		}
		return text, nil
	}
	return "", fmt.Errorf("sweep.csv has no row %s, %v, %d, %s", distribution, mean, cgroups, burst)
}
