/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The walk of the toy's frames: they stand in an array at a known address. */
#ifndef TOY_WALK_BPF_H
#define TOY_WALK_BPF_H

#include "bpf/capture.bpf.h"
#include "runtimes/toy/toy_abi.h"

static __always_inline const struct toy_proc *toy(const struct scratch *s)
{
	return (const struct toy_proc *)s->config;
}

static long toy_step(__u32 i, void *ctx)
{
	struct scratch *s = *(struct scratch **)ctx;
	__u32 at = s->nr_frames - 1 - i; /* from the outermost one */

	s->frame = (struct interp_frame){0};
	s->interp_outcome = WALK_UNREADABLE;
	if (user_read(s, toy(s)->stack_addr + 8 + at * 8ULL, &s->frame.code))
		return 1;
	if (capture_want(s, capture_key(s, 0, s->frame.code), at))
		s->frame.extra |= INTERP_F_CODE_UNSENT;
	interp_emit(s);
	s->interp_outcome = WALK_ROOT;
	return 0;
}

static __always_inline void toy_walk(struct scratch *s, __u64 tp, struct kept_walk *kept)
{
	__u64 depth = 0;

	s->interp_outcome = WALK_BAD_CONTEXT;
	if (user_read(s, toy(s)->stack_addr, &depth) || depth > TOY_MAX_DEPTH)
		return;
	s->nr_frames = depth;
	s->interp_outcome = WALK_ROOT;
	bpf_loop(depth, toy_step, &s, 0);
	capture_wanted(s, kept);
}

static __always_inline int toy_jit_covers(const struct scratch *s, __u64 pc)
{
	return 0;
}

static __always_inline int toy_jit_step(struct scratch *s)
{
	return UNWIND_STEP_NO_CFI;
}

#ifdef RPROF_CHECK
static __always_inline bool toy_check(struct scratch *s, struct kept_walk *kept)
{
	return true;
}
#endif

#endif
