package main

import (
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// known is pi according to https://oeis.org/A000796.
const known = "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706"

func TestCompute(t *testing.T) {
	for _, threads := range []int{1, 2, 7, 300} {
		if got := compute(len(known)-2, threads); got != known {
			t.Errorf("with %d threads: %s\nwant %s", threads, got, known)
		}
	}
	if got := compute(1, 3); got != "3.1" {
		t.Errorf("one digit: %s", got)
	}
}

// TestComputeAgrees compares compute with another formula, summed by one thread:
// pi = 8 arctan(1/3) + 4 arctan(1/7).
func TestComputeAgrees(t *testing.T) {
	const digits = 2000
	one := new(big.Int).Exp(big.NewInt(10), big.NewInt(digits+guard), nil)
	other := new(big.Int).Mul(partial(one, 3, 0, 1), big.NewInt(8))
	other.Add(other, new(big.Int).Mul(partial(one, 7, 0, 1), big.NewInt(4)))
	want := other.Quo(other, new(big.Int).Exp(big.NewInt(10), big.NewInt(guard), nil)).String()
	if got := strings.Replace(compute(digits, 13), ".", "", 1); got != want {
		t.Errorf("the two formulas disagree:\n%s\n%s", got, want)
	}
}

func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pi.txt")
	var out strings.Builder
	env := map[string]string{"limit": "50", "threadNum": "30"}
	if err := run(func(name string) string { return env[name] }, path, &out); err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^computing Pi with 30 Threads\.\.\.computed the first 50 digets of pi in \d+ ms! ` + "\n" +
		"the first digets are: 3.14159265\nwriting to " + regexp.QuoteMeta(path) + "\\.\\.\\.\nfinished!\n$")
	if !want.MatchString(out.String()) {
		t.Errorf("log\n%s\nwant\n%s", out.String(), want)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != known[:52]+"\n" {
		t.Errorf("the file has %q (%v)", text, err)
	}
}

func TestBadEnvironment(t *testing.T) {
	for name, value := range map[string]string{"limit": "0", "threadNum": "many"} {
		err := run(func(n string) string {
			if n == name {
				return value
			}
			return ""
		}, "unused", &strings.Builder{})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}
