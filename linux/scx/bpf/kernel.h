/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The parts of the kernel's types that scx.bpf.c uses. The loader replaces the offsets by those of
 * the running kernel (CO-RE), so the order of the fields and the other fields do not matter.
 */
#pragma once

#include "types.h"

typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

enum { CLOCK_MONOTONIC = 1 };
enum { ENOENT = 2, ENOMEM = 12, EBUSY = 16, EINVAL = 22 };
enum { false, true };

/* include/uapi/linux/sched.h and include/linux/sched.h */
enum { SCHED_EXT = 7 };
enum { PF_EXITING = 0x00000004, PF_KTHREAD = 0x00200000 };
enum { SIGNAL_GROUP_EXIT = 0x00000004 }; /* include/linux/sched/signal.h */

/* kernel/sched/ext_internal.h; these have not changed since Linux 6.12 */
#define SCX_DSQ_LOCAL_ON 0xC000000000000000ULL
enum { SCX_TASK_QUEUED = 1 };
enum { SCX_KICK_IDLE = 1, SCX_KICK_PREEMPT = 2 };
enum { SCX_PICK_IDLE_CORE = 1 };
enum {
	SCX_OPS_ENQ_LAST = 1 << 1,
	SCX_OPS_ENQ_EXITING = 1 << 2,
	SCX_OPS_SWITCH_PARTIAL = 1 << 3,
	SCX_OPS_ENQ_MIGRATION_DISABLED = 1 << 4, /* since Linux 6.14 */
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	u64 serial_nr; /* counts groups since boot, so no two groups have the same; 0 for autogroups */
};

struct task_group {
	struct cgroup_subsys_state css;
	struct task_group *parent;
};

struct cpumask {
	unsigned long bits[1];
};

struct bpf_cpumask {
	struct cpumask cpumask;
};

struct sched_ext_entity {
	u64 slice;
	u32 flags;
	u32 weight; /* by the thread's nice value, 100 for 0 */
};

struct signal_struct {
	unsigned int flags;
};

struct task_struct {
	struct signal_struct *signal;
	int pid;
	unsigned int flags;
	unsigned int policy;
	const struct cpumask *cpus_ptr;
	struct task_group *sched_task_group;
	struct sched_ext_entity scx;
};

enum scx_exit_kind { SCX_EXIT_NONE };

struct scx_exit_info {
	enum scx_exit_kind kind;
	const char *reason;
	char *msg;
};

#pragma clang attribute pop

/* Parameters of functions, since Linux 6.19. The loader does not adapt these, so all fields must be
 * as in the kernel. */
struct scx_bpf_select_cpu_and_args {
	s32 prev_cpu;
	u64 wake_flags;
	u64 flags;
};

struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

struct scx_cpu_release_args;

/* The members that this scheduler uses. The loader finds them by name in the kernel's type. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	void (*enable)(struct task_struct *p);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

/* The kernel finds these by name and size. */
struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));

struct bpf_iter_scx_dsq {
	u64 opaque[6];
} __attribute__((aligned(8)));
