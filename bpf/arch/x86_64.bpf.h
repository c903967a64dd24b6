/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Where the kernel keeps what a thread did in user space, on x86-64: registers and the thread
 * pointer.
 */
#ifndef BPF_ARCH_X86_64_BPF_H
#define BPF_ARCH_X86_64_BPF_H

#include "bpf/maps.bpf.h"

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

/* The loader drops what stands behind ___: it is struct task_struct, with what x86 adds. */
struct task_struct___x86 {
	struct thread_struct thread;
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

enum arch_place { ARCH_IN_USER, ARCH_IN_KERNEL, ARCH_NO_USER };

static __always_inline __u64 arch_thread_pointer(struct task_struct *task)
{
	return BPF_CORE_READ((struct task_struct___x86 *)task, thread.fsbase);
}

/* The registers with which the current task came into the kernel. */
static __always_inline struct pt_regs *arch_user_regs(struct unwind_state *leaf)
{
	struct pt_regs *user = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());

	leaf->pc = BPF_CORE_READ(user, ip);
	leaf->sp = BPF_CORE_READ(user, sp);
	leaf->fp = BPF_CORE_READ(user, bp);
	return user;
}

/* At the entry of a system call. Not interrupted: the pc is behind the instruction, where the
 * function may end. */
static __always_inline void arch_syscall_leaf(struct unwind_state *leaf)
{
	leaf->interrupted = 0;
	arch_user_regs(leaf);
}

/* Where a perf event found the task, and its user registers if it has some. */
static __always_inline enum arch_place arch_event_leaf(
        struct bpf_perf_event_data *ctx, struct unwind_state *leaf)
{
	/* Volatile: else clang narrows the test of cs to a 2-byte load and merges the two arms into
	 * one variable context pointer, and the verifier takes neither. */
	volatile __u64 cs = ctx->regs.cs, ip = ctx->regs.ip, sp = ctx->regs.sp, fp = ctx->regs.bp;
	struct pt_regs *user;

	leaf->interrupted = 1;
	if ((cs & 3) == 3) {
		leaf->pc = ip;
		leaf->sp = sp;
		leaf->fp = fp;
		return ARCH_IN_USER;
	}
	user = arch_user_regs(leaf);
	/* Behind the instruction of a system call as behind a call: the function may end there
	 * (__restore_rt). The instruction leaves its pc in rcx; a handler that is about to run has
	 * another. Other entries of the kernel leave -1 (entry_64.S, error_entry). */
	if ((__s64)BPF_CORE_READ(user, orig_ax) >= 0 && BPF_CORE_READ(user, cx) == leaf->pc)
		leaf->interrupted = 0;
	return (BPF_CORE_READ(user, cs) & 3) == 3 ? ARCH_IN_KERNEL : ARCH_NO_USER;
}

#endif
