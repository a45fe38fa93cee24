// Package variables reads the environment variables that make tests longer or repeat them.
package variables

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// The variables of tests with random operations.
const (
	Operations = "PINFOLD_TEST_OPERATIONS" // how many there are
	Seed       = "PINFOLD_TEST_SEED"       // repeats the operations of a run
)

// Int returns the number in an environment variable, and value when it is not set.
func Int(t testing.TB, name string, value int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return value
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s is %q: set it to a number", name, text)
	}
	return number
}

// Duration returns the duration in an environment variable, and value when it is not set.
func Duration(t testing.TB, name string, value time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return value
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s is %q: set it to a duration, such as 1m", name, text)
	}
	return duration
}
