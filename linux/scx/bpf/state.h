/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* The state of pods, threads and CPUs. layout.go has the Go side of some types. */
#pragma once

#include "budget.h"
#include "kfuncs.h"

#define MAX_CPUS 1024
#define MAX_SIBLINGS 7
#define MAX_DEPTH 16

/* Pods have numbers from 1 on. Threads of all other control groups share number 0. */
#define PODS 256
#define STRANGERS 0

/* The queue of pod n is QUEUE + n, in the order of its threads' virtual times. Overdue and dying
 * threads are in a queue of their own, which every CPU serves first. Its order is since when they
 * wait. */
#define QUEUE 1
#define OVERDUE (QUEUE + PODS)

/* Set by the loader. */
const volatile u32 nr_cpus = 1;
const volatile u64 max_wait = 2000 * MS; /* then a thread is overdue */

/* Set by the user at any time. */
volatile u32 nr_pods = 1;    /* the largest number of a pod, plus one */
volatile u32 weights[PODS];  /* of pods, 1 to 10,000 */
volatile u32 generation = 1; /* of pod_of */
volatile s32 siblings[MAX_CPUS][MAX_SIBLINGS + 1]; /* the other CPUs of a CPU's core, ended by -1 */

struct pod {
	u64 used;    /* CPU time, ns */
	u64 vtime;   /* CPU time divided by the weight */
	u64 front;   /* virtual time of the thread that ran last */
	u64 waited;  /* sum of its threads' waits until they ran, ns */
	u64 longest; /* of these waits */
	u64 waiting; /* the longest wait that has not ended, found by the last search */
	u64 found;   /* the same, by the search that goes on */
	u64 overdue; /* runs in spite of the budget and of other work on the core */
	u32 running; /* CPUs on which its threads run */
} OWN_LINES;
struct pod pods[PODS];

/* The pods' numbers, by the numbers of their control groups. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PODS);
	__type(key, u64);
	__type(value, u32);
} pod_of SEC(".maps");

struct thread {
	u64 since;  /* when it began to wait, 0 if it does not */
	u64 vtime;  /* CPU time divided by the weight of its nice value */
	u64 serial; /* pod is right for the control group with this number, ... */
	u32 generation; /* ... as long as pod_of does not change */
	u32 pod;
	u32 overdue;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct cpu {
	u64 charged; /* until when its thread's CPU time is charged */
	u64 held;    /* until when it is left to other work; any CPU sets it */
	u32 other;   /* whether it runs other work; its siblings read it */
	u32 pod;     /* of the batch work that it runs */
} OWN_LINES;
struct cpu cpus[MAX_CPUS];

struct counters {
	u64 expelled;  /* batch work was interrupted on a sibling of other work */
	u64 overdrawn; /* CPU time of overdue runs, ns */
	u64 yielded;   /* CPUs, to other work that waited elsewhere */
} OWN_LINES;
struct counters counters;

struct {
	u64 vtime; /* of the pod that ran last */
} OWN_LINES front;
volatile u64 nr_waiting; /* threads in queues; the timer counts them */
volatile u64 slice = 5 * MS;

/* Why the kernel has ended the scheduler. kind is 0 while it runs. */
struct ended {
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

static const u32 zero = 0;

static struct cpu *cpu_of(s32 cpu)
{
	return &cpus[cpu & (MAX_CPUS - 1)];
}

static struct pod *pod_at(u32 number)
{
	return &pods[number & (PODS - 1)];
}

static u64 queue_of(u32 number)
{
	return QUEUE + (number & (PODS - 1));
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

/* raise sets *at to a later time, or a longer one, unless another CPU has set a later one. */
static void raise(u64 *at, u64 to)
{
	for (int i = 0; i < 4; i++) { /* who fails that often was overtaken as often */
		u64 seen = READ_ONCE(*at);

		if ((s64)(to - seen) <= 0 || __sync_bool_compare_and_swap(at, seen, to))
			return;
	}
}

/* beside_other reports whether other work runs on a sibling of a CPU. */
static bool beside_other(s32 cpu)
{
	for (int i = 0; i < MAX_SIBLINGS; i++) {
		s32 sibling = siblings[cpu & (MAX_CPUS - 1)][i];

		if (sibling < 0)
			break;
		if (READ_ONCE(cpu_of(sibling)->other))
			return true;
	}
	return false;
}

/* barred reports whether a CPU is left to other work. */
static bool barred(s32 cpu)
{
	return READ_ONCE(cpu_of(cpu)->held) > bpf_ktime_get_ns() || beside_other(cpu);
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

/* enter prepares a pod for a thread that wants to run. A pod that wanted no CPU for a while does
 * not make up for that time: its virtual time goes on from the front. */
static void enter(u32 number)
{
	struct pod *pod = pod_at(number);

	if (!READ_ONCE(pod->running) && !queued_in(queue_of(number)))
		raise(&pod->vtime, READ_ONCE(front.vtime));
}

/* thread_of returns the state of a thread, with its present pod, or 0 if there is no memory. */
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
		t->vtime = READ_ONCE(pod_at(t->pod)->front);
		t->serial = serial;
		t->generation = now;
		enter(t->pod);
	}
	return t;
}

/* dying reports whether a thread ends. Others may wait for what it holds, so it runs without budget, too. */
static bool dying(struct task_struct *p)
{
	return p->flags & PF_EXITING || p->signal->flags & SIGNAL_GROUP_EXIT;
}
