package compute

import (
	"context"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/local/workload"
)

// piece is the CPU time that a thread of Demand uses between two looks at what is left.
const piece = 100 * time.Microsecond

// Demand wants a random amount of CPU time in each period, until ctx ends. Amounts have an
// exponential distribution. Several threads share the work, and what is not done in a period is
// added to the next. Periods begin at multiples of their length since the Unix epoch, so all
// programs on a machine begin at the same time. At the end of each period Demand prints how many
// milliseconds of CPU time are left, in lines as [Goodput] reads them.
func Demand(ctx context.Context, threads int, mean, period time.Duration, random *rand.Rand, out io.Writer) {
	runtime.GOMAXPROCS(threads + 1) // one for this goroutine, which must not wait for the others
	var left atomic.Int64           // nanoseconds
	var group sync.WaitGroup
	defer group.Wait()
	begin := make(chan struct{}, threads)
	defer close(begin)
	for range threads {
		group.Go(func() {
			for range begin {
				for ctx.Err() == nil && left.Load() > 0 {
					left.Add(-int64(workload.Burn(piece)))
				}
			}
		})
	}
	// A throttled program continues after the end of a period, or of several. Nothing was done in
	// these.
	for end := time.Now().Truncate(period).Add(period); sleep.For(ctx, time.Until(end)); end = end.Add(period) {
		printGoodput(out, float64(max(0, left.Load()))/float64(time.Millisecond))
		left.Add(int64(random.ExpFloat64() * float64(mean)))
		for range threads {
			select {
			case begin <- struct{}{}:
			default: // a thread that is still computing takes a look at what is left
			}
		}
	}
}
