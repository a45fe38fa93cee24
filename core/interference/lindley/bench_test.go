package lindley_test

import (
	"fmt"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/interference/lindley"
)

// The reference cases have u = .7 and b = 0, 1, 2, 4.
var (
	references = []string{"exponential .7", "pareto 4 .7"}
	bursts     = []float64{0, 1, 2, 4}
)

// BenchmarkBounds also reports the width of the bounds, relative to the probability, at b = 0 and b
// = 4.
func BenchmarkBounds(b *testing.B) {
	for _, name := range append(references, "disguised exponential .7") {
		for _, steps := range []int{256, 1024, 4096} {
			b.Run(fmt.Sprintf("%s/steps=%d", strings.ReplaceAll(name, " ", "="), steps), func(b *testing.B) {
				d := must(b, strings.Fields(name)...)
				var found []lindley.Throttling
				for b.Loop() {
					var err error
					if found, _, err = lindley.Bounds(d, bursts, steps); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(width(found[0])/found[0].Probability, "width/b0")
				b.ReportMetric(width(found[3])/found[3].Probability, "width/b4")
			})
		}
	}
}
