/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * One step of the native walk: from the registers of a frame to those of its caller. The same
 * code runs in the kernel (clang -target bpf) and in user space.
 *
 * The includer defines, before it includes this,
 *
 *	UNWIND_READ(ctx, addr, value)
 *
 * which loads the 8 bytes at addr of the target into *value (uint64_t *) and returns 0 when that
 * worked. ctx is the void * that was handed to the step.
 *
 * No loops, no memory of variable size: the verifier follows each kind of rule once.
 */
#ifndef BPF_UNWIND_STEP_H
#define BPF_UNWIND_STEP_H

#include "bpf/abi.h"
#include "bpf/arch.h"

#define RPROF_INLINE static inline __attribute__((always_inline))

/*
 * The registers while a frame runs. The rule to apply is that of pc when pc was interrupted (the
 * leaf, or behind a signal frame), else that of pc - 1: a return address may lie behind the last
 * byte of its function. unwind_lookup_pc() says which.
 */
struct unwind_state {
	uint64_t pc, sp, fp;
	uint32_t interrupted;
};

enum unwind_step_result {
	UNWIND_STEP_NEXT,        /* *state is the caller */
	UNWIND_STEP_END,         /* this was the outermost frame */
	UNWIND_STEP_UNREADABLE,  /* the stack could not be read */
	UNWIND_STEP_NO_CFI,      /* no rule; or, by frame pointer, none that can be one */
	UNWIND_STEP_NO_PROGRESS, /* the caller's frame would not lie above this one */
};

enum {
	UNWIND_FP_FRAME_MAX = 1 << 20, /* largest frame that the frame-pointer step believes */
};

RPROF_INLINE uint64_t unwind_lookup_pc(const struct unwind_state *state)
{
	return state->interrupted ? state->pc : state->pc - 1;
}

RPROF_INLINE enum unwind_step_result unwind_step_signal(struct unwind_state *state, void *ctx)
{
	uint64_t sp = state->sp, pc, new_sp, fp;

	if (UNWIND_READ(ctx, sp + ARCH_UC_PC_OFF, &pc) != 0 ||
	        UNWIND_READ(ctx, sp + ARCH_UC_SP_OFF, &new_sp) != 0 ||
	        UNWIND_READ(ctx, sp + ARCH_UC_FP_OFF, &fp) != 0)
		return UNWIND_STEP_UNREADABLE;
	/* pc may be 0 (a call through NULL), and sp may be anywhere (sigaltstack). */
	state->pc = pc;
	state->sp = new_sp;
	state->fp = fp;
	state->interrupted = 1;
	return UNWIND_STEP_NEXT;
}

/* *state changes only with UNWIND_STEP_NEXT. */
RPROF_INLINE enum unwind_step_result unwind_step(
        struct unwind_state *state, const struct unwind_rule *rule, void *ctx)
{
	uint64_t sp = state->sp, fp = state->fp, pc = state->pc, cfa, ra;
	uint32_t cfa_kind = rule->cfa_kind, fp_kind = rule->fp_kind;

	if (rule->ra_kind == RA_END)
		return UNWIND_STEP_END;
	if (cfa_kind == CFA_INVALID || cfa_kind > CFA_SP_DEREF)
		return UNWIND_STEP_NO_CFI;
	if (cfa_kind == CFA_SIGFRAME)
		return unwind_step_signal(state, ctx);

	cfa = cfa_kind == CFA_FP || cfa_kind == CFA_FP_DEREF ? fp : sp;
	if (cfa_kind == CFA_PLT)
		cfa += (pc & (ARCH_PLT_ENTRY_SZ - 1)) >= (uint32_t)rule->cfa_off ? 16 : 8;
	else
		cfa += (int64_t)rule->cfa_off;
	if (cfa_kind >= CFA_FP_DEREF && UNWIND_READ(ctx, cfa, &cfa) != 0)
		return UNWIND_STEP_UNREADABLE;
	if (cfa <= sp)
		return UNWIND_STEP_NO_PROGRESS;

	if (UNWIND_READ(ctx, cfa + (int64_t)rule->ra_off, &ra) != 0)
		return UNWIND_STEP_UNREADABLE;
	if (ra == 0)
		return UNWIND_STEP_END;
	if (fp_kind == FP_AT_CFA || fp_kind == FP_AT_FP) {
		uint64_t at = fp_kind == FP_AT_CFA ? cfa : fp;

		if (UNWIND_READ(ctx, at + (int64_t)rule->fp_off, &fp) != 0)
			return UNWIND_STEP_UNREADABLE;
	} else if (fp_kind != FP_SAME) {
		/* Lost. A caller that needs it makes no progress with 0, and says so. */
		fp = 0;
	}

	state->pc = ra;
	state->sp = cfa;
	state->fp = fp;
	state->interrupted = rule->flags & UNWIND_F_SIGNAL ? 1 : 0;
	return UNWIND_STEP_NEXT;
}

/*
 * The step for code without a table: takes rbp for a frame pointer if it can be one.
 * The caller must still see that the new pc lies in executable memory.
 */
RPROF_INLINE enum unwind_step_result unwind_step_fp(struct unwind_state *state, void *ctx)
{
	uint64_t fp = state->fp, ra, new_fp;

	if (fp < state->sp || fp - state->sp > UNWIND_FP_FRAME_MAX || (fp & 7) != 0)
		return UNWIND_STEP_NO_CFI;
	if (UNWIND_READ(ctx, fp + ARCH_FP_RA_OFF, &ra) != 0 || UNWIND_READ(ctx, fp, &new_fp) != 0)
		return UNWIND_STEP_UNREADABLE;
	if (ra == 0)
		return UNWIND_STEP_END;
	state->pc = ra;
	state->sp = fp + ARCH_FP_CFA_OFF;
	state->fp = new_fp;
	state->interrupted = 0;
	return UNWIND_STEP_NEXT;
}

#endif
