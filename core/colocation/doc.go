// Package colocation decides how much CPU time batch work may use beside online services.
//
//	b := colocation.New(colocation.Config{Threshold: 0.65, Floor: 0.5})
//	d := b.Step(colocation.Tick{Now: now, CPUs: 16, Others: 4.2})
//	// d.Budget is the quota of all batch work, d.Capacity what the node offers for it.
//
// # Budget
//
// Batch work and all others together should use Threshold of the shared CPUs. The budget is what
// the others leave of that, but at least Floor. It falls at once, and further than necessary if it
// fell a moment ago. It rises every five seconds, by a third of the distance to the least that was
// left in that time. Changes smaller than a band are not made. So the budget follows the peaks of
// the others' usage with few changes: each is a write, which refills the kernel's bucket, so that
// batch work may use one quota more.
//
// The budget bounds what batch work does to caches, memory bandwidth and sibling threads. Online
// services do not wait for it: batch work has idle priority and gives way in the kernel.
//
// With an objective, Threshold falls by a fifth whenever two ticks of a block of 100 miss it. The next block
// begins then, after a second that does not count. It rises again by 2% of the configured one after each 100 ticks that
// meet the objective. What online containers wait while batch work uses no more than the floor does
// not count.
//
// Batch work is starved if the budget was the floor for a minute, because of the others or of the
// objective. A minute without samples does not count, nor does a node without room for more.
//
// A scheduler for batch work runs nothing while other work uses all CPUs. [Rescue] decides which
// pods run outside of it then.
//
// # Capacity
//
// What the node offers to new batch pods is Threshold of the shared CPUs less what the others used
// in the busiest ten seconds of the last five minutes. It changes in steps, once in ten seconds at
// most.
package colocation
