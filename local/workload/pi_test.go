package workload

import (
	"math/big"
	"strings"
	"testing"
)

// known is pi according to https://oeis.org/A000796.
const known = "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706"

func TestPi(t *testing.T) {
	for _, threads := range []int{1, 2, 7, 300} {
		if got := Pi(len(known)-2, threads); got != known {
			t.Errorf("with %d threads: %s\nwant %s", threads, got, known)
		}
	}
	if got := Pi(1, 3); got != "3.1" {
		t.Errorf("one digit: %s", got)
	}
}

// TestPiAgrees compares Pi with another formula, summed by one thread:
// pi = 8 arctan(1/3) + 4 arctan(1/7).
func TestPiAgrees(t *testing.T) {
	const digits = 2000
	one := new(big.Int).Exp(big.NewInt(10), big.NewInt(digits+guard), nil)
	other := new(big.Int).Mul(partial(one, 3, 0, 1), big.NewInt(8))
	other.Add(other, new(big.Int).Mul(partial(one, 7, 0, 1), big.NewInt(4)))
	want := other.Quo(other, new(big.Int).Exp(big.NewInt(10), big.NewInt(guard), nil)).String()
	if got := strings.Replace(Pi(digits, 13), ".", "", 1); got != want {
		t.Errorf("the two formulas disagree:\n%s\n%s", got, want)
	}
}
