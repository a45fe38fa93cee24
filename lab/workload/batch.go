package workload

import (
	"context"
	"runtime"
	"sync"
)

// batchBuffer is the memory of one thread of batch work: more than the level 2 cache of most CPUs.
const batchBuffer = 4 << 20

// Batch keeps threads busy with hashing until ctx ends.
func Batch(ctx context.Context, threads int) {
	runtime.GOMAXPROCS(threads)
	var group sync.WaitGroup
	for range threads {
		group.Go(func() {
			buffer := make([]byte, batchBuffer)
			for ctx.Err() == nil {
				hash(buffer, len(buffer))
			}
		})
	}
	group.Wait()
}
