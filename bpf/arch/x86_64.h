/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What is so on x86-64 and matters to a walk, in the kernel and in user space. Another architecture
 * has the same names in a file beside this one; bpf/arch.h chooses.
 */
#ifndef BPF_ARCH_X86_64_H
#define BPF_ARCH_X86_64_H

enum {
	/* A call pushes the return address, and the CFA is the stack pointer before that. */
	ARCH_RA_OFF = -8,

	/* A frame that is linked by frame pointers: rbp, pushed right behind the return address. */
	ARCH_FP_RA_OFF = 8,
	ARCH_FP_CFA_OFF = 16,

	/* struct rt_sigframe behind pretcode: uc_mcontext.gregs (Linux,
	 * arch/x86/include/uapi/asm/sigcontext.h, struct sigcontext_64; REG_RBP, REG_RSP and
	 * REG_RIP of sys/ucontext.h). */
	ARCH_UC_GREGS_OFF = 40,
	ARCH_UC_FP_OFF = ARCH_UC_GREGS_OFF + 8 * 10,
	ARCH_UC_SP_OFF = ARCH_UC_GREGS_OFF + 8 * 15,
	ARCH_UC_PC_OFF = ARCH_UC_GREGS_OFF + 8 * 16,

	/* An entry of .plt: 16 bytes, of which the one that pushes is somewhere in the middle. */
	ARCH_PLT_ENTRY_SZ = 16,

	/* glibc: tcbhead_t.dtv behind the thread pointer, and dtv_t, whose first word is the block
	 * of a module (sysdeps/x86_64/nptl/tls.h, sysdeps/generic/dl-dtv.h). */
	ARCH_TCB_DTV_OFF = 8,
	ARCH_DTV_ENTRY_SZ = 16,
};

#endif
