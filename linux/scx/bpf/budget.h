/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The budget of batch work: a bucket of CPU time. Each CPU takes from it what its batch work has
 * used, and the timer refills it.
 */
#pragma once

#include "kernel.h"
#include <bpf/bpf_helpers.h>

#define MS 1000000ULL

/* The bucket holds at most what the budget yields in this time. */
#define BUCKET (100 * MS)
/* The largest debt of the bucket, in full buckets. Overdue threads may use more, which is not paid back. */
#define MOST_DEBT 10

#define UNBOUNDED ~0U

/* In thousandths of a CPU. The user sets it at any time. */
volatile u32 budget = UNBOUNDED;

/* CPU time, ns. Several CPUs change it at once, so that each change is an atomic addition. */
struct {
	s64 left;
} OWN_LINES tokens;

/* affordable reports whether the budget is not used up. */
static inline bool affordable(void)
{
	return budget == UNBOUNDED || READ_ONCE(tokens.left) > 0;
}

/* spend takes CPU time that batch work has used, ns. */
static void spend(s64 used)
{
	if (budget != UNBOUNDED)
		__sync_fetch_and_add(&tokens.left, -used);
}

/* refill adds what the budget has yielded in a time, ns. Only the timer calls it. What other CPUs
 * spend meanwhile remains spent, because the difference is added. */
static void refill(u64 passed)
{
	u32 rate = budget;
	s64 most = BUCKET / 1000 * rate, left = READ_ONCE(tokens.left), filled = left + passed * rate / 1000;

	if (rate == UNBOUNDED)
		return;
	if (filled > most)
		filled = most;
	if (filled < -MOST_DEBT * most)
		filled = -MOST_DEBT * most;
	__sync_fetch_and_add(&tokens.left, filled - left);
}
