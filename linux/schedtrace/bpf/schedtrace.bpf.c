// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0

/*
 * Sends what the scheduler does with the threads of watched groups. See the package comment of
 * linux/schedtrace for the events, and decode.go for the Go side of the types below.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char gpl[] SEC("license") = "GPL";

#define MAX_CPUS 1024
#define MAX_DEPTH 8

/* enum kind and enum state are those of package blame. */
enum kind { SWITCH = 1, WAKEUP, MIGRATE, EDGE, STILL_THROTTLED, SNAPSHOT, ATTACH, EXEC };
enum state { RUNNING = 1, WAITING, THROTTLED, SLEEPING, DEAD };

/* Added to the state: level throttles all threads of its groups on the CPU. */
#define WHOLE_QUEUE 0x100

struct event {
	__u64 time; /* CLOCK_MONOTONIC, ns */
	__u32 cpu;
	__u16 kind;
	__u16 state;
	__u32 thread; /* prev of a switch */
	__u32 process;
	__u32 other; /* next of a switch, running thread of a wakeup */
	__u32 other_process;
	__u64 group;
	__u64 other_group;
	__u64 level; /* group whose quota throttled the thread; runtime left before an edge */
	__u64 clock; /* of a switch: without time that interrupts and hypervisors took */
};

/* The event of a timer that has refilled a quota. */
struct edge {
	struct event event;
	__u64 runtime;
	__u64 throttled_time;
	__u32 periods;
	__u32 throttled;
};

enum watch { WATCH_THREADS = 1, WATCH_QUOTA = 2 };

/* The watched groups, by the number of their directory. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u32);
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} events SEC(".maps");

/* A group, as long as the watched groups do not change. */
struct known {
	__u64 serial;
	__u64 group;
	__u32 watch;
	__u32 generation;
};

#define CACHE 8
#define BATCH 16

/* What is known of a CPU. Other CPUs change the first three, too. The CPU itself uses the last five, with
 * interrupts off. */
struct cpu {
	__s32 waiting;   /* watched threads that wait here */
	__s32 throttled; /* watched threads that are throttled here since the last edge */
	__u32 edges;     /* so far */
	__u32 events;    /* in the batch */
	__u64 before;    /* runtime that was left when the timer of the current edge began */
	__u32 flushing;
	struct known cache[CACHE];
	struct event batch[BATCH];
	struct event single; /* while the batch is being sent */
} OWN_LINES;

struct cpu cpus[MAX_CPUS];

/*
 * Where a watched thread is counted: 0 for nowhere, or the CPU plus 1, and if it is throttled,
 * MARK_THROTTLED and the lowest bits of the CPU's number of edges.
 */
#define MARK_CPU 0xfff
#define MARK_THROTTLED (1U << 31)
#define MARK_EDGES(edges) (((edges) << 12) & ~(MARK_THROTTLED | MARK_CPU))

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} mark SEC(".maps");

/* How often the watched groups have changed. It begins at 1, unlike the entries of the caches. */
volatile __u32 generation = 1;

/* A group is not watched any more, so threads that are not watched may be counted. A snapshot counts anew. */
volatile __u32 stale = 0;

/* What the programs of a kind have cost. One run in TIMED is timed, because a clock costs as much as a program. */
struct cost {
	__u64 runs;
	__u64 timed;
	__u64 time; /* ns, of those that were timed */
};

#define TIMED 64

/* The kinds of programs whose cost is counted. */
enum program { AT_SWITCH, OTHERS, PROGRAMS };

/*
 * What the reader wants to know of a CPU, a cache line each. Programs of soft timers may be interrupted by
 * others, so costs are not exact.
 */
struct counters {
	struct cost costs[PROGRAMS];
	__u32 pending; /* events in the batch */
} OWN_LINES;

struct counters counters[MAX_CPUS] = {};

static __always_inline struct counters *counters_of(__u32 cpu)
{
	return &counters[cpu & (MAX_CPUS - 1)];
}

static __always_inline struct cost *cost_of(enum program kind)
{
	return &counters_of(bpf_get_smp_processor_id())->costs[kind];
}

static __always_inline __u64 begin(struct cost *c)
{
	return ++c->runs % TIMED ? 0 : bpf_ktime_get_ns();
}

static __always_inline int end(struct cost *c, __u64 began)
{
	if (began) {
		c->timed++;
		c->time += bpf_ktime_get_ns() - began;
	}
	return 0;
}

/* Events that did not fit into the ring. */
__u64 lost = 0;

const volatile __u32 nr_cpus = 1;
const volatile __u64 wake_at = 0; /* bytes in the ring */

/* The functions of the timers of a quota, once a snapshot has found them. */
void *period_function = 0, *slack_function = 0;

static __always_inline struct cpu *cpu_of(__u32 cpu)
{
	return &cpus[cpu & (MAX_CPUS - 1)];
}

static __always_inline __u64 group_of(struct task_struct *p)
{
	return p->sched_task_group->css.cgroup->kn->id;
}

static __always_inline __u32 watch(__u64 group)
{
	__u32 *w = bpf_map_lookup_elem(&watched, &group);

	return w ? *w : 0;
}

/*
 * The group of a thread: from the cache of this CPU, or else by four loads and a look-up. Interrupts must
 * be off.
 */
static __always_inline struct known *known_group(struct cpu *c, struct task_struct *p)
{
	__u64 serial = p->sched_task_group->css.serial_nr;
	struct known *k = &c->cache[serial % CACHE];

	if (k->serial != serial || k->generation != generation) {
		k->serial = serial;
		k->group = group_of(p);
		k->watch = watch(k->group);
		k->generation = generation;
	}
	return k;
}

static __always_inline __u32 cpu_of_task(struct task_struct *p)
{
	if (bpf_core_field_exists(p->thread_info.cpu))
		return p->thread_info.cpu;
	return p->cpu;
}

/* Wakes the reader when much is to be read. Otherwise it reads at its next tick. */
static __always_inline __u64 wakeup_flags(void)
{
	return bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > wake_at ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline void *reserve(__u64 size)
{
	void *e = bpf_ringbuf_reserve(&events, size, 0);

	if (!e)
		__sync_fetch_and_add(&lost, 1);
	return e;
}

/* Sends the batch of a CPU. */
static __always_inline void flush_batch(struct cpu *c, __u32 cpu)
{
	__u32 n = c->events;

	if (n == 0)
		return;
	if (n > BATCH)
		n = BATCH;
	if (bpf_ringbuf_output(&events, c->batch, n * sizeof(struct event), wakeup_flags()))
		__sync_fetch_and_add(&lost, n);
	c->events = 0;
	counters_of(cpu)->pending = 0;
}

/*
 * The next event of this CPU's batch, which saves the lock of the ring. An interrupt may find that the
 * batch is being sent; its events are sent one by one.
 */
static __always_inline struct event *next_event(struct cpu *c)
{
	return c->flushing ? &c->single : &c->batch[c->events & (BATCH - 1)];
}

static __always_inline void add_event(struct cpu *c)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (c->flushing) {
		if (bpf_ringbuf_output(&events, &c->single, sizeof(struct event), BPF_RB_NO_WAKEUP))
			__sync_fetch_and_add(&lost, 1);
	} else if (++c->events >= BATCH) {
		flush_batch(c, cpu);
	} else {
		counters_of(cpu)->pending = c->events;
	}
}

/* Sends the batch of a CPU. It runs on that CPU, unless that is offline. */
SEC("raw_tp")
int flush(__u64 *ctx)
{
	struct cpu *c = cpu_of(ctx[0]);

	c->flushing = 1;
	barrier();
	flush_batch(c, ctx[0]);
	barrier();
	c->flushing = 0;
	return 0;
}

static __always_inline bool is_throttled(struct cfs_rq *q)
{
	return BPF_CORE_READ_BITFIELD(q, throttled);
}

/* The group nearest to the thread whose quota is used up on the CPU of the thread. */
static __always_inline __u64 throttled_level(struct task_struct *p)
{
	struct sched_entity *se = &p->se;

	for (int i = 0; i < MAX_DEPTH && se; i++) {
		struct cfs_rq *q = se->cfs_rq;

		if (!q)
			break;
		if (is_throttled(q))
			return q->tg->css.cgroup->kn->id;
		se = se->parent;
	}
	return 0;
}

static __always_inline bool is_queued(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(task, on_rq);
}

static __always_inline bool is_running(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(task, on_cpu);
}

/* The state of a thread that does not run, and the group that throttles it. */
static __always_inline enum state state_of(struct task_struct *p, __u64 *level)
{
	*level = 0;
	if (p->exit_state)
		return DEAD;
	if (!is_queued(p))
		return SLEEPING;
	if (bpf_core_field_exists(p->se.sched_delayed) && p->se.sched_delayed)
		return SLEEPING;
	if (bpf_core_field_exists(p->throttled)) {
		if (!p->throttled)
			return WAITING;
	} else if (!p->se.cfs_rq || p->se.cfs_rq->throttle_count <= 0) {
		return WAITING;
	}
	*level = throttled_level(p);
	return THROTTLED;
}

/* Counts a thread on a CPU if it waits or is throttled there, otherwise nowhere. */
static __always_inline void count(struct task_struct *p, __u32 cpu, enum state state)
{
	bool counts = state == WAITING || state == THROTTLED;
	__u32 *was = bpf_task_storage_get(&mark, p, 0, counts ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
	struct cpu *c;

	if (!was)
		return;
	if (*was) {
		c = cpu_of((*was & MARK_CPU) - 1);
		if ((*was & ~MARK_CPU) == (MARK_THROTTLED | MARK_EDGES(READ_ONCE(c->edges))))
			__sync_fetch_and_add(&c->throttled, -1);
		else /* also if it was throttled before an edge */
			__sync_fetch_and_add(&c->waiting, -1);
	}
	c = cpu_of(cpu);
	*was = counts ? cpu + 1 : 0;
	if (state == THROTTLED) {
		*was |= MARK_THROTTLED | MARK_EDGES(READ_ONCE(c->edges));
		__sync_fetch_and_add(&c->throttled, 1);
	} else if (state == WAITING) {
		__sync_fetch_and_add(&c->waiting, 1);
	}
}

/* From an edge on, threads that were throttled on a CPU wait there. */
static __always_inline void release(struct cpu *c)
{
	__s32 n = READ_ONCE(c->throttled);

	if (n == 0)
		return;
	__sync_fetch_and_add(&c->edges, 1);
	__sync_fetch_and_add(&c->throttled, -n);
	__sync_fetch_and_add(&c->waiting, n);
}

static __always_inline void switched(struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu *c = cpu_of(cpu);
	struct known *k = known_group(c, prev);
	__u64 from = k->group, level = 0;
	bool from_watched = k->watch & WATCH_THREADS, to_watched;
	__u32 state = 0;
	struct event *e;

	k = known_group(c, next); /* may replace the other */
	to_watched = k->watch & WATCH_THREADS;
	if (!from_watched && !to_watched && READ_ONCE(c->waiting) <= 0) {
		if (stale && READ_ONCE(c->throttled) > 0)
			count(next, cpu, RUNNING);
		return;
	}
	if (from_watched) {
		state = state_of(prev, &level);
		if (state == WAITING || state == THROTTLED) /* else it is counted nowhere, because it ran */
			count(prev, cpu, state);
	}
	if (to_watched || stale)
		count(next, cpu, RUNNING);
	e = next_event(c);
	if (!bpf_core_field_exists(prev->throttled)) { /* a quota that is used up throttles a whole run queue */
		level = throttled_level(prev);
		if (level && watch(level) & WATCH_QUOTA)
			state |= WHOLE_QUEUE;
	}
	e->time = bpf_ktime_get_ns();
	e->cpu = cpu;
	e->kind = SWITCH;
	e->thread = prev->pid;
	e->process = prev->tgid;
	e->other = next->pid;
	e->other_process = next->tgid;
	e->group = from;
	e->other_group = k->group;
	e->level = level;
	e->state = state;
	e->clock = next->se.cfs_rq->rq->clock_task;
	add_event(c);
}

SEC("tp_btf/sched_switch")
int on_switch(__u64 *ctx)
{
	struct cost *c = cost_of(AT_SWITCH);
	__u64 began = begin(c);

	switched((void *)ctx[1], (void *)ctx[2]);
	return end(c, began);
}

/* A thread waits on a CPU from now on. */
static __always_inline void enqueued(struct task_struct *p, __u32 cpu, enum kind kind)
{
	struct cpu *c = cpu_of(bpf_get_smp_processor_id());
	struct known *k = known_group(c, p);
	struct cfs_rq **queues, *q = 0;
	struct task_struct *curr;
	enum state state;
	struct event *e;
	__u64 level;

	if (!(k->watch & WATCH_THREADS)) {
		if (stale && kind == MIGRATE)
			count(p, 0, SLEEPING);
		return;
	}
	state = state_of(p, &level);
	if (!is_running(p)) /* else it runs, and was about to sleep */
		count(p, cpu, state);
	e = next_event(c);
	e->time = bpf_ktime_get_ns();
	e->cpu = cpu;
	e->kind = kind;
	e->state = state;
	e->level = level;
	e->clock = 0;
	e->thread = p->pid;
	e->process = p->tgid;
	e->other = e->other_process = 0;
	e->group = k->group;
	e->other_group = 0;
	queues = p->sched_task_group->cfs_rq;
	if (kind == WAKEUP) { /* its queue is that of the CPU already */
		curr = p->se.cfs_rq->rq->curr;
		e->other = curr->pid;
		e->other_process = curr->tgid;
		e->other_group = known_group(c, curr)->group;
	} else if (!bpf_probe_read_kernel(&q, sizeof(q), queues + cpu) && q) {
		curr = BPF_CORE_READ(q, rq, curr);
		e->other = BPF_CORE_READ(curr, pid);
		e->other_process = BPF_CORE_READ(curr, tgid);
		e->other_group = BPF_CORE_READ(curr, sched_task_group, css.cgroup, kn, id);
	}
	add_event(c);
}

static __always_inline int on_enqueue(struct task_struct *p, __u32 cpu, enum kind kind)
{
	struct cost *c = cost_of(OTHERS);
	__u64 began = begin(c);

	enqueued(p, cpu, kind);
	return end(c, began);
}

SEC("tp_btf/sched_wakeup")
int on_wakeup(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	return on_enqueue(p, cpu_of_task(p), WAKEUP);
}

SEC("tp_btf/sched_wakeup_new")
int on_wakeup_new(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	return on_enqueue(p, cpu_of_task(p), WAKEUP);
}

SEC("tp_btf/sched_migrate_task")
int on_migrate(__u64 *ctx)
{
	return on_enqueue((void *)ctx[0], ctx[1], MIGRATE);
}

/* The timer of a watched group's quota, or 0. */
static __always_inline struct task_group *group_of_timer(struct hrtimer *timer, __u64 *group)
{
	struct task_group *tg;
	__u64 offset;

	if (timer->function == period_function)
		offset = bpf_core_field_offset(struct cfs_bandwidth, period_timer);
	else if (timer->function == slack_function)
		offset = bpf_core_field_offset(struct cfs_bandwidth, slack_timer);
	else
		return 0;
	offset += bpf_core_field_offset(struct task_group, cfs_bandwidth);
	tg = (void *)timer - offset;
	*group = BPF_CORE_READ(tg, css.cgroup, kn, id);
	return watch(*group) & WATCH_QUOTA ? tg : 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int on_timer(__u64 *ctx)
{
	struct cost *c = cost_of(OTHERS);
	__u64 group, began = begin(c);
	struct task_group *tg;

	if (!period_function)
		return end(c, began);
	tg = group_of_timer((void *)ctx[0], &group);
	if (tg)
		cpu_of(bpf_get_smp_processor_id())->before = BPF_CORE_READ(tg, cfs_bandwidth.runtime);
	return end(c, began);
}

/*
 * Reports the CPUs on which a group is throttled although its timer has given out new runtime. On the
 * others, its threads may run.
 */
static __always_inline void report_throttled(struct task_group *tg, __u64 group)
{
	struct cfs_rq **queues = BPF_CORE_READ(tg, cfs_rq), *q;
	struct event *e;

	for (__u32 cpu = 0; cpu < MAX_CPUS; cpu++) {
		if (cpu >= nr_cpus)
			break;
		if (bpf_probe_read_kernel(&q, sizeof(q), queues + cpu) || !q)
			continue;
		if (!BPF_CORE_READ_BITFIELD_PROBED(q, throttled) || BPF_CORE_READ(q, runtime_remaining) > 0) {
			release(cpu_of(cpu));
			continue;
		}
		e = reserve(sizeof(*e));
		if (!e)
			continue;
		__builtin_memset(e, 0, sizeof(*e));
		e->time = bpf_ktime_get_ns();
		e->cpu = cpu;
		e->kind = STILL_THROTTLED;
		e->group = group;
		bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	}
}

static __always_inline void timer_done(struct hrtimer *timer)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct task_group *tg;
	struct edge *e;
	__u64 group;

	if (!period_function)
		return;
	tg = group_of_timer(timer, &group);
	if (!tg)
		return;
	report_throttled(tg, group);
	e = reserve(sizeof(*e));
	if (e) {
		__builtin_memset(e, 0, sizeof(*e));
		e->event.time = bpf_ktime_get_ns();
		e->event.cpu = cpu;
		e->event.kind = EDGE;
		e->event.group = group;
		e->event.level = cpu_of(cpu)->before;
		e->runtime = BPF_CORE_READ(tg, cfs_bandwidth.runtime);
		e->periods = BPF_CORE_READ(tg, cfs_bandwidth.nr_periods);
		e->throttled = BPF_CORE_READ(tg, cfs_bandwidth.nr_throttled);
		e->throttled_time = BPF_CORE_READ(tg, cfs_bandwidth.throttled_time);
		bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	}
}

SEC("tp_btf/hrtimer_expire_exit")
int on_timer_done(__u64 *ctx)
{
	struct cost *c = cost_of(OTHERS);
	__u64 began = begin(c);

	timer_done((void *)ctx[0]);
	return end(c, began);
}

static __always_inline struct event *about(struct task_struct *p, enum kind kind)
{
	struct event *e = reserve(sizeof(*e));

	if (e) {
		__builtin_memset(e, 0, sizeof(*e));
		e->time = bpf_ktime_get_ns();
		e->kind = kind;
		e->cpu = cpu_of_task(p);
		e->thread = p->pid;
		e->process = p->tgid;
		e->group = group_of(p);
	}
	return e;
}

/* A thread, or its whole process, has moved to another group. */
SEC("tp_btf/cgroup_attach_task")
int on_attach(__u64 *ctx)
{
	struct cgroup *to = (void *)ctx[0];
	struct task_struct *p = (void *)ctx[2];
	struct event *e;

	if (to->root != p->sched_task_group->css.cgroup->root)
		return 0; /* in another hierarchy of version 1 */
	if (!(watch(group_of(p)) & WATCH_THREADS))
		count(p, 0, SLEEPING);
	e = about(p, ATTACH);
	if (!e)
		return 0;
	e->other = ctx[3] & 1;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/* A thread that starts another program gets the number of its process. */
SEC("tp_btf/sched_process_exec")
int on_exec(__u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	__u32 old = ctx[1];
	struct event *e;

	if (p->pid == old)
		return 0;
	e = about(p, EXEC);
	if (!e)
		return 0;
	e->other = old;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Sends the state of each watched thread once. */
SEC("iter/task")
int snapshot(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct event *e;

	if (!p)
		return 0;
	if (!period_function) {
		WRITE_ONCE(slack_function, p->sched_task_group->cfs_bandwidth.slack_timer.function);
		WRITE_ONCE(period_function, p->sched_task_group->cfs_bandwidth.period_timer.function);
	}
	if (!(watch(group_of(p)) & WATCH_THREADS)) {
		if (stale)
			count(p, 0, SLEEPING);
		return 0;
	}
	e = about(p, SNAPSHOT);
	if (!e)
		return 0;
	e->state = is_running(p) ? RUNNING : state_of(p, &e->level);
	count(p, e->cpu, e->state);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}
