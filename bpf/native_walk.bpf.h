/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The walk of the native user stack by the unwind tables: leaf first, in one program run. */
#ifndef BPF_NATIVE_WALK_BPF_H
#define BPF_NATIVE_WALK_BPF_H

#include "bpf/maps.bpf.h"

#define UNWIND_READ(ctx, addr, value)                                                              \
	page_read((struct scratch *)(ctx), &((struct scratch *)(ctx))->stack_page, (addr), (value))
#include "bpf/unwind_step.h"
#include "runtimes/ruby/ruby_walk.bpf.h"

struct native_loop {
	struct scratch *s;
	struct rprof_mappings *maps;
};

/*
 * 1 when a < b, else 0, for values below 2^63, without a branch: at each branch of an unrolled
 * search the verifier would follow both ways, and 2^12 ways are more than it has patience for. The
 * barrier keeps clang from seeing that the result is a comparison.
 */
static __always_inline __u64 is_below(__u64 a, __u64 b)
{
	__u64 diff = a - b;

	asm volatile("" : "+r"(diff));
	return diff >> 63;
}

/* Index of the mapping that holds pc, or -1. */
static __always_inline int mapping_find(
        struct scratch *s, const struct rprof_mappings *maps, __u64 pc)
{
	__u64 nr = maps->nr, at = s->last_mapping & (RPROF_MAX_MAPPINGS - 1);
	const struct rprof_mapping *m = &maps->m[at];

	/* Most frames stand in the same file as the one before. */
	if (pc >= m->start && pc < m->end)
		return at;
	at = 0;
#pragma unroll
	for (__u64 step = RPROF_MAX_MAPPINGS / 2; step != 0; step >>= 1) {
		__u64 mid = at + step;
		__u64 start = maps->m[mid & (RPROF_MAX_MAPPINGS - 1)].start;
		__u64 add = step * (is_below(mid, nr) & (is_below(pc, start) ^ 1));

		/* Else clang adds with |=, after which Linux 6.1's verifier knows no bounds. */
		asm volatile("" : "+r"(add));
		at += add;
	}
	at &= RPROF_MAX_MAPPINGS - 1;
	m = &maps->m[at];
	if (pc < m->start || pc >= m->end)
		return -1;
	s->last_mapping = at;
	return at;
}

/* The rule in force at a table address of a mapping's file; NULL: none. */
static __always_inline const struct unwind_rule *rule_find(
        const struct rprof_mapping *m, __u64 vaddr)
{
	__u64 page_nr = vaddr >> UNWIND_PAGE_SHIFT;
	__u64 low = vaddr & 0xffff, at, end;
	__u32 key;
	const struct unwind_page *page;
	const struct rows_chunk *chunk;

	if (page_nr >= m->nr_pages)
		return NULL;
	key = m->page0 + (__u32)page_nr;
	page = bpf_map_lookup_elem(&rp_pages, &key);
	if (!page || page->nr == 0)
		return NULL;
	at = page->first;
	end = at + page->nr;
	key = page->chunk;
	chunk = bpf_map_lookup_elem(&rp_rows, &key);
	if (!chunk)
		return NULL;
#pragma unroll
	for (__u64 step = UNWIND_CHUNK_ROWS / 2; step != 0; step >>= 1) {
		__u64 mid = at + step;
		__u64 row = chunk->row[mid & (UNWIND_CHUNK_ROWS - 1)];

		at += step * (is_below(mid, end) & (is_below(low, UNWIND_ROW_LOW(row)) ^ 1));
	}
	key = m->rule0 + UNWIND_ROW_RULE(chunk->row[at & (UNWIND_CHUNK_ROWS - 1)]);
	return bpf_map_lookup_elem(&rp_rules, &key);
}

static __always_inline __u32 outcome_of_step(enum unwind_step_result result)
{
	switch (result) {
	case UNWIND_STEP_END:
		return WALK_ROOT;
	case UNWIND_STEP_UNREADABLE:
		return WALK_UNREADABLE;
	case UNWIND_STEP_NO_PROGRESS:
		return WALK_NO_PROGRESS;
	default:
		return WALK_NO_CFI;
	}
}

static long native_step(__u32 i, void *ctx)
{
	struct native_loop *loop = ctx;
	struct scratch *s = loop->s;
	struct rprof_mappings *maps = loop->maps;
	struct unwind_state u = {
	        .pc = s->pc, .sp = s->sp, .fp = s->fp, .interrupted = s->interrupted};
	const struct rprof_mapping *m;
	const struct unwind_rule *rule;
	enum unwind_step_result result;
	struct cached_rule *cached;
	__u64 lookup_pc;
	int at;

	if (s->nr_native >= RPROF_MAX_NATIVE) {
		s->native_outcome = WALK_LIMIT;
		return 1;
	}
	record_word(s, u.pc);
	record_word(s, u.sp | (u.interrupted ? NATIVE_SP_INTERRUPTED : 0));
	s->nr_native++;

	lookup_pc = unwind_lookup_pc(&u);
	cached = &s->rules[(lookup_pc ^ lookup_pc >> 12) & (RULE_CACHE_SLOTS - 1)];
	if (cached->pc == lookup_pc && cached->generation == s->rec.head.generation) {
		result = unwind_step(&u, &cached->rule, s);
		goto stepped;
	}
	at = mapping_find(s, maps, lookup_pc);
	if (at < 0) {
		s->native_outcome = WALK_NO_MAPPING;
		return 1;
	}
	m = &maps->m[at & (RPROF_MAX_MAPPINGS - 1)];
	if (m->kind == MAPPING_TABLE) {
		rule = rule_find(m, lookup_pc - m->bias);
		if (!rule) {
			s->native_outcome = WALK_NO_CFI;
			return 1;
		}
		cached->pc = lookup_pc;
		cached->generation = s->rec.head.generation;
		cached->rule = *rule;
		result = unwind_step(&u, rule, s);
	} else if (m->kind == MAPPING_JIT && s->has_ruby) {
		result = ruby_step_jit(s, &u);
		if (result == UNWIND_STEP_NO_CFI) {
			s->native_outcome = WALK_JIT;
			return 1;
		}
	} else {
		result = unwind_step_fp(&u, s);
		if (result == UNWIND_STEP_NO_CFI) {
			s->native_outcome = WALK_NO_TABLE;
			return 1;
		}
	}
stepped:
	if (result != UNWIND_STEP_NEXT) {
		s->native_outcome = outcome_of_step(result);
		return 1;
	}
	s->pc = u.pc;
	s->sp = u.sp;
	s->fp = u.fp;
	s->interrupted = u.interrupted;
	return 0;
}

static __always_inline void native_walk(struct scratch *s, struct rprof_mappings *maps)
{
	struct native_loop loop = {.s = s, .maps = maps};

	s->nr_native = 0;
	s->last_mapping = 0;
	s->native_outcome = WALK_LIMIT;
	s->stack_page.base = 1;
	bpf_loop(RPROF_MAX_NATIVE + 1, native_step, &loop, 0);
	s->rec.head.nr_native = s->nr_native;
	s->rec.head.native_outcome = s->native_outcome;
	s->rec.head.cut_pc = s->native_outcome == WALK_ROOT ? 0 : s->pc;
}

#endif
