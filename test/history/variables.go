package history

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// The environment variables of tests with random operations.
const (
	OperationsVariable = "PINFOLD_TEST_OPERATIONS" // how many there are
	SeedVariable       = "PINFOLD_TEST_SEED"       // repeats the operations of a run
)

// Variable returns the number in an environment variable, and value when it is not set.
func Variable(t testing.TB, name string, value int) int {
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
