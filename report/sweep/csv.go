package sweep

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/interference"
)

// columns of the CSV file have the names that "pinfold simulate -o json" gives them.
func columns() []string {
	return []string{"distribution", "mean", "cgroups", "burst", "rule", "seed", "periods", "expectedWCET", "expectedWCETStandardError",
		"probabilityWCET1", "probabilityWCET1StandardError", "throttleRatio", "throttleRatioStandardError", "warnings"}
}

// CSV writes a row for each simulation: distributions in their order, then groups,
// bursts and means ascending.
func (s *Sweep) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{columns()}
	for _, d := range s.Distributions {
		for _, l := range s.lines(d.Name) {
			for _, p := range l.points {
				rows = append(rows, s.row(p))
			}
		}
	}
	return out.WriteAll(rows) // which flushes
}

func (s *Sweep) row(p Point) []string {
	r := p.Result
	row := []string{p.Distribution, number(p.Mean), strconv.Itoa(p.Cgroups), burstText(p.Burst), s.Rule.String(),
		strconv.FormatUint(s.Seed, 10), strconv.FormatInt(r.Periods, 10)}
	for _, e := range []interference.Estimate{r.ExpectedWCET, r.ProbabilityWCET1, r.Groups[0].ThrottleRatio} {
		row = append(row, number(e.Value), number(e.StandardError))
	}
	return append(row, strings.Join(r.Warnings, "; "))
}

// number has all digits, so that what reads the file has the same value.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
