/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Of a build with RPROF_CHECK: makes each walk a second time, plainly (every word read for itself,
 * every rule searched in the tables, nothing kept), and compares frame by frame. The thread is
 * interrupted meanwhile, so its stacks are the same. What user space puts together from the record
 * is held against the same plain walk by a sum.
 */
#ifndef CHECK_WALK_BPF_H
#define CHECK_WALK_BPF_H

#ifdef RPROF_CHECK

#include "bpf/native_walk.bpf.h"

static long check_native_step(__u32 i, void *ctx)
{
	struct native_loop *loop = ctx;
	struct scratch *s = loop->s;
	__u64 pc = s->u.pc, sp = s->u.sp | (s->u.interrupted ? 1 : 0);
	__u32 base = s->base_native, nr = s->nr_native, outcome;
	const struct kept_native *fast = &s->new_native[i & (RPROF_MAX_NATIVE - 1)];

	if (i >= RPROF_MAX_NATIVE) {
		s->check_outcome = WALK_LIMIT;
		return 1;
	}
	if (i >= nr)
		fast = &loop->kept->native[(base - 1 - (i - nr)) & (RPROF_MAX_KEPT_NATIVE - 1)];
	if (i >= nr + base || fast->pc != pc || fast->sp != sp)
		s->check_bad = 1;
	check_add(s, NATIVE_PC(pc) | (sp & 1 ? NATIVE_INTERRUPTED : 0));
	s->check_nr = i + 1;
	outcome = native_walk_step(s, loop->maps);
	if (outcome == WALK_NONE)
		return 0;
	s->check_outcome = outcome;
	return 1;
}

static __always_inline void check_walk(struct scratch *s, struct rprof_mappings *maps,
        struct kept_walk *kept, const struct unwind_state *leaf)
{
	struct native_loop loop = {.s = s, .maps = maps, .kept = kept};
	__u32 reads = s->rec.head.reads, lookups = s->rec.head.lookups;
	__u32 key = COUNTER_CHECK_FRAMES;
	__u64 *frames = bpf_map_lookup_elem(&rp_counters, &key);

	s->check_sum = 1;
	s->check_nr = 0;
	s->check_bad = 0;
	s->plain = 1;
	s->u = *leaf;
	bpf_loop(RPROF_MAX_NATIVE + 1, check_native_step, &loop, 0);
	s->plain = 0;
	if (s->check_bad || s->check_nr != s->nr_native + s->base_native ||
	        s->check_outcome != s->native_outcome)
		count(COUNTER_CHECK_NATIVE);
	if (frames)
		*frames += s->check_nr;
	if (s->runtime != RUNTIME_NONE) {
		if (!interp_check(s, kept))
			count(COUNTER_CHECK_INTERP);
		if (frames)
			*frames += s->check_nr;
	}
	count(COUNTER_CHECKED);
	s->rec.head.reads = reads;
	s->rec.head.lookups = lookups;
	s->rec.head.check_sum = s->check_sum != 0 ? s->check_sum : 1;
}

#endif

#endif
