/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The kernel side of the runtimes, chosen by the id that user space has given the process. The only
 * place in bpf/ that names one, by its include; the list is runtimes/list.h.
 *
 * NAME_walk.bpf.h has, for the walk of a thread of such a process (struct NAME_proc is s->config):
 *
 *	void NAME_walk(struct scratch *s, __u64 tp, struct kept_walk *kept)
 *		Appends the interpreter's frames, leaf first, by record_word() or interp_emit(), and
 *		says how that ended in s->interp_outcome. tp: the thread pointer. What is the same
 *as in the last walk need not be sent: struct rprof_sample, bpf/abi.h. int NAME_jit_covers(const
 *struct scratch *s, __u64 pc) Is pc in code of its JIT, though no mapping says so? int
 *NAME_jit_step(struct scratch *s) A step out of a JIT's code: enum unwind_step_result. bool
 *NAME_check(struct scratch *s, struct kept_walk *kept) With RPROF_CHECK: walks again, plainly.
 *False: something is different.
 */
#ifndef BPF_RUNTIMES_BPF_H
#define BPF_RUNTIMES_BPF_H

#include "bpf/capture.bpf.h"
#include "runtimes/list.h"

#include "runtimes/ruby/ruby_walk.bpf.h"

/* For user space, which compares before anything runs: runtime_check_walk(). */
#define RUNTIME_CONFIG_SZ(id, ID, name) [id] = sizeof(struct name##_proc),
const volatile __u32 rp_config_sz[MAX_RUNTIME_ID + 1] = {RUNTIMES(RUNTIME_CONFIG_SZ)};

static __always_inline void interp_walk(struct scratch *s, __u64 tp, struct kept_walk *kept)
{
	s->nr_interp = 0;
	s->base_interp = 0;
	s->gc_gen = 0;
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
