/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The few kernel types that the programs read, for CO-RE: the loader finds each field in the
 * running kernel's BTF by name, so nothing here is a layout.
 */
#ifndef BPF_VMLINUX_MIN_H
#define BPF_VMLINUX_MIN_H

#include <linux/types.h>
#include <linux/bpf.h>

#define CORE __attribute__((preserve_access_index))

struct pt_regs {
	unsigned long bp;
	unsigned long cx;
	unsigned long ip;
	unsigned long cs;
	unsigned long sp;
	unsigned long orig_ax;
} CORE;

struct thread_struct {
	unsigned long fsbase;
} CORE;

struct ns_common {
	unsigned int inum;
} CORE;

struct pid_namespace {
	struct ns_common ns;
} CORE;

struct upid {
	int nr;
	struct pid_namespace *ns;
} CORE;

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* level + 1 */
} CORE;

struct task_struct {
	struct thread_struct thread;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	unsigned int flags;
	__u64 self_exec_id;      /* counts the execs of the process: fs/exec.c, begin_new_exec() */
	unsigned long sas_ss_sp; /* sigaltstack() */
	unsigned long sas_ss_size;
	char comm[16];
} CORE;

/* include/uapi/linux/bpf_perf_event.h; arch/x86's bpf_user_pt_regs_t is struct pt_regs, whose
 * layout the context follows whatever the kernel: this one is an ABI. */
struct user_pt_regs_abi {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip,
	        cs, flags, sp, ss;
};

struct bpf_perf_event_data {
	struct user_pt_regs_abi regs;
	__u64 sample_period;
	__u64 addr;
};

#endif
