/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The kernel's functions that the scheduler calls. Linux has changed the names and parameters of
 * some since 6.12. All their forms are declared weak, and the function below them calls the form
 * that the running kernel has. Its comment names the versions that brought the forms.
 */
#pragma once

#include "kernel.h"
#include <bpf/bpf_helpers.h>

extern s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
extern s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
extern s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags) __ksym;
extern bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
extern s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;
extern struct bpf_cpumask *bpf_cpumask_create(void) __ksym;
extern void bpf_cpumask_release(struct bpf_cpumask *mask) __ksym;
extern void bpf_cpumask_setall(struct bpf_cpumask *mask) __ksym;
extern void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask) __ksym;
extern void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *mask) __ksym;
extern bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) __ksym;
extern bool bpf_cpumask_and(struct bpf_cpumask *dst, const struct cpumask *a, const struct cpumask *b) __ksym;
extern u32 bpf_cpumask_any_and_distribute(const struct cpumask *a, const struct cpumask *b) __ksym;
extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;
extern void scx_bpf_error_bstr(char *format, unsigned long long *data, u32 data__sz) __ksym;

/* fail makes the kernel end the scheduler. The message reaches at_exit, and by that the user. */
#define fail(format, args...) ({ \
	static char text[] = format; \
	unsigned long long data[] = { args }; \
	scx_bpf_error_bstr(text, data, sizeof(data)); \
})

extern void scx_bpf_dispatch_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags) __ksym __weak;
extern void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags) __ksym __weak;
extern bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args) __ksym __weak;

/* insert puts a thread into a queue: Linux 6.12, 6.13, 6.19. */
static void insert(struct task_struct *p, u64 queue, u64 slice, u64 vtime, u64 enq_flags)
{
	struct scx_bpf_dsq_insert_vtime_args args = { .dsq_id = queue, .slice = slice, .vtime = vtime, .enq_flags = enq_flags };

	if (__scx_bpf_dsq_insert_vtime)
		__scx_bpf_dsq_insert_vtime(p, &args);
	else if (scx_bpf_dsq_insert_vtime)
		scx_bpf_dsq_insert_vtime(p, queue, slice, vtime, enq_flags);
	else
		scx_bpf_dispatch_vtime(p, queue, slice, vtime, enq_flags);
}

extern bool scx_bpf_consume(u64 dsq_id) __ksym __weak;
extern bool scx_bpf_dsq_move_to_local(u64 dsq_id) __ksym __weak;
extern bool scx_bpf_dsq_move_to_local___v2(u64 dsq_id, u64 enq_flags) __ksym;

/* take moves the first thread of a queue that may run here to this CPU: Linux 7.1. The library that
 * loads the programs cannot choose between this form and the older ones, so there are two dispatch
 * programs. */
static bool take(u64 queue)
{
	return scx_bpf_dsq_move_to_local___v2(queue, 0);
}

/* take_before is take of Linux 6.12 and 6.13. */
static bool take_before(u64 queue)
{
	return scx_bpf_dsq_move_to_local ? scx_bpf_dsq_move_to_local(queue) : scx_bpf_consume(queue);
}

extern void scx_bpf_dispatch_from_dsq_set_slice(struct bpf_iter_scx_dsq *it, u64 slice) __ksym __weak;
extern void scx_bpf_dispatch_from_dsq_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime) __ksym __weak;
extern bool scx_bpf_dispatch_vtime_from_dsq(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags) __ksym __weak;
extern void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice) __ksym __weak;
extern void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime) __ksym __weak;
extern bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags) __ksym __weak;

/* move_slice sets the slice of the thread that is moved next: Linux 6.12, 6.13. */
static void move_slice(struct bpf_iter_scx_dsq *it, u64 slice)
{
	if (scx_bpf_dsq_move_set_slice)
		scx_bpf_dsq_move_set_slice(it, slice);
	else
		scx_bpf_dispatch_from_dsq_set_slice(it, slice);
}

/* move moves the thread at an iterator to another queue, and reports whether it was still there:
 * Linux 6.12, 6.13. */
static bool move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 queue, u64 vtime)
{
	if (scx_bpf_dsq_move_vtime) {
		scx_bpf_dsq_move_set_vtime(it, vtime);
		return scx_bpf_dsq_move_vtime(it, p, queue, 0);
	}
	scx_bpf_dispatch_from_dsq_set_vtime(it, vtime);
	return scx_bpf_dispatch_vtime_from_dsq(it, p, queue, 0);
}

extern s32 __scx_bpf_select_cpu_and(struct task_struct *p, const struct cpumask *allowed, struct scx_bpf_select_cpu_and_args *args) __ksym __weak;

/* select takes an idle CPU of a set that a thread may run on, and returns it, or -1. It prefers
 * CPUs near the last one: Linux 6.19. Before, it prefers the last CPU itself, and then cores that
 * are idle as a whole. */
static s32 select(struct task_struct *p, s32 last, u64 wake_flags, struct bpf_cpumask *allowed)
{
	struct scx_bpf_select_cpu_and_args args = { .prev_cpu = last, .wake_flags = wake_flags };
	struct bpf_cpumask *both;
	s32 cpu = -1;

	if (__scx_bpf_select_cpu_and)
		return __scx_bpf_select_cpu_and(p, (const struct cpumask *)allowed, &args);
	both = bpf_cpumask_create();
	if (!both)
		return -1;
	bpf_cpumask_and(both, p->cpus_ptr, (const struct cpumask *)allowed);
	if (bpf_cpumask_test_cpu(last, (const struct cpumask *)both) && scx_bpf_test_and_clear_cpu_idle(last))
		cpu = last;
	if (cpu < 0)
		cpu = scx_bpf_pick_idle_cpu((const struct cpumask *)both, SCX_PICK_IDLE_CORE);
	if (cpu < 0)
		cpu = scx_bpf_pick_idle_cpu((const struct cpumask *)both, 0);
	bpf_cpumask_release(both);
	return cpu;
}

extern bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym __weak;

/* set_slice sets how long a running thread may go on: Linux 6.19. Before, programs write the field. */
static void set_slice(struct task_struct *p, u64 slice)
{
	if (scx_bpf_task_set_slice)
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

extern u32 scx_bpf_reenqueue_local(void) __ksym; /* called by ops.cpu_release only */
extern void scx_bpf_dsq_reenq(u64 dsq_id, u64 reenq_flags) __ksym __weak;

/* empty enqueues the threads in a CPU's own queue again, so that they do not wait there for other
 * work to end: Linux 7.1. Before, cpu_release does that. */
static void empty(s32 cpu)
{
	if (scx_bpf_dsq_reenq && scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0)
		scx_bpf_dsq_reenq(SCX_DSQ_LOCAL_ON | cpu, 0);
}
