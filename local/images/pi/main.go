// Command pi computes digits of pi in many threads. It replaces the published java-pi image, with
// the same environment variables (limit, the number of digits, and threadNum) and the same log,
// including its spelling. One difference: the published log prints 3.14159264, whereas pi begins
// with 3.14159265.
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"pinfold.dev/pinfold/local/workload"
)

// Defaults and limits. The largest number of digits takes hours; that of threads is what one
// process may have.
const (
	defaultDigits, maxDigits   = 20000, 1_000_000
	defaultThreads, maxThreads = 3000, 9000
	shown                      = len("3.14159265")
)

func main() {
	if err := run(os.Getenv, "pi.txt", os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "pi: %v\n", err)
		os.Exit(1)
	}
}

func run(getenv func(string) string, path string, out io.Writer) error {
	digits, err := number(getenv, "limit", defaultDigits, maxDigits)
	if err != nil {
		return err
	}
	threads, err := number(getenv, "threadNum", defaultThreads, maxThreads)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "computing Pi with %d Threads...", threads)
	begin := time.Now()
	pi := workload.Pi(digits, threads)
	fmt.Fprintf(out, "computed the first %d digets of pi in %d ms! \n", digits, time.Since(begin).Milliseconds())
	fmt.Fprintf(out, "the first digets are: %s\n", pi[:min(shown, len(pi))])
	fmt.Fprintf(out, "writing to %s...\n", path)
	if err := os.WriteFile(path, []byte(pi+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the digits: %w", err)
	}
	fmt.Fprintln(out, "finished!")
	return nil
}

// number returns the value of an environment variable, or absent if it is not set.
func number(getenv func(string) string, name string, absent, maxValue int) (int, error) {
	text := getenv(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxValue {
		return 0, fmt.Errorf("%s=%q is not a number from 1 to %d", name, text, maxValue)
	}
	return n, nil
}
