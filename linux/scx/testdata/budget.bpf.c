// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0

/* The budget alone, for TestBudgetCharges. */
#include "../bpf/budget.h"

char gpl[] SEC("license") = "GPL";

#define TIMES 50000

struct each {
	u64 ns;
};

static long spend_once(u64 i, struct each *each)
{
	spend(each->ns);
	return 0;
}

static long refill_once(u64 i, struct each *each)
{
	refill(each->ns);
	return 0;
}

/* spend_often spends a time, TIMES times. */
SEC("syscall")
int spend_often(struct each *context)
{
	struct each each = *context;

	return bpf_loop(TIMES, spend_once, &each, 0) != TIMES;
}

/* refill_often refills the bucket by what it yields in a time, TIMES times. */
SEC("syscall")
int refill_often(struct each *context)
{
	struct each each = *context;

	return bpf_loop(TIMES, refill_once, &each, 0) != TIMES;
}
