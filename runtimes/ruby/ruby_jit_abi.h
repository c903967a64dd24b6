/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * YJIT's machine code, x86-64, as far as a walk needs it. It has no unwind information. Its entry
 * pushes r13, r12 and rbx and leaves rbp alone, its exits pop them (yjit_codegen.c,
 * yjit_entry_prologue, yjit_gen_exit, v3_1_0; codegen.rs, gen_entry_prologue, gen_leave_exit,
 * v3_3_0). Code as words: the byte at the lowest address is the lowest.
 */
#ifndef RUBY_JIT_ABI_H
#define RUBY_JIT_ABI_H

#ifndef __bpf__
#include <stdint.h>
typedef uint64_t __u64;
#endif

enum { RUBY_JIT_SAVED = 3 }; /* registers between the stack pointer and the return address */

/* How many of the registers are on the stack at an instruction; code: its eight bytes. */
static inline int ruby_jit_saved(__u64 code)
{
	if ((code & 0xffffffffff) == 0x5354415541) /* push r13; push r12; push rbx */
		return 0;
	if ((code & 0xffffffffffff) == 0xfc8949535441) /* push r12; push rbx; mov r12, rdi */
		return 1;
	if ((code & 0xffffffff) == 0xfc894953) /* push rbx; mov r12, rdi */
		return 2;
	if ((code & 0xffffffff) == 0x5d415c41) /* pop r12; pop r13 */
		return 2;
	if ((code & 0xffffff) == 0xb85d41 ||
	        (code & 0xffffff) == 0xc35d41) /* pop r13; mov eax or ret */
		return 1;
	if ((code & 0xff) == 0xc3 ||
	        (code & 0xff00000000ff) == 0xc300000000b8) /* ret; mov eax, ..; ret */
		return 0;
	return RUBY_JIT_SAVED;
}

/*
 * Does an indirect call end here? before: the eight bytes in front. The interpreter calls the JIT's
 * code by a pointer, in a register or in memory at one.
 */
static inline int ruby_jit_is_called(__u64 before)
{
	return (before >> 48 & 0xf8ff) == 0xd0ff || /* call reg */
	       (before >> 48 & 0xf8ff) == 0x10ff || /* call [reg] */
	       (before >> 40 & 0xf8ff) == 0x50ff || /* call [reg + 8 bits] */
	       (before >> 16 & 0xf8ff) == 0x90ff;   /* call [reg + 32 bits] */
}

#endif
