/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* The types that the headers of libbpf expect, constants of its maps, and how programs share memory. */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

/* include/uapi/linux/bpf.h */
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_RINGBUF = 27, BPF_MAP_TYPE_TASK_STORAGE = 29 };
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_NOEXIST = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

/* For memory that other CPUs change or read at the same time: it is read or written exactly once, as a whole. */
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))

/* Memory that one CPU writes often must not share a cache line with what other CPUs use. */
#define OWN_LINES __attribute__((aligned(64)))
