/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The parts of the kernel's types that schedtrace.bpf.c reads. The loader replaces the offsets by
 * those of the running kernel (CO-RE), so the order of the fields and the other fields do not matter.
 */
#pragma once

#include "types.h"

enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
enum { BPF_RB_AVAIL_DATA = 0 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root; /* of the hierarchy */
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	__u64 serial_nr; /* counts groups since boot, so no two groups have the same; 0 for autogroups */
};

struct hrtimer {
	void *function;
};

struct cfs_bandwidth {
	__u64 runtime;
	struct hrtimer period_timer;
	struct hrtimer slack_timer;
	int nr_periods;
	int nr_throttled;
	__u64 throttled_time;
};

struct task_group {
	struct cgroup_subsys_state css;
	struct cfs_rq **cfs_rq;
	struct cfs_bandwidth cfs_bandwidth;
};

struct cfs_rq {
	struct rq *rq;
	struct task_group *tg;
	__s64 runtime_remaining;
	int throttled:1;
	int throttle_count;
};

struct sched_entity {
	__u8 sched_delayed; /* since Linux 6.12 */
	struct sched_entity *parent;
	struct cfs_rq *cfs_rq;
};

struct thread_info {
	__u32 cpu; /* on x86 since Linux 5.16 */
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int cpu; /* before */
	int pid;
	int tgid;
	int on_cpu; /* these have one byte since Linux 7.2, so they are read as bit fields */
	int on_rq;
	int exit_state;
	struct sched_entity se;
	struct task_group *sched_task_group;
	bool throttled; /* since Linux 6.18 */
};

struct rq {
	__u64 clock_task;
	struct task_struct *curr;
};

struct bpf_iter__task {
	struct task_struct *task;
};

#pragma clang attribute pop
