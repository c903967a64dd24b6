/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The kernel side of the runtimes, chosen by the id that user space has given the process. The only
 * place in bpf/ that names one, by its include; the list is runtimes/list.h.
 *
 * What NAME_walk.bpf.h must have stands above each function below. s->config is the process's
 * struct NAME_proc.
 */
#ifndef BPF_RUNTIMES_BPF_H
#define BPF_RUNTIMES_BPF_H

#include "bpf/capture.bpf.h"
#include "runtimes/list.h"

#include "runtimes/ruby/ruby_walk.bpf.h"

/* For user space, which compares before anything runs: runtime_check_walk(). */
#define RUNTIME_CONFIG_SZ(id, ID, name) [id] = sizeof(struct name##_proc),
LOADED_WITH __u32 rp_config_sz[MAX_RUNTIME_ID + 1] = {RUNTIMES(RUNTIME_CONFIG_SZ)};

/*
 * void NAME_walk(struct scratch *s, __u64 tp, struct kept_walk *kept)
 *
 * Puts the interpreter's frames into s->frame one by one, leaf first, and appends each by
 * interp_emit(); s->interp_outcome says how that ended, s->nr_frames how many there are. tp is the
 * thread pointer. Objects that name a frame are noted by capture_want(), and copied by
 * capture_wanted() at the end; s->young_stamp and the others say until when they are the same. What
 * is as in the last walk need not be sent: struct rprof_sample, bpf/abi.h. What is set to 0 here is
 * the walk's to fill.
 */
static __always_inline void interp_walk(struct scratch *s, __u64 tp, struct kept_walk *kept)
{
	s->nr_interp = 0;
	s->nr_frames = 0;
	s->base_interp = 0;
	s->gc_gen = 0;
	s->young_stamp = 0;
	s->old_stamp = 0;
	s->renew_stamp = 0;
	s->young_before = 0;
	s->old_before = 0;
	s->interp_pos = s->pos;
	s->interp_outcome = WALK_NONE;
	capture_begin(s);
	switch (s->runtime) {
#define RUNTIME_WALK(id, ID, name)                                                                 \
	case id:                                                                                   \
		name##_walk(s, tp, kept);                                                          \
		break;
		RUNTIMES(RUNTIME_WALK)
	}
	s->rec.head.nr_interp = s->nr_interp;
	s->rec.head.base_interp = s->base_interp;
	s->rec.head.interp_outcome = s->interp_outcome;
	s->rec.head.gc_gen = s->gc_gen;
	if (s->rec.head.flags & SAMPLE_F_UNSENT) {
		s->rec.head.unsent_old_stamp = s->cap.young_unsent ? 0 : s->old_stamp;
		count(COUNTER_UNSENT);
	}
}

/* int NAME_jit_covers(const struct scratch *s, __u64 pc): is pc in code of the JIT, though no
 * mapping says so? */
static __always_inline int jit_covers(const struct scratch *s, __u64 pc)
{
	switch (s->runtime) {
#define RUNTIME_JIT_COVERS(id, ID, name)                                                           \
	case id:                                                                                   \
		return name##_jit_covers(s, pc);
		RUNTIMES(RUNTIME_JIT_COVERS)
	}
	return 0;
}

/* int NAME_jit_step(struct scratch *s): a step out of a JIT's code. enum unwind_step_result. */
static __always_inline int jit_step(struct scratch *s)
{
	switch (s->runtime) {
#define RUNTIME_JIT_STEP(id, ID, name)                                                             \
	case id:                                                                                   \
		return name##_jit_step(s);
		RUNTIMES(RUNTIME_JIT_STEP)
	}
	return UNWIND_STEP_NO_CFI;
}

#ifdef RPROF_CHECK
/* bool NAME_check(struct scratch *s, struct kept_walk *kept): walks again, plainly. False:
 * something is different. */
static __always_inline bool interp_check(struct scratch *s, struct kept_walk *kept)
{
	switch (s->runtime) {
#define RUNTIME_CHECK(id, ID, name)                                                                \
	case id:                                                                                   \
		return name##_check(s, kept);
		RUNTIMES(RUNTIME_CHECK)
	}
	return false;
}
#endif

#endif
