// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0

/*
 * A scheduler for batch work. It runs the threads whose policy is SCHED_EXT, below everything else.
 * See the package comment of linux/scx for what it does, and layout.go for the Go side of the types.
 */
#include "kfuncs.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char gpl[] SEC("license") = "GPL";

#define MAX_CPUS 1024
#define MAX_SIBLINGS 7
#define MAX_DEPTH 16

/* Pods have numbers from 1 on. Threads that are in no known pod share number 0. */
#define PODS 256
#define STRANGERS 0

/* The queue of pod n is QUEUE + n. Threads that have waited for too long are in a queue of their own, in the
 * order of the times since when they wait. */
#define QUEUE 1
#define OVERDUE (QUEUE + PODS)

#define MS 1000000ULL
#define REFILL_EVERY (10 * MS)
#define SEARCH_EVERY (50 * MS)
#define MOST_SEARCHED 4096
#define MOST_HURRIED 256
/* The bucket holds what the budget yields in that time. */
#define BUCKET (100 * MS)
/* Overdue threads may use more, of which so much is taken from later refills. */
#define MOST_DEBT 10

/* For how long a CPU stays idle so that the kernel moves other work there: to a thread that has just woken up,
 * and, within some ticks, to one that has been interrupted. */
#define HOLD_WOKEN (2 * MS)
#define HOLD (10 * MS)

#define UNBOUNDED ~0U

/* Set by the loader. */
const volatile u32 nr_cpus = 1;
const volatile u64 longest_slice = 5 * MS;
const volatile u64 shortest_slice = 1 * MS;
const volatile u64 max_wait = 2000 * MS; /* then a thread is overdue */

/* Set by the user at any time. */
volatile u32 budget = UNBOUNDED; /* thousandths of a CPU */
volatile u32 nr_pods = 1;        /* the largest number of a pod, plus one */
volatile u32 weights[PODS];      /* of pods, 1 to 10,000 */
volatile u32 generation = 1;     /* of pod_of */
volatile s32 siblings[MAX_CPUS][MAX_SIBLINGS + 1]; /* the other CPUs of a CPU's core, ended by -1 */

struct pod {
	u64 used;    /* CPU time, ns */
	u64 waited;  /* of its threads, until they ran, ns */
	u64 longest; /* of these waits */
	u64 waiting; /* the longest wait that has not ended; measured every SEARCH_EVERY */
	u64 runs;
	u64 overdue; /* runs that did not heed budget and expeller */
	u64 vtime;   /* CPU time divided by the weight */
	u64 front;   /* virtual time of the thread that ran last */
	u32 running; /* CPUs on which its threads run */
	u32 unused;
};
struct pod pods[PODS];

/* The pods' numbers, by the numbers of their control groups. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PODS);
	__type(key, u64);
	__type(value, u32);
} pod_of SEC(".maps");

struct thread {
	u64 since;  /* when it began to wait */
	u64 vtime;  /* CPU time divided by the weight of its nice value */
	u64 serial; /* of the group for which pod is right, in a generation */
	u32 generation;
	u32 pod;
	u32 overdue;
	u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct cpu {
	u64 charged; /* until when its thread's CPU time is charged */
	u64 held;    /* until when it is left to other work */
	u32 other;   /* whether it runs something else than batch work */
	u32 batch;   /* whether it runs batch work */
	u32 pod;     /* of that */
	u32 unused;
};
struct cpu cpus[MAX_CPUS];

struct counters {
	u64 expelled;  /* batch work was interrupted on a sibling of other work */
	u64 overdrawn; /* CPU time of overdue runs, ns */
	u64 yielded;   /* CPUs, to other work that waited elsewhere */
};
struct counters counters;

s64 tokens;
u64 slice = 5 * MS;
u64 front;      /* virtual time of the pod that ran last */
s64 nr_running; /* CPUs that run batch work */
u64 nr_waiting; /* threads in queues, when they were last counted */

/* Why the kernel has ended the scheduler. kind is 0 while it runs. */
struct ended {
	s64 code;
	s32 kind;
	char reason[64];
	char message[256];
};
struct ended ended;

struct masks {
	struct bpf_cpumask __kptr *open;  /* CPUs that batch work may be put on */
	struct bpf_cpumask __kptr *batch; /* CPUs that run batch work */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct masks);
} masks SEC(".maps");

struct refill {
	struct bpf_timer timer;
	u64 at;       /* last time */
	u64 searched; /* last time */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct refill);
} refill SEC(".maps");

static const u32 zero = 0;

static struct cpu *cpu_of(s32 cpu)
{
	return &cpus[cpu & (MAX_CPUS - 1)];
}

static struct pod *pod_at(u32 number)
{
	return &pods[number & (PODS - 1)];
}

static u32 weight_of(u32 number)
{
	u32 weight = weights[number & (PODS - 1)];

	return weight ? weight : 1;
}

/* queued_in returns the number of threads in a queue, 0 if it does not exist any more. */
static u32 queued_in(u64 queue)
{
	s32 n = scx_bpf_dsq_nr_queued(queue);

	return n < 0 ? 0 : n;
}

/* affordable reports whether the budget is not used up. */
static bool affordable(void)
{
	return budget == UNBOUNDED || tokens > 0;
}

/* beside_other reports whether other work runs on a sibling of a CPU. */
static bool beside_other(s32 cpu)
{
	for (int i = 0; i < MAX_SIBLINGS; i++) {
		s32 sibling = siblings[cpu & (MAX_CPUS - 1)][i];

		if (sibling < 0)
			break;
		if (cpu_of(sibling)->other)
			return true;
	}
	return false;
}

/* barred reports whether a CPU is left to other work. */
static bool barred(s32 cpu)
{
	return cpu_of(cpu)->held > bpf_ktime_get_ns() || beside_other(cpu);
}

static u32 find_pod(struct task_struct *p)
{
	struct task_group *group = p->sched_task_group;

	for (int i = 0; i < MAX_DEPTH && group; i++) {
		u64 id = group->css.cgroup->kn->id;
		u32 *number = bpf_map_lookup_elem(&pod_of, &id);

		if (number)
			return *number;
		group = group->parent;
	}
	return STRANGERS;
}

/* enter prepares a pod for a thread that wants to run. One of which no thread wanted to does not catch up on
 * what others got meanwhile. */
static void enter(u32 number)
{
	struct pod *pod = pod_at(number);

	if (!pod->running && (s64)(pod->vtime - front) < 0 && !queued_in(QUEUE + (number & (PODS - 1))))
		pod->vtime = front;
}

/* thread_of returns what is known of a thread, with its pod brought up to date; 0 without memory. */
static struct thread *thread_of(struct task_struct *p)
{
	struct thread *t = bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	u64 serial;
	u32 now;

	if (!t)
		return 0;
	serial = p->sched_task_group->css.serial_nr;
	now = generation;
	if (t->generation != now || t->serial != serial) {
		t->pod = find_pod(p);
		t->vtime = pod_at(t->pod)->front;
		t->serial = serial;
		t->generation = now;
		enter(t->pod);
	}
	return t;
}

/* dying reports whether a thread ends: what it holds is needed, also while there is no budget. */
static bool dying(struct task_struct *p)
{
	return p->flags & PF_EXITING || p->signal->flags & SIGNAL_GROUP_EXIT;
}

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
	__sync_fetch_and_add(&tokens, -used);
	if (!t)
		return;
	t->vtime += used * 100 / (weight ? weight : 1);
	if (t->overdue)
		__sync_fetch_and_add(&counters.overdrawn, used);
}

/* find_idle returns an idle CPU that batch work may be put on, and takes it. */
static s32 find_idle(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct masks *m = bpf_map_lookup_elem(&masks, &zero);
	struct bpf_cpumask *open;

	if (!m || !affordable())
		return -1;
	open = m->open;
	return open ? select(p, prev_cpu, wake_flags, open) : -1;
}

/* The thread goes to its pod's queue in any case; the CPU, which the kernel then wakes up, takes it from
 * there if it is the pod's turn. */
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
		struct pod *pod = pod_at(t->pod);
		u64 least = pod->front - longest_slice;

		/* One that has slept does not catch up on what others got meanwhile. */
		if ((s64)(t->vtime - least) < 0)
			t->vtime = least;
		vtime = t->vtime;
		queue = QUEUE + (t->pod & (PODS - 1));
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

	return pod->vtime + pod->running * slice * 100 / weight_of(number);
}

/* The next pod, in the order of their turns. */
struct next {
	u64 turn;
	s32 pod;
};

/* next_pod finds the pod with threads in its queue whose turn is next after another's. */
static void next_pod(struct next *n)
{
	struct next best = { .pod = -1 };
	struct bpf_iter_num it;
	int *i;

	bpf_iter_num_new(&it, 0, nr_pods & (2 * PODS - 1));
	while ((i = bpf_iter_num_next(&it))) {
		s32 number = *i;
		u64 at;

		if (!queued_in(QUEUE + number))
			continue;
		at = turn(number);
		if (n->pod >= 0 && ((s64)(at - n->turn) < 0 || (at == n->turn && number <= n->pod)))
			continue;
		if (best.pod < 0 || (s64)(at - best.turn) < 0) {
			best.turn = at;
			best.pod = number;
		}
	}
	bpf_iter_num_destroy(&it);
	*n = best;
}

#define MOST_PODS_TRIED 8

/* dispatch_by gives a CPU the next thread, with take or take_before. */
static __always_inline void dispatch_by(bool (*take_one)(u64 queue), s32 cpu, struct task_struct *prev)
{
	struct next n = { .pod = -1 };
	struct thread *t;

	if (queued_in(OVERDUE) && take_one(OVERDUE))
		return;
	if (!affordable() || barred(cpu))
		return;
	if (prev && !(prev->scx.flags & SCX_TASK_QUEUED))
		prev = 0;
	for (int i = 0; i < MOST_PODS_TRIED; i++) {
		next_pod(&n);
		if (n.pod < 0)
			break;
		if (prev && (t = bpf_task_storage_get(&threads, prev, 0, 0)) && t->pod != n.pod &&
		    (s64)(pod_at(t->pod)->vtime - n.turn) < 0)
			break;
		if (take_one(QUEUE + n.pod)) {
			if ((s64)(pod_at(n.pod)->vtime - front) > 0)
				front = pod_at(n.pod)->vtime;
			return;
		}
	}
	if (prev)
		set_slice(prev, slice); /* it goes on */
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

/* mark notes whether a CPU runs batch work, for make_room. */
static void mark(s32 cpu, bool batch)
{
	struct masks *m = bpf_map_lookup_elem(&masks, &zero);
	struct bpf_cpumask *mask = m ? m->batch : 0;

	if (mask && batch)
		bpf_cpumask_set_cpu(cpu, mask);
	else if (mask)
		bpf_cpumask_clear_cpu(cpu, mask);
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
	cpu->batch = 1;
	mark(number, true);
	pod = pod_at(cpu->pod);
	__sync_fetch_and_add(&nr_running, 1);
	__sync_fetch_and_add(&pod->running, 1);
	__sync_fetch_and_add(&pod->runs, 1);
	if (!t)
		return;
	if (t->since) {
		u64 waited = now - t->since;

		t->since = 0;
		__sync_fetch_and_add(&pod->waited, waited);
		if (pod->longest < waited)
			pod->longest = waited;
	}
	if ((s64)(t->vtime - pod->front) > 0)
		pod->front = t->vtime;
	if (t->overdue)
		__sync_fetch_and_add(&pod->overdue, 1);
	else if (barred(number))
		scx_bpf_kick_cpu(number, SCX_KICK_PREEMPT); /* since it was put here */
}

SEC("struct_ops/stopping")
void BPF_PROG(stopping, struct task_struct *p, bool runnable)
{
	s32 number = scx_bpf_task_cpu(p);
	struct thread *t = bpf_task_storage_get(&threads, p, 0, 0);
	struct cpu *cpu = cpu_of(number);

	charge(number, p);
	cpu->batch = 0;
	mark(number, false);
	__sync_fetch_and_add(&nr_running, -1);
	__sync_fetch_and_add(&pod_at(cpu->pod)->running, -1);
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

/* Other work takes a CPU: see empty. */
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
	cpu_of(cpu)->other = 0;
}

/* What the timer has found so far, in memory, because the verifier follows each value of a register. */
static struct {
	volatile u64 waiting, running, longest, seen;
} searched;

/* search moves threads of a pod's queue that have waited for too long, or that are in another pod now. */
__noinline int search(u32 number, u64 now)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;

	searched.longest = 0;
	searched.seen = 0;
	bpf_rcu_read_lock();
	bpf_iter_scx_dsq_new(&it, QUEUE + (number & (PODS - 1)), 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		struct thread *t = thread_of(p);
		s64 waited = t && t->since ? now - t->since : 0;

		if (++searched.seen > MOST_SEARCHED)
			break;
		if (t && t->pod != number) { /* its pod has become known, or is not any more */
			move(&it, p, QUEUE + (t->pod & (PODS - 1)), t->vtime);
			continue;
		}
		if (waited <= 0)
			continue;
		if (searched.longest < waited)
			searched.longest = waited;
		if (waited < max_wait && !dying(p)) {
			s32 cpu = scx_bpf_task_cpu(p); /* it may be the only one for this thread */

			if (affordable() && !barred(cpu))
				scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			continue;
		}
		t->overdue = 1;
		move_slice(&it, shortest_slice);
		if (!move(&it, p, OVERDUE, t->since))
			t->overdue = 0; /* it has gone meanwhile */
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	pod_at(number)->waiting = searched.longest;
	return 0;
}

/* hurry wakes up CPUs for the threads that have waited for too long, oldest first. */
__noinline int hurry(u64 now)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;

	searched.seen = 0;
	bpf_rcu_read_lock();
	bpf_iter_scx_dsq_new(&it, OVERDUE, 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		struct thread *t = bpf_task_storage_get(&threads, p, 0, 0);
		s32 cpu;

		if (t && t->since && (s64)(now - t->since - pod_at(t->pod)->waiting) > 0)
			pod_at(t->pod)->waiting = now - t->since;
		if (++searched.seen > MOST_HURRIED)
			break;
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		scx_bpf_kick_cpu(cpu < 0 ? scx_bpf_task_cpu(p) : cpu, SCX_KICK_IDLE);
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	return 0;
}

/* count adds the threads of a pod to what is searched. */
__noinline int count(u32 number, u64 now, bool look)
{
	u32 queued = queued_in(QUEUE + (number & (PODS - 1)));

	searched.waiting += queued;
	searched.running += pod_at(number)->running;
	if (!look)
		return 0;
	if (queued)
		return search(number, now);
	pod_at(number)->waiting = 0;
	return 0;
}

/* refill_bucket adds what the budget has yielded. */
static void refill_bucket(u64 passed)
{
	s64 most = BUCKET / 1000 * budget, filled = tokens + passed * budget / 1000;

	if (filled > most)
		filled = most;
	if (filled < -MOST_DEBT * most)
		filled = -MOST_DEBT * most;
	tokens = filled;
}

static int on_timer(void *map, const u32 *key, struct refill *r)
{
	u64 now = bpf_ktime_get_ns();
	struct bpf_iter_num it;
	bool look = now - r->searched >= SEARCH_EVERY;
	struct masks *m;
	int *i;

	if (budget != UNBOUNDED)
		refill_bucket(now - r->at);
	r->at = now;
	searched.waiting = 0;
	searched.running = 0;
	bpf_iter_num_new(&it, 0, nr_pods & (2 * PODS - 1));
	while ((i = bpf_iter_num_next(&it)))
		count(*i, now, look);
	bpf_iter_num_destroy(&it);
	u64 overdue = queued_in(OVERDUE), waiting = searched.waiting + overdue, running = searched.running;

	if (overdue)
		hurry(now);

	nr_waiting = waiting;
	if (look)
		r->searched = now;

	/* Half of the longest wait is enough for each thread to run once. */
	u64 cpu = budget == UNBOUNDED ? running * 1000 : budget;
	u64 fair = max_wait / 2 * cpu / 1000 / (waiting + 1);

	slice = fair > longest_slice ? longest_slice : fair < shortest_slice ? shortest_slice : fair;

	/* Other work has taken a CPU after batch work was put on it. */
	bpf_iter_num_new(&it, 0, nr_cpus);
	while ((i = bpf_iter_num_next(&it))) {
		if (cpu_of(*i)->other)
			empty(*i);
	}
	bpf_iter_num_destroy(&it);

	m = bpf_map_lookup_elem(&masks, &zero);
	if (m && waiting && affordable()) {
		bpf_rcu_read_lock();
		struct bpf_cpumask *open = m->open;

		if (open) {
			bpf_iter_num_new(&it, 0, waiting > nr_cpus ? nr_cpus : waiting);
			while ((i = bpf_iter_num_next(&it))) {
				s32 idle = scx_bpf_pick_idle_cpu((const struct cpumask *)open, 0);

				if (idle < 0)
					break;
				scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
			}
			bpf_iter_num_destroy(&it);
		}
		bpf_rcu_read_unlock();
	}
	bpf_timer_start(&r->timer, REFILL_EVERY, 0);
	return 0;
}

SEC("struct_ops.s/init")
s32 BPF_PROG(init)
{
	struct masks *m = bpf_map_lookup_elem(&masks, &zero);
	struct refill *r = bpf_map_lookup_elem(&refill, &zero);
	struct bpf_cpumask *mask;
	struct bpf_iter_num it;
	s32 err = 0;
	int *i;

	if (!m || !r)
		return -1;
	ended.kind = 0; /* of when it was attached before */
	mask = bpf_cpumask_create();
	if (!mask)
		return -12; /* no memory */
	bpf_cpumask_setall(mask);
	mask = bpf_kptr_xchg(&m->open, mask);
	if (mask)
		bpf_cpumask_release(mask);
	mask = bpf_cpumask_create();
	if (!mask)
		return -12;
	mask = bpf_kptr_xchg(&m->batch, mask);
	if (mask)
		bpf_cpumask_release(mask);
	bpf_iter_num_new(&it, 0, PODS + 1); /* OVERDUE, too */
	while ((i = bpf_iter_num_next(&it))) {
		if (scx_bpf_create_dsq(QUEUE + *i, -1)) {
			err = -12;
			break;
		}
	}
	bpf_iter_num_destroy(&it);
	if (err)
		return err;
	r->at = bpf_ktime_get_ns();
	err = bpf_timer_init(&r->timer, &refill, CLOCK_MONOTONIC);
	if (!err)
		err = bpf_timer_set_callback(&r->timer, on_timer);
	if (!err)
		err = bpf_timer_start(&r->timer, REFILL_EVERY, 0);
	return err;
}

SEC("struct_ops/exit")
void BPF_PROG(at_exit, struct scx_exit_info *info)
{
	bpf_probe_read_kernel_str(ended.reason, sizeof(ended.reason), info->reason);
	bpf_probe_read_kernel_str(ended.message, sizeof(ended.message), info->msg);
	ended.code = info->exit_code;
	ended.kind = info->kind;
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
	/* Without the others the kernel would put some threads on a CPU's own queue, also if it stays idle. */
	.flags = SCX_OPS_SWITCH_PARTIAL | SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "pinfold",
};

static bool is_other(struct task_struct *p)
{
	return p->pid && p->policy != SCHED_EXT && !(p->flags & PF_KTHREAD);
}

/* make_room makes batch work give up a CPU when a thread of other work waits behind other work. The kernel
 * takes a CPU that runs SCHED_EXT for busy, and moves nothing there; to one that is idle for a moment it
 * does. */
static int make_room(struct task_struct *p, u64 hold)
{
	struct masks *m = bpf_map_lookup_elem(&masks, &zero);
	struct bpf_cpumask *batch = m ? m->batch : 0;
	u32 cpu;

	if (!batch || nr_running <= 0)
		return 0;
	cpu = bpf_cpumask_any_and_distribute((const struct cpumask *)batch, p->cpus_ptr);
	if (cpu < nr_cpus) {
		cpu_of(cpu)->held = bpf_ktime_get_ns() + hold;
		__sync_fetch_and_add(&counters.yielded, 1);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	return 0;
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
	cpu->other = other;
	m = bpf_map_lookup_elem(&masks, &zero);
	if (!m)
		return 0;
	for (int i = 0; i < MAX_SIBLINGS; i++) {
		s32 sibling = siblings[number & (MAX_CPUS - 1)][i];
		struct bpf_cpumask *open = m->open;

		if (sibling < 0)
			break;
		if (other) {
			if (open)
				bpf_cpumask_clear_cpu(sibling, open);
			if (cpu_of(sibling)->batch) {
				__sync_fetch_and_add(&counters.expelled, 1);
				scx_bpf_kick_cpu(sibling, SCX_KICK_PREEMPT);
			}
		} else if (!beside_other(sibling)) {
			if (open)
				bpf_cpumask_set_cpu(sibling, open);
			if (nr_waiting)
				scx_bpf_kick_cpu(sibling, SCX_KICK_IDLE);
		}
	}
	return 0;
}

static int on_woken(struct task_struct *p)
{
	return is_other(p) && cpu_of(scx_bpf_task_cpu(p))->other ? make_room(p, HOLD_WOKEN) : 0;
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
