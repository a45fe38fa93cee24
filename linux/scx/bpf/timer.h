/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The timer. It runs every 10 ms on one CPU, and no thread runs there meanwhile. So a run has a
 * bound. At most, it looks at most_searched threads, passes over MOST_PASSED threads that earlier
 * runs have looked at, visits each of the PODS + 1 queues twice, empties the queues of MOST_CPUS
 * CPUs and wakes MOST_CPUS CPUs. The next run goes on where this one has stopped.
 */
#pragma once

#include "state.h"

#define REFILL_EVERY (10 * MS)
#define SEARCH_EVERY (50 * MS)
#define MOST_PASSED 4096
#define MOST_CPUS 128

#define LONGEST_SLICE (5 * MS)
#define SHORTEST_SLICE (1 * MS)

/* A search of 4,096 threads takes 160 ms, in 16 runs. Set by the loader. */
const volatile u32 most_searched = 256;

struct clock {
	struct bpf_timer timer;
	u64 refilled; /* when */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct clock);
} clock SEC(".maps");

/* The search for overdue threads goes through the queues of all pods, and then through that of
 * overdue threads. This is where it is. The timer alone uses it. It is in memory because the
 * verifier follows each value of a register. */
static struct {
	volatile u64 began;
	volatile u32 pod;      /* in whose queue it is; PODS for overdue threads, larger after the end */
	volatile u32 before;   /* threads at the head of that queue that it has looked at in earlier runs */
	volatile u32 at;       /* threads of that queue so far in this run */
	volatile u32 searched; /* threads so far in this run, of all queues */
	volatile u32 cpu;      /* the next one to empty */
	volatile u64 waiting;  /* threads in queues */
	volatile u64 running;  /* CPUs that run batch work */
} OWN_LINES search;

/* The longest and the largest run of the timer since the scheduler was loaded. */
struct worst {
	u64 ns;
	u32 searched, passed;
} OWN_LINES;
struct worst worst;

/* wake_for wakes an idle CPU for an overdue thread. */
static void wake_for(struct task_struct *p)
{
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	scx_bpf_kick_cpu(cpu < 0 ? scx_bpf_task_cpu(p) : cpu, SCX_KICK_IDLE);
}

/* look treats a waiting thread of a queue, and reports whether the thread has left the queue. */
static bool look(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 queue, u64 now)
{
	struct thread *t = thread_of(p);
	s64 waited;
	s32 cpu;

	if (!t)
		return false;
	waited = t->since ? now - t->since : 0;
	if ((s64)pod_at(t->pod)->found < waited)
		pod_at(t->pod)->found = waited;
	if (queue == OVERDUE) {
		wake_for(p);
		return false;
	}
	if (queue_of(t->pod) != queue) /* the pods have changed, or the thread has moved to another one */
		return move(it, p, queue_of(t->pod), t->vtime);
	if (waited < (s64)max_wait && !dying(p)) {
		cpu = scx_bpf_task_cpu(p); /* it may be the only one for this thread */
		if (affordable() && !barred(cpu))
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return false;
	}
	WRITE_ONCE(t->overdue, 1);
	move_slice(it, SHORTEST_SLICE);
	if (move(it, p, OVERDUE, t->since))
		wake_for(p);
	else
		WRITE_ONCE(t->overdue, 0); /* a CPU took it meanwhile */
	return true;
}

/* search_queue goes on in the present queue, and then to the next one unless the run's bound is reached. */
__noinline int search_queue(u64 now)
{
	u32 pod = search.pod;
	u64 queue = pod < PODS ? queue_of(pod) : OVERDUE;
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	bool end = true;

	search.at = 0;
	bpf_rcu_read_lock();
	bpf_iter_scx_dsq_new(&it, queue, 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		if (search.at < search.before) {
			search.at++;
			continue;
		}
		if (search.at >= MOST_PASSED)
			break;
		if (search.searched >= most_searched) {
			end = false;
			break;
		}
		search.searched++;
		if (!look(&it, p, queue, now))
			search.at++;
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	if (worst.passed < search.before)
		worst.passed = search.before;
	search.before = end ? 0 : search.at;
	if (end)
		search.pod = pod + 1 == nr_pods ? PODS : pod + 1;
	return 0;
}

/* count counts the threads of a pod, and publishes its longest wait after a search. */
__noinline int count(u32 number, bool searched)
{
	struct pod *pod = pod_at(number);

	search.waiting += queued_in(queue_of(number));
	search.running += READ_ONCE(pod->running);
	if (searched) {
		WRITE_ONCE(pod->waiting, pod->found);
		pod->found = 0;
	}
	return 0;
}

/* search_some goes on with the search, and reports whether it has ended. A new one begins every SEARCH_EVERY. */
static bool search_some(u64 now)
{
	struct bpf_iter_num it;

	if (search.pod > PODS) {
		if (now - search.began < SEARCH_EVERY)
			return false;
		search.began = now;
		search.pod = 0;
	}
	search.searched = 0;
	bpf_iter_num_new(&it, 0, PODS + 1);
	while (bpf_iter_num_next(&it)) {
		if (search.pod > PODS || search.searched >= most_searched)
			break;
		search_queue(now);
	}
	bpf_iter_num_destroy(&it);
	if (worst.searched < search.searched)
		worst.searched = search.searched;
	return search.pod > PODS;
}

/* set_slice_for sets the slice so that each of the waiting threads can run once in half of max_wait. */
static void set_slice_for(u64 waiting)
{
	u64 cpu = budget == UNBOUNDED ? search.running * 1000 : budget;
	u64 fair = max_wait / 2 * cpu / 1000 / (waiting + 1);

	slice = fair > LONGEST_SLICE ? LONGEST_SLICE : fair < SHORTEST_SLICE ? SHORTEST_SLICE : fair;
}

/* empty_some empties the queues of CPUs that other work took after batch work was put on them. */
static void empty_some(void)
{
	struct bpf_iter_num it;

	bpf_iter_num_new(&it, 0, nr_cpus < MOST_CPUS ? nr_cpus : MOST_CPUS);
	while (bpf_iter_num_next(&it)) {
		s32 cpu = search.cpu;

		if (READ_ONCE(cpu_of(cpu)->other))
			empty(cpu);
		search.cpu = cpu + 1 < nr_cpus ? cpu + 1 : 0;
	}
	bpf_iter_num_destroy(&it);
}

/* wake_some wakes idle CPUs for waiting threads. */
static void wake_some(u64 waiting)
{
	struct masks *m = bpf_map_lookup_elem(&masks, &zero);
	struct bpf_cpumask *open;
	struct bpf_iter_num it;

	if (!m)
		return;
	bpf_rcu_read_lock();
	open = m->open;
	if (open) {
		bpf_iter_num_new(&it, 0, waiting < MOST_CPUS ? waiting : MOST_CPUS);
		while (bpf_iter_num_next(&it)) {
			s32 idle = scx_bpf_pick_idle_cpu((const struct cpumask *)open, 0);

			if (idle < 0)
				break;
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
		}
		bpf_iter_num_destroy(&it);
	}
	bpf_rcu_read_unlock();
}

static int on_timer(void *map, const u32 *key, struct clock *c)
{
	u64 now = bpf_ktime_get_ns(), waiting, took;
	bool searched;
	struct bpf_iter_num it;
	int *i;

	if (READ_ONCE(ended.kind))
		return 0; /* the queues may be those of another scheduler now */
	refill(now - c->refilled);
	c->refilled = now;
	searched = search_some(now);
	search.waiting = queued_in(OVERDUE);
	search.running = 0;
	bpf_iter_num_new(&it, 0, nr_pods & (2 * PODS - 1));
	while ((i = bpf_iter_num_next(&it)))
		count(*i, searched);
	bpf_iter_num_destroy(&it);
	waiting = search.waiting;
	nr_waiting = waiting;
	set_slice_for(waiting);
	empty_some();
	if (waiting && affordable())
		wake_some(waiting);
	took = bpf_ktime_get_ns() - now;
	if (worst.ns < took)
		worst.ns = took;
	s32 err = bpf_timer_start(&c->timer, REFILL_EVERY, 0);

	if (err && !READ_ONCE(ended.kind))
		fail("the timer cannot be started again (%d)", err);
	return 0;
}
