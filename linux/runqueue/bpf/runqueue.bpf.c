// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0

/*
 * Looks at its CPU at regular times: which thread runs, and threads of which groups wait for it. See
 * the package comment of linux/runqueue, and sampler.go for the Go side of the types below.
 */
#include "types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char gpl[] SEC("license") = "GPL";

/* The parts of the kernel's types that are read here. The loader replaces the offsets by those of the
 * running kernel (CO-RE). */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup; /* NULL for autogroups */
};

struct task_group {
	struct cgroup_subsys_state css;
	struct task_group *parent;
};

struct cfs_rq {
	struct rq *rq;
	int throttle_count;
};

struct sched_entity {
	struct list_head group_node;
	__u8 sched_delayed; /* since Linux 6.12: it sleeps, and is still queued */
	struct cfs_rq *cfs_rq;
};

struct task_struct {
	int pid;
	struct sched_entity se;
	struct task_group *sched_task_group;
};

struct rq {
	struct list_head cfs_tasks;
};

#pragma clang attribute pop

#define MAX_CPUS 1024
#define MAX_WALKED 200
#define NAME 16

/* What a thread waits behind. */
enum behind { A_GROUP = 1, THE_ROOT, NOTHING, THE_MACHINE };

struct wait {
	__u64 group; /* whose thread waits */
	__u64 behind_group;
	__u32 behind;
	__u32 cpu;
	char name[NAME]; /* of a thread of the root group that runs */
};

struct seen {
	__u64 samples;
	__u64 last; /* the sample in which it was last seen */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct wait);
	__type(value, struct seen);
} waits SEC(".maps");

/* What a CPU's samples have shown. Only the CPU itself writes it, in an interrupt. */
struct cpu {
	__u64 due; /* when the next sample is due, CLOCK_MONOTONIC, ns */
	__u64 samples;
	__u64 late; /* those of which the machine took the CPU when they were due */
	__u64 cut;  /* those in which more threads waited than were looked at */
	__u64 lost; /* waits that found no room in the table */
	__u64 time; /* of the programs, ns */
	__u64 least; /* how late the samples were at least, of the last few */
	__u32 looked; /* how many these are */
	__u32 idle;   /* the CPU was idle in the last sample */
} OWN_LINES;

struct cpu cpus[MAX_CPUS];

volatile const __u64 period = 10000000; /* ns */

/* A sample that is later than this was due while the CPU did something that cannot be interrupted, or
 * while the hypervisor had taken it. */
#define LATE 200000

/* As many samples are not late by chance. */
#define ALIKE 32

static __always_inline void count(struct cpu *cpu, const struct wait *w)
{
	struct seen *s = bpf_map_lookup_elem(&waits, w);

	if (!s) {
		struct seen first = { .samples = 1, .last = cpu->samples };

		if (bpf_map_update_elem(&waits, w, &first, BPF_NOEXIST))
			cpu->lost++;
	} else if (s->last != cpu->samples) { /* else another thread of the group waits, too */
		s->samples++;
		s->last = cpu->samples;
	}
}

static __always_inline __u64 group_of(struct task_struct *t)
{
	return BPF_CORE_READ(t, sched_task_group, css.cgroup, kn, id);
}

static __always_inline void look(struct cpu *cpu, __u32 id, bool late)
{
	struct task_struct *running = (void *)bpf_get_current_task();
	struct rq *rq = BPF_CORE_READ(running, se.cfs_rq, rq);
	struct list_head *head = (void *)rq + bpf_core_field_offset(struct rq, cfs_tasks), *at = head;
	struct wait w = { .cpu = id };

	cpu->idle = !BPF_CORE_READ(running, pid);
	if (late) {
		w.behind = THE_MACHINE;
		w.group = group_of(running);
		if (!cpu->idle)
			count(cpu, &w);
	} else if (cpu->idle) {
		w.behind = NOTHING;
	} else {
		w.behind_group = group_of(running);
		w.behind = A_GROUP;
		if (!w.behind_group || !BPF_CORE_READ(running, sched_task_group, parent)) {
			w.behind = THE_ROOT;
			w.behind_group = 0;
			bpf_get_current_comm(w.name, sizeof(w.name));
		}
	}
	/* Other CPUs may take threads out of the queue meanwhile. */
	for (int i = 0; i < MAX_WALKED; i++) {
		struct list_head *next;
		struct task_struct *t;

		if (bpf_probe_read_kernel(&next, sizeof(next), &at->next) || !next || next == head || next == at)
			return;
		at = next;
		t = (void *)at - bpf_core_field_offset(struct task_struct, se.group_node);
		if (BPF_CORE_READ(t, se.cfs_rq, rq) != rq)
			return;
		/* A thread that is throttled waits for its quota, which the kernel counts itself. */
		if (t == running || BPF_CORE_READ(t, se.cfs_rq, throttle_count))
			continue;
		if (bpf_core_field_exists(t->se.sched_delayed) && BPF_CORE_READ(t, se.sched_delayed))
			continue;
		w.group = group_of(t);
		count(cpu, &w);
	}
	cpu->cut++;
}

SEC("perf_event")
int sample(void *context)
{
	__u64 now = bpf_ktime_get_ns(), behind;
	__u32 id = bpf_get_smp_processor_id();
	bool late = 0;
	struct cpu *cpu;

	if (id >= MAX_CPUS)
		return 0;
	cpu = &cpus[id];
	/* The timer expires in steps of a period. The earliest of the last samples tells when. The kernel stops
	 * it on a CPU that is idle without ticks, and starts it again later. */
	if (now < cpu->due || now - cpu->due >= period || (cpu->idle && now - cpu->due > LATE)) {
		cpu->due = now;
		cpu->least = 0;
	}
	behind = now - cpu->due;
	late = behind > LATE;
	cpu->due += period;
	if (behind < cpu->least)
		cpu->least = behind;
	if (++cpu->looked >= ALIKE) {
		cpu->due += cpu->least;
		cpu->least = period;
		cpu->looked = 0;
	}
	cpu->samples++;
	if (late)
		cpu->late++;
	look(cpu, id, late);
	cpu->time += bpf_ktime_get_ns() - now;
	return 0;
}
