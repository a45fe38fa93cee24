// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0

/*
 * A scheduler for batch work
 * ==========================
 *
 * It runs the threads whose policy is SCHED_EXT. All other threads are "other work": the kernel's
 * other classes run them, and come first. This is how a thread of batch work gets a CPU.
 *
 * 1. Order: each pod has a queue
 * ------------------------------
 * A thread that wants to run goes to the queue of its pod (enqueue). Each thread and each pod has a
 * virtual time, which is the CPU time that it has used, divided by its weight. A queue is in the
 * order of its threads' virtual times. A CPU takes the first thread from the queue of the pod whose
 * virtual time is least (dispatch). So pods get CPU time in proportion to their weights, and the
 * number of threads in a pod does not matter. A pod or thread that sleeps does not save up CPU time.
 * When it wakes up, its virtual time is raised to the front, the virtual time of the one that ran
 * last.
 *
 * 2. Budget: how much CPU time all pods may use
 * ---------------------------------------------
 * The budget fills a bucket with tokens every 10 ms (budget.h). The tick takes the CPU time that a
 * thread has used from the bucket. While the bucket is empty, a tick ends the slice of each thread,
 * and CPUs take no other. A thread runs until its next tick, so the bucket may be overdrawn by a
 * tick of each CPU. Later refills pay that back.
 *
 * 3. Other work: which CPUs batch work may use
 * --------------------------------------------
 * A program at sched_switch sees which CPUs run other work (room.h). Batch work is not put on the
 * siblings of these CPUs, and is interrupted when other work begins beside it. When a thread of
 * other work has to wait behind other work, batch work gives up a CPU, and holds it idle for some
 * milliseconds, so that the kernel moves the waiting thread there.
 *
 * 4. Starvation: no thread waits for ever
 * ---------------------------------------
 * A timer searches the queues for overdue threads, which have waited for max_wait (timer.h). It
 * moves them to a queue of their own. Every CPU serves this queue first, in spite of the budget and
 * of other work beside it, with the shortest slice. A thread that ends is put there at once,
 * because others may wait for what it holds. The more threads wait, the shorter the slices are, so
 * that most threads run before they are overdue.
 *
 * 5. Cost: what a program does at most
 * ------------------------------------
 * A program runs with interrupts off, or in place of the threads of its CPU. It delays other work,
 * so it must be short. Enqueue, tick, running and stopping look at one thread and the CPUs of its
 * core. Dispatch asks each of the PODS queues for its length once. It then tries to take a thread
 * from OVERDUE and from MOST_TRIED other queues at most. In each of these, the kernel looks for a
 * thread that may run on the CPU. The bound of the timer is in timer.h.
 *
 * See the package comment of linux/scx for how it is used, and layout.go for the Go side of the
 * types.
 */
#include "state.h"
#include "timer.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "room.h"

char gpl[] SEC("license") = "GPL";

/* charge accounts for the CPU time of a CPU's thread up to now. */
static void charge(s32 cpu, struct task_struct *p)
{
	struct cpu *c = cpu_of(cpu);
	struct pod *pod = pod_at(c->pod);
	struct thread *t = bpf_task_storage_get(&threads, p, 0, 0);
	u64 now = bpf_ktime_get_ns();
	s64 used = now - c->charged;
	u32 weight = p->scx.weight;

	if (used <= 0)
		return;
	c->charged = now;
	__sync_fetch_and_add(&pod->used, used);
	__sync_fetch_and_add(&pod->vtime, used * 100 / weight_of(c->pod));
	spend(used);
	if (!t)
		return;
	t->vtime += used * 100 / (weight ? weight : 1);
	if (t->overdue)
		__sync_fetch_and_add(&counters.overdrawn, used);
}

/* find_idle takes an idle CPU that batch work may be put on, and returns it, or -1. */
static s32 find_idle(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct masks *m = bpf_map_lookup_elem(&masks, &zero);
	struct bpf_cpumask *open;

	if (!m || !affordable())
		return -1;
	open = m->open;
	return open ? select(p, prev_cpu, wake_flags, open) : -1;
}

/* The thread goes to its pod's queue in any case. The kernel wakes up the CPU, which takes the
 * thread from the queue if it is the pod's turn. */
SEC("struct_ops/select_cpu")
s32 BPF_PROG(select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = find_idle(p, prev_cpu, wake_flags);

	return cpu < 0 ? prev_cpu : cpu;
}

SEC("struct_ops/enqueue")
void BPF_PROG(enqueue, struct task_struct *p, u64 enq_flags)
{
	struct thread *t = thread_of(p);
	u64 queue = QUEUE + STRANGERS, vtime = 0;

	if (t) {
		u64 least = READ_ONCE(pod_at(t->pod)->front) - LONGEST_SLICE;

		if ((s64)(t->vtime - least) < 0)
			t->vtime = least;
		vtime = t->vtime;
		queue = queue_of(t->pod);
		enter(t->pod);
		if (!t->since)
			t->since = bpf_ktime_get_ns();
		t->overdue = dying(p);
		if (t->overdue) {
			queue = OVERDUE;
			vtime = t->since;
		}
	}
	insert(p, queue, slice, vtime, enq_flags);
	s32 cpu = queue == OVERDUE ? scx_bpf_task_cpu(p) : find_idle(p, scx_bpf_task_cpu(p), 0);

	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* turn returns the virtual time of a pod, with what its running threads will have used. */
static u64 turn(u32 number)
{
	struct pod *pod = pod_at(number);

	return READ_ONCE(pod->vtime) + READ_ONCE(pod->running) * slice * 100 / weight_of(number);
}

#define MOST_TRIED 8

/* A pod with threads in its queue. */
struct next {
	u64 turn;
	s64 pod; /* -1 if there is none */
};

/* next_pods finds the pods whose turns are next, in order, in one pass over all pods. */
static __always_inline void next_pods(struct next *best)
{
	struct bpf_iter_num it;
	int *i;

	for (int j = 0; j < MOST_TRIED; j++)
		best[j] = (struct next){ .pod = -1 };
	bpf_iter_num_new(&it, 0, nr_pods & (2 * PODS - 1));
	while ((i = bpf_iter_num_next(&it))) {
		struct next pod = { .pod = *i };

		if (!queued_in(queue_of(pod.pod)))
			continue;
		pod.turn = turn(pod.pod);
		for (int j = 0; j < MOST_TRIED && pod.pod >= 0; j++) {
			struct next other = best[j];

			if (other.pod >= 0 && (s64)(pod.turn - other.turn) >= 0)
				continue;
			best[j] = pod;
			pod = other;
		}
	}
	bpf_iter_num_destroy(&it);
}

/* dispatch_by gives a CPU the next thread, with take or take_before. prev is the thread that the
 * CPU has run. It goes on if it is runnable and no pod comes before its own. */
static __always_inline void dispatch_by(bool (*take_one)(u64 queue), s32 cpu, struct task_struct *prev)
{
	struct next best[MOST_TRIED];
	struct thread *t;

	if (queued_in(OVERDUE) && take_one(OVERDUE))
		return;
	if (!affordable() || barred(cpu))
		return;
	if (prev && !(prev->scx.flags & SCX_TASK_QUEUED))
		prev = 0;
	next_pods(best);
	t = prev ? bpf_task_storage_get(&threads, prev, 0, 0) : 0;
	for (int i = 0; i < MOST_TRIED && best[i].pod >= 0; i++) {
		u32 number = best[i].pod;

		if (t && t->pod != number && (s64)(READ_ONCE(pod_at(t->pod)->vtime) - best[i].turn) < 0)
			break;
		if (take_one(queue_of(number))) {
			raise(&front.vtime, READ_ONCE(pod_at(number)->vtime));
			return;
		}
	}
	if (prev)
		set_slice(prev, slice);
}

SEC("struct_ops/dispatch")
void BPF_PROG(dispatch, s32 cpu, struct task_struct *prev)
{
	dispatch_by(take, cpu, prev);
}

/* Before Linux 7.1 the loader sets this as ops.dispatch. */
SEC("struct_ops/dispatch")
void BPF_PROG(dispatch_before, s32 cpu, struct task_struct *prev)
{
	dispatch_by(take_before, cpu, prev);
}

SEC("struct_ops/tick")
void BPF_PROG(tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct thread *t = bpf_task_storage_get(&threads, p, 0, 0);

	charge(cpu, p);
	if (!(t && t->overdue) && (!affordable() || barred(cpu)))
		set_slice(p, 0);
}

/* mark notes whether a CPU runs batch work. */
static void mark(s32 cpu, bool is)
{
	struct masks *m = bpf_map_lookup_elem(&masks, &zero);
	struct bpf_cpumask *batch = m ? m->batch : 0;

	if (batch && is)
		bpf_cpumask_set_cpu(cpu, batch);
	else if (batch)
		bpf_cpumask_clear_cpu(cpu, batch);
}

SEC("struct_ops/running")
void BPF_PROG(running, struct task_struct *p)
{
	struct thread *t = thread_of(p);
	s32 number = scx_bpf_task_cpu(p);
	struct cpu *cpu = cpu_of(number);
	u64 now = bpf_ktime_get_ns();
	struct pod *pod;

	cpu->charged = now;
	cpu->pod = t ? t->pod & (PODS - 1) : STRANGERS;
	mark(number, true);
	pod = pod_at(cpu->pod);
	__sync_fetch_and_add(&pod->running, 1);
	if (!t)
		return;
	if (t->since) {
		u64 waited = now - t->since;

		t->since = 0;
		__sync_fetch_and_add(&pod->waited, waited);
		raise(&pod->longest, waited);
	}
	raise(&pod->front, t->vtime);
	if (t->overdue)
		__sync_fetch_and_add(&pod->overdue, 1);
	else if (barred(number))
		scx_bpf_kick_cpu(number, SCX_KICK_PREEMPT); /* the CPU was barred after dispatch */
}

SEC("struct_ops/stopping")
void BPF_PROG(stopping, struct task_struct *p, bool runnable)
{
	s32 number = scx_bpf_task_cpu(p);
	struct thread *t = bpf_task_storage_get(&threads, p, 0, 0);

	charge(number, p);
	mark(number, false);
	__sync_fetch_and_add(&pod_at(cpu_of(number)->pod)->running, -1);
	if (t) {
		t->overdue = 0;
		t->since = runnable ? bpf_ktime_get_ns() : 0;
	}
}

SEC("struct_ops/quiescent")
void BPF_PROG(quiescent, struct task_struct *p, u64 deq_flags)
{
	struct thread *t = bpf_task_storage_get(&threads, p, 0, 0);

	if (t)
		t->since = 0;
}

SEC("struct_ops/enable")
void BPF_PROG(enable, struct task_struct *p)
{
	struct thread *t = thread_of(p);

	if (t) {
		t->since = 0;
		t->overdue = 0;
	}
}

/* Before Linux 7.1, the kernel calls this when other work takes a CPU: see empty. */
SEC("struct_ops/cpu_release")
void BPF_PROG(cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
}

/* Without these the kernel ends the scheduler when a CPU comes or goes. */
SEC("struct_ops/cpu_online")
void BPF_PROG(cpu_online, s32 cpu)
{
}

SEC("struct_ops/cpu_offline")
void BPF_PROG(cpu_offline, s32 cpu)
{
	WRITE_ONCE(cpu_of(cpu)->other, 0);
}

/* new_mask puts a new set of CPUs in a place. */
static s32 new_mask(struct bpf_cpumask __kptr **at, bool full)
{
	struct bpf_cpumask *mask = bpf_cpumask_create();

	if (!mask)
		return -ENOMEM;
	if (full)
		bpf_cpumask_setall(mask);
	mask = bpf_kptr_xchg(at, mask);
	if (mask)
		bpf_cpumask_release(mask);
	return 0;
}

SEC("struct_ops.s/init")
s32 BPF_PROG(init)
{
	struct masks *m = bpf_map_lookup_elem(&masks, &zero);
	struct clock *c = bpf_map_lookup_elem(&clock, &zero);
	struct bpf_iter_num it;
	s32 err = 0;
	int *i;

	ended.kind = 0; /* it may have been attached before */
	if (nr_cpus > MAX_CPUS) {
		fail("the machine may have %u CPUs, the scheduler %u", nr_cpus, MAX_CPUS);
		return -EINVAL;
	}
	if (!m || !c)
		return -ENOENT; /* they exist, but the verifier does not know */
	err = new_mask(&m->open, true);
	if (!err)
		err = new_mask(&m->batch, false);
	if (err) {
		fail("no memory for the sets of CPUs (%d)", err);
		return err;
	}
	bpf_iter_num_new(&it, 0, PODS + 1); /* OVERDUE, too */
	while (!err && (i = bpf_iter_num_next(&it))) {
		err = scx_bpf_create_dsq(QUEUE + *i, -1);
		if (err)
			fail("queue %u cannot be created (%d)", *i, err);
	}
	bpf_iter_num_destroy(&it);
	if (err)
		return err;
	search.pod = PODS + 1;
	search.before = 0;
	c->refilled = bpf_ktime_get_ns();
	err = bpf_timer_init(&c->timer, &clock, CLOCK_MONOTONIC);
	if (!err || err == -EBUSY) /* it exists, if the scheduler has been attached before */
		err = bpf_timer_set_callback(&c->timer, on_timer);
	if (!err)
		err = bpf_timer_start(&c->timer, REFILL_EVERY, 0);
	if (err)
		fail("the timer cannot be started (%d)", err);
	return err;
}

SEC("struct_ops/exit")
void BPF_PROG(at_exit, struct scx_exit_info *info)
{
	bpf_probe_read_kernel_str(ended.reason, sizeof(ended.reason), info->reason);
	bpf_probe_read_kernel_str(ended.message, sizeof(ended.message), info->msg);
	WRITE_ONCE(ended.kind, info->kind);
}

SEC(".struct_ops.link")
struct sched_ext_ops batch = {
	.select_cpu = (void *)select_cpu,
	.enqueue = (void *)enqueue,
	.dispatch = (void *)dispatch,
	.tick = (void *)tick,
	.running = (void *)running,
	.stopping = (void *)stopping,
	.quiescent = (void *)quiescent,
	.enable = (void *)enable,
	.cpu_release = (void *)cpu_release,
	.cpu_online = (void *)cpu_online,
	.cpu_offline = (void *)cpu_offline,
	.init = (void *)init,
	.exit = (void *)at_exit,
	/* Without the last three, the kernel puts some threads on a CPU's own queue, past the budget. */
	.flags = SCX_OPS_SWITCH_PARTIAL | SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "pinfold",
};
