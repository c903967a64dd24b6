/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Of a build with RPROF_CHECK: the control frames a second time, word by word and with nothing
 * kept, compared with what ruby_walk() has found.
 */
#ifndef RUBY_CHECK_BPF_H
#define RUBY_CHECK_BPF_H

#ifdef RPROF_CHECK

#include "runtimes/ruby/ruby_walk.bpf.h"

static __always_inline void check_add(struct scratch *s, __u64 word)
{
	s->check_sum = walk_sum(s->check_sum, word);
}

/* A word, read for itself. */
static __always_inline int check_word(__u64 addr, __u64 *out)
{
	return bpf_probe_read_user(out, sizeof(*out), (const void *)addr) ? -1 : 0;
}

SUBPROGRAM int check_frame_read(struct scratch *s, __u64 cfp)
{
	__u64 ep, flags, method = 0, outer, jit_return = 0;

	/* The walk reads a frame as a whole, the words that it does not need too. */
	if (!s || check_word(cfp + ruby(s)->cfp_sz - 8, &s->frame.pc) ||
	        check_word(cfp + ruby(s)->cfp_pc, &s->frame.pc) ||
	        check_word(cfp + ruby(s)->cfp_iseq, &s->frame.code) ||
	        check_word(cfp + ruby(s)->cfp_ep, &ep))
		return -1;
	s->frame.flags = 0;
	s->frame.method = 0;
	s->frame.extra = 0;
	if (ruby(s)->cfp_jit_return &&
	        check_word(cfp + ruby(s)->cfp_jit_return, &jit_return) == 0 && jit_return)
		s->frame.extra = INTERP_F_JIT;
	for (int hop = 0; hop <= RUBY_MAX_EP_HOPS; hop++) {
		if (check_word(ep, &flags) || check_word(ep - 8, &outer) ||
		        check_word(ep - 16, &method)) {
			s->frame.extra |= INTERP_F_EP_FAULT;
			return 0;
		}
		if (hop == 0)
			s->frame.flags = (__u32)flags & ~VM_ENV_FLAG_WB_REQUIRED;
		if (ruby_env_has_method(flags)) {
			s->frame.method = method;
			return 0;
		}
		ep = ruby_env_outer(outer);
	}
	s->frame.extra |= INTERP_F_EP_HOPS;
	return 0;
}

static long check_interp_step(__u32 i, void *ctx)
{
	struct ruby_loop *loop = ctx;
	struct scratch *s = loop->s;
	__u32 base = s->base_interp, nr = s->nr_interp, pos = s->interp_pos + i * 4;
	const struct interp_frame *kept =
	        &loop->kept->interp[(base - 1 - (i - nr)) & (RPROF_MAX_KEPT_INTERP - 1)].frame;
	__u64 last, sent;

	if (i >= s->nr_frames) {
		s->check_outcome = WALK_ROOT;
		return 1;
	}
	if (i >= RPROF_MAX_INTERP) {
		s->check_outcome = WALK_LIMIT;
		return 1;
	}
	if (check_frame_read(s, s->frame_addr + (__u64)i * ruby(s)->cfp_sz)) {
		s->check_outcome = WALK_UNREADABLE;
		return 1;
	}
	last = (__u64)s->frame.extra << 32 | s->frame.flags;
	sent = i >= nr ? kept->method : pos <= RECORD_WORDS - 4 ? s->rec.word[pos + 2] : 0;
	/* An object that was captured is its own; of others what they lead to is sent. */
	if (sent != s->frame.method) {
		s->env_method = s->frame.method;
		ruby_svar_read(s);
	}
	/* What could not be captured is not a matter of the walk. */
	if (i < nr && pos <= RECORD_WORDS - 4)
		last |= s->rec.word[pos + 3] &
		        (__u64)(INTERP_F_CODE_UNSENT | INTERP_F_METHOD_UNSENT) << 32;
	if (i >= nr + base) {
		s->check_bad = 1;
	} else if (i >= nr) {
		if (kept->pc != s->frame.pc || kept->code != s->frame.code ||
		        kept->method != s->frame.method || kept->flags != s->frame.flags ||
		        kept->extra != s->frame.extra)
			s->check_bad = 1;
	} else if (pos <= RECORD_WORDS - 4) {
		if (s->rec.word[pos] != s->frame.pc || s->rec.word[pos + 1] != s->frame.code ||
		        s->rec.word[pos + 2] != s->frame.method || s->rec.word[pos + 3] != last)
			s->check_bad = 1;
	}
	check_add(s, s->frame.pc);
	check_add(s, s->frame.code);
	check_add(s, s->frame.method);
	check_add(s, last);
	s->check_nr = i + 1;
	return 0;
}

/* False: there is a difference. */
static __always_inline bool ruby_check(struct scratch *s, struct kept_walk *kept)
{
	struct ruby_loop loop = {.s = s, .kept = kept};

	s->check_bad = 0;
	s->check_nr = 0;
	if (s->nr_frames == 0)
		return true;
	bpf_loop(RPROF_MAX_INTERP + 1, check_interp_step, &loop, 0);
	return !s->check_bad && s->check_nr == s->nr_interp + s->base_interp &&
	       s->check_outcome == s->interp_outcome;
}

#endif

#endif
