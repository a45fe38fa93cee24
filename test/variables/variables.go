// Package variables reads the environment variables that make tests run longer or repeat them.
package variables

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Variables of tests with random operations.
const (
	Operations = "PINFOLD_TEST_OPERATIONS" // the number of operations
	Seed       = "PINFOLD_TEST_SEED"       // repeats the operations of a previous run
)

// Int returns the number in an environment variable, or value if it is not set.
func Int(t testing.TB, name string, value int) int {
	t.Helper()
	return parsed(t, name, value, strconv.Atoi, "a number")
}

// Duration returns the duration in an environment variable, or value if it is not set.
func Duration(t testing.TB, name string, value time.Duration) time.Duration {
	t.Helper()
	return parsed(t, name, value, time.ParseDuration, "a duration, such as 1m")
}

func parsed[T any](t testing.TB, name string, value T, parse func(string) (T, error), want string) T {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return value
	}
	value, err := parse(text)
	if err != nil {
		t.Fatalf("%s is %q: set it to %s", name, text, want)
	}
	return value
}
