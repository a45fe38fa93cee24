/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Programs that see other work run and wake up, and keep batch work out of its way. */
#pragma once

#include "state.h"

/* For how long a CPU is held idle for other work, so that the kernel moves a waiting thread there.
 * It moves a thread that has woken up at once, and an interrupted one within some ticks. */
#define HOLD_WOKEN (2 * MS)
#define HOLD (10 * MS)

static bool is_other(struct task_struct *p)
{
	return p->pid && p->policy != SCHED_EXT && !(p->flags & PF_KTHREAD);
}

/* make_room makes batch work give up a CPU when a thread of other work waits behind other work. The
 * kernel takes a CPU that runs SCHED_EXT for busy, and moves nothing there. To a CPU that is idle
 * for a moment it does. */
static int make_room(struct task_struct *p, u64 hold)
{
	struct masks *m = bpf_map_lookup_elem(&masks, &zero);
	struct bpf_cpumask *batch = m ? m->batch : 0;
	u32 cpu;

	if (!batch)
		return 0;
	cpu = bpf_cpumask_any_and_distribute((const struct cpumask *)batch, p->cpus_ptr);
	if (cpu < nr_cpus) {
		WRITE_ONCE(cpu_of(cpu)->held, bpf_ktime_get_ns() + hold);
		__sync_fetch_and_add(&counters.yielded, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

/* close keeps batch work off a CPU beside which other work begins to run. */
static void close(s32 cpu, struct masks *m)
{
	struct bpf_cpumask *open = m->open, *batch = m->batch;

	if (open)
		bpf_cpumask_clear_cpu(cpu, open);
	if (batch && bpf_cpumask_test_cpu(cpu, (const struct cpumask *)batch)) {
		__sync_fetch_and_add(&counters.expelled, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/* reopen lets batch work run on a CPU again. */
static void reopen(s32 cpu, struct masks *m)
{
	struct bpf_cpumask *open = m->open;

	if (open)
		bpf_cpumask_set_cpu(cpu, open);
	if (nr_waiting)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Keeps batch work off the cores on which other work runs, and off CPUs that other work takes. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	s32 number = bpf_get_smp_processor_id();
	struct cpu *cpu = cpu_of(number);
	bool other = is_other(next);
	struct masks *m;

	if (other && prev->policy == SCHED_EXT)
		empty(number);
	if (other && (preempt || !prev_state) && is_other(prev))
		make_room(prev, HOLD);
	if (other == cpu->other)
		return 0;
	WRITE_ONCE(cpu->other, other);
	m = bpf_map_lookup_elem(&masks, &zero);
	if (!m)
		return 0;
	for (int i = 0; i < MAX_SIBLINGS; i++) {
		s32 sibling = siblings[number & (MAX_CPUS - 1)][i];

		if (sibling < 0)
			break;
		if (other)
			close(sibling, m);
		else if (!beside_other(sibling))
			reopen(sibling, m);
	}
	return 0;
}

static int on_woken(struct task_struct *p)
{
	return is_other(p) && READ_ONCE(cpu_of(scx_bpf_task_cpu(p))->other) ? make_room(p, HOLD_WOKEN) : 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *p)
{
	return on_woken(p);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
	return on_woken(p);
}
