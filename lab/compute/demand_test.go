package compute

import (
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// TestDemand checks that the program uses the CPU time that it wants, and has little left. Both
// hold on a busy machine, too: what is left is done later, so a test that was disturbed waits for
// longer.
func TestDemand(t *testing.T) {
	need.This(t, "CPU time in time")
	const mean, period = 2 * time.Millisecond, 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines, output := io.Pipe()
	random := rand.New(rand.NewPCG(1, 2))
	ended := make(chan struct{})
	before := cpuTime(t)
	go func() {
		defer close(ended)
		Demand(ctx, 2, mean, period, random, output)
		output.Close()
	}()
	wanted := time.Duration(0)
	same := rand.New(rand.NewPCG(1, 2)) // draws the same amounts
	for periods := 0; ; periods++ {
		buffer := make([]byte, 100)
		n := must.Get(lines.Read(buffer))(t)
		left, ok := Goodput(string(buffer[:n]))
		if !ok || left < 0 {
			t.Fatalf("a line %q, want what is left", strings.TrimSpace(string(buffer[:n])))
		}
		if periods >= 30 && left == 0 {
			break
		}
		if periods == 1000 {
			t.Fatal("something is always left")
		}
		wanted += time.Duration(same.ExpFloat64() * float64(mean))
	}
	used := cpuTime(t) - before
	cancel()
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	<-ended
	if used < wanted {
		t.Errorf("used %v of CPU time, want at least %v", used, wanted)
	}
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage unix.Rusage
	must.Do(t, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
