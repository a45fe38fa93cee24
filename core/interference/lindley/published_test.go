package lindley_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// Where less than 5% of the periods miss their deadline, the aggregate is within 3% of the
// published figure, besides the rounding of that and the noise of a million periods.
func TestAggregateIsNearPublished(t *testing.T) {
	text, err := os.ReadFile("testdata/aggregate.txt")
	if err != nil {
		t.Fatal(err)
	}
	var published []string
	compared := 0
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) > 1 && words[0] == "#" && words[1] == "published":
			published = words[2:]
		case len(words) == 2 && len(published) > 0:
			var want, got float64
			if _, err := fmt.Sscan(published[0], &want); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Sscanf(words[1], "%g%%", &got); err != nil {
				t.Fatal(err)
			}
			published = published[1:]
			if want >= 5 {
				continue
			}
			compared++
			// A miss lasts some periods, so the noise is that of fewer periods.
			noise := 4 * math.Sqrt(5*want/100/1e6) * 100
			if math.Abs(got-want) > .03*want+.006+noise {
				t.Errorf("aggregate %v%%, published %v%%", got, want)
			}
		}
	}
	if compared != 22 {
		t.Errorf("compared %d figures", compared)
	}
}
