/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The walk of the native user stack by the unwind tables: leaf first, in one program run.
 *
 * 1. native_walk() begins with the registers of the leaf. native_step() is one frame, called by
 *    bpf_loop(); what it knows is in the scratch memory.
 *
 * 2. Where does the rule for this pc stand? First it is looked for in the cache of rules
 *    (native_rule_cached()): most are there. Else mapping_find() says which file pc is in, and
 *    rule_find() searches its table: the page of 64 KiB, in that the row, and by that the rule.
 * What was found goes into the cache.
 *
 * 3. unwind_step() applies the rule: it says where the caller's frame begins (the CFA), and reads
 *    the return address and perhaps rbp, by stack_read(), from a window of up to 16 KiB that was
 *    copied at once. Code of a JIT has no rule: jit_step() knows how to leave it. A file without a
 *    table is left by its frame pointer, if that can be one.
 *
 * 4. Meanwhile the walk looks for the thread's last one, which was kept: a frame with the same pc
 *    at the same stack pointer. From there on (s->matching) no rule is needed: each kept frame says
 *    where its step read, and native_follow() compares what stands there now. The first word that
 *    differs ends that (native_unmatch()): the frames that matched so far are sent after all, and 2
 *    goes on.
 *
 * 5. At the root all that matched is sent as a number, base_native. The new frames are put in front
 *    of it in the kept walk (native_keep()). A walk that ended elsewhere is sent whole, and says
 * why it ended.
 */
#ifndef BPF_NATIVE_WALK_BPF_H
#define BPF_NATIVE_WALK_BPF_H

#include "bpf/runtimes.bpf.h"
#include "bpf/stack.bpf.h"

enum {
	STACK_END_SLACK = 128, /* copied above the root's sp */
	FOLLOWED_AT_ONCE = 16, /* frames of the kept walk in one turn of the loop */
};

struct native_loop {
	struct scratch *s;
	struct rprof_mappings *maps;
	struct kept_walk *kept;
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
		/* What lies outside is not even read: each line of memory costs. */
		__u64 in = is_below(at + step, nr);
		__u64 mid = at + step * in;
		__u64 start = maps->m[mid & (RPROF_MAX_MAPPINGS - 1)].start;
		__u64 add = step * (in & (is_below(pc, start) ^ 1));

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

/* The rule in force at a table address of a mapping's file; NULL: none. *from, *to: the addresses
 * [from, to) of its page that it holds for. */
static __always_inline const struct unwind_rule *rule_find(
        const struct rprof_mapping *m, __u64 vaddr, __u64 *from, __u64 *to)
{
	__u64 page_nr = vaddr >> UNWIND_PAGE_SHIFT;
	__u64 low = vaddr & 0xffff, at, end;
	__u32 key, row;
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
		__u64 in = is_below(at + step, end);
		__u64 mid = at + step * in;
		__u64 middle = chunk->row[mid & (UNWIND_CHUNK_ROWS - 1)];

		at += step * (in & (is_below(low, UNWIND_ROW_LOW(middle)) ^ 1));
	}
	row = chunk->row[at & (UNWIND_CHUNK_ROWS - 1)];
	*from = (vaddr & ~0xffffULL) + UNWIND_ROW_LOW(row);
	*to = (vaddr & ~0xffffULL) + 0x10000;
	if (at + 1 < end)
		*to = (vaddr & ~0xffffULL) +
		      UNWIND_ROW_LOW(chunk->row[(at + 1) & (UNWIND_CHUNK_ROWS - 1)]);
	key = m->rule0 + UNWIND_ROW_RULE(row);
	return bpf_map_lookup_elem(&rp_rules, &key);
}

/* How a step by this rule would be kept; 0: it has to be done again each time. */
static __always_inline __u64 kept_step(const struct unwind_state *u, const struct unwind_rule *rule)
{
	__u64 step = KEPT_STEP_SIMPLE, dist;
	__s64 slot;

	if (rule->ra_kind != RA_AT_CFA || rule->ra_off != ARCH_RA_OFF ||
	        rule->flags & UNWIND_F_SIGNAL)
		return 0;
	if (rule->cfa_kind == CFA_FP) {
		dist = u->fp - u->sp;
		if (dist >> 32)
			return 0;
		step |= KEPT_STEP_USES_FP | dist << 32;
	} else if (rule->cfa_kind != CFA_SP && rule->cfa_kind != CFA_PLT) {
		return 0;
	}
	if (rule->fp_kind == FP_SAME)
		return step;
	slot = -(__s64)rule->fp_off;
	if (rule->fp_kind != FP_AT_CFA || slot <= 0 || slot & 7 || slot > 0xffff)
		return 0;
	return step | (__u64)slot >> 3 << 16;
}

/* Appends a frame to the record and to what will be kept. */
static __always_inline void native_emit(struct scratch *s, __u64 pc, __u64 sp, __u64 step)
{
	__u32 nr = s->nr_native;

	if (nr >= RPROF_MAX_NATIVE)
		return;
	record_word(s, NATIVE_PC(pc) | (sp & 1 ? NATIVE_INTERRUPTED : 0));
	s->new_native[nr].pc = pc;
	s->new_native[nr].sp = sp;
	s->new_native[nr].step = step;
	s->nr_native = nr + 1;
}

static long native_emit_kept(__u32 i, void *ctx)
{
	struct native_loop *loop = ctx;
	const struct kept_native *k =
	        &loop->kept->native[(loop->s->match_from - 1 - i) & (RPROF_MAX_KEPT_NATIVE - 1)];

	native_emit(loop->s, k->pc, k->sp, k->step);
	return 0;
}

/* The walk does not go on as the kept one: the frames that did, down to kept_at + 1, are new after
 * all. */
static __noinline void native_unmatch(struct native_loop *loop)
{
	struct scratch *s = loop->s;

	if (s->matching)
		bpf_loop(s->match_from - s->kept_at, native_emit_kept, loop, 0);
	s->matching = 0;
	s->match_from = 0;
}

static __always_inline int native_end(struct scratch *s, __u32 outcome)
{
	s->native_outcome = outcome;
	return 1;
}

/* Where the rule of pc may be in the cache: by the 16 bytes that it is in, or by the 256. */
static __always_inline struct cached_rule *cached_near(struct scratch *s, __u64 pc)
{
	return &s->rules[(pc >> 4 ^ pc >> 16) & (RULE_CACHE_SLOTS - 1)];
}

static __always_inline struct cached_rule *cached_far(struct scratch *s, __u64 pc)
{
	return &s->rules[(pc >> 8 ^ pc >> 19 ^ 0x555) & (RULE_CACHE_SLOTS - 1)];
}

static __always_inline bool cached_holds(
        const struct scratch *s, const struct cached_rule *c, __u64 pc)
{
	return pc - c->start < c->size && c->generation == s->rec.head.generation && !IS_PLAIN(s);
}

/* Searches the rule of pc in the tables, puts it into s->rule and keeps it. WALK_NONE, or why there
 * is none. */
static __always_inline __u32 native_rule(struct scratch *s, const struct rprof_mapping *m, __u64 pc)
{
	struct cached_rule *cached = cached_near(s, pc);
	const struct unwind_rule *rule;
	__u64 from, to;

	s->rec.head.lookups++;
	rule = rule_find(m, pc - m->bias, &from, &to);
	if (!rule)
		return WALK_NO_CFI;
	s->rule = *rule;
	if (IS_PLAIN(s))
		return WALK_NONE;
	cached->start = from + m->bias;
	cached->size = to - from;
	cached->generation = s->rec.head.generation;
	cached->rule = *rule;
	*cached_far(s, pc) = *cached;
	return WALK_NONE;
}

/* One step by s->rule. enum unwind_step_result; UNWIND_STEP_NEXT: s->u is the caller. */
SUBPROGRAM int native_rule_step(struct scratch *s)
{
	if (!s)
		return UNWIND_STEP_UNREADABLE;
	s->step = kept_step(&s->u, &s->rule);
	return unwind_step(&s->u, &s->rule, s);
}

/* Is the rule of pc in the cache? Then it is put into s->rule. */
SUBPROGRAM int native_rule_cached(struct scratch *s, __u64 pc)
{
	const struct cached_rule *cached;

	if (!s)
		return 0;
	cached = cached_near(s, pc);
	if (!cached_holds(s, cached, pc))
		cached = cached_far(s, pc);
	if (!cached_holds(s, cached, pc))
		return 0;
	s->rule = cached->rule;
	return 1;
}

/* One step in code without a table, by frame pointer. Returns the same. */
SUBPROGRAM int native_fp_step(struct scratch *s)
{
	if (!s)
		return UNWIND_STEP_UNREADABLE;
	return unwind_step_fp(&s->u, s);
}

/*
 * From a frame to its caller: by the cache, by the tables, through JIT code or by frame pointer.
 * WALK_NONE: s->u is the caller, s->step how to keep the step. Else how the walk ended.
 */
static __always_inline __u32 native_walk_step(struct scratch *s, struct rprof_mappings *maps)
{
	__u64 pc = unwind_lookup_pc(&s->u), dist = s->u.fp - s->u.sp;
	const struct rprof_mapping *m;
	int at, result, is_jit;
	__u32 cut = WALK_NO_CFI;

	s->step = 0;
	if (!native_rule_cached(s, pc)) {
		at = mapping_find(s, maps, pc);
		m = &maps->m[at & (RPROF_MAX_MAPPINGS - 1)];
		is_jit = at < 0 ? jit_covers(s, pc) : m->kind == MAPPING_JIT;
		if (at < 0 && !is_jit)
			return WALK_NO_MAPPING;
		if (is_jit || m->kind != MAPPING_TABLE)
			goto no_table;
		if (native_rule(s, m, pc) != WALK_NONE)
			return WALK_NO_CFI;
	}
	result = native_rule_step(s);
	goto stepped;
no_table:
	if (is_jit && s->runtime != RUNTIME_NONE) {
		cut = WALK_JIT;
		result = jit_step(s);
	} else {
		cut = WALK_NO_TABLE;
		if (!(dist >> 32))
			s->step = KEPT_STEP_SIMPLE | KEPT_STEP_USES_FP | 2ULL << 16 | dist << 32;
		result = native_fp_step(s);
	}
stepped:
	switch (result) {
	case UNWIND_STEP_NEXT:
		return WALK_NONE;
	case UNWIND_STEP_END:
		return WALK_ROOT;
	case UNWIND_STEP_UNREADABLE:
		return WALK_UNREADABLE;
	case UNWIND_STEP_NO_PROGRESS:
		return WALK_NO_PROGRESS;
	default:
		return cut;
	}
}

/*
 * As many simple steps of the kept walk as hold, up to a number: a function's return costs more
 * than a step does. Stops before what is not simple, not in the window, or not as it was.
 */
static __always_inline void native_follow(struct scratch *s, const struct kept_walk *kept)
{
	__u64 fp = s->u.fp, base = s->stack.base, size = s->stack.size, step, off, fp_off;
	const struct kept_native *k, *next;
	__u32 at = s->kept_at, slot;

	for (int n = 0; n < FOLLOWED_AT_ONCE; n++) {
		k = &kept->native[(at - 1) & (RPROF_MAX_KEPT_NATIVE - 1)];
		next = &kept->native[(at - 2) & (RPROF_MAX_KEPT_NATIVE - 1)];
		step = k->step;
		if (at < 2 || !(step & KEPT_STEP_SIMPLE))
			break;
		if (step & KEPT_STEP_USES_FP && fp - k->sp != KEPT_STEP_FP_DIST(step) &&
		        !IS_PLANTED(PLANTED_FRAME_POINTER))
			break;
		off = next->sp + ARCH_RA_OFF - base;
		if (off >= size)
			break;
		if (window_word(&s->stack, off) != next->pc && !IS_PLANTED(PLANTED_RETURN_ADDRESS))
			break;
		slot = KEPT_STEP_FP_SLOT(step);
		if (slot != 0) {
			fp_off = off - ARCH_RA_OFF - slot * 8;
			if (fp_off >= size)
				break;
			fp = window_word(&s->stack, fp_off);
		}
		at--;
	}
	if (at == s->kept_at)
		return;
	k = &kept->native[(at - 1) & (RPROF_MAX_KEPT_NATIVE - 1)];
	s->kept_at = at;
	s->u.pc = k->pc;
	s->u.sp = k->sp;
	s->u.fp = fp;
	s->u.interrupted = 0;
}

/*
 * One frame. While the walk is where the kept walk was (same pc, same sp), a simple step needs no
 * rule: the same rule would find the return address and the saved rbp in the same slots, so their
 * values alone say where it goes on. Nothing is taken over unread: this is the walk itself, with
 * the rules known beforehand. If it follows the kept walk to the root, all that is sent of these
 * frames is their number.
 */
static long native_step(__u32 i, void *ctx)
{
	struct native_loop *loop = ctx;
	struct scratch *s = loop->s;
	__u64 pc = s->u.pc, sp = s->u.sp, fp, ra, cfa;
	__u64 sp_word = sp | (s->u.interrupted ? 1 : 0);
	__u32 at = s->kept_at, outcome, slot;
	const struct kept_native *k = &loop->kept->native[(at - 1) & (RPROF_MAX_KEPT_NATIVE - 1)];
	const struct kept_native *next =
	        &loop->kept->native[(at - 2) & (RPROF_MAX_KEPT_NATIVE - 1)];

	if (!s->matching && at > 0) {
		if ((k->sp & ~1ULL) < sp) {
			s->kept_at = at - 1;
			return 0;
		}
		if (k->pc == pc && k->sp == sp_word) {
			s->matching = 1;
			s->match_from = at;
		}
	}
	if (s->matching) {
		native_follow(s, loop->kept);
		if (s->kept_at != at)
			return 0;
		if (!(k->step & KEPT_STEP_SIMPLE) || at < 2)
			goto by_rule;
		fp = s->u.fp;
		if (k->step & KEPT_STEP_USES_FP && fp - sp != KEPT_STEP_FP_DIST(k->step))
			goto unlike;
		cfa = next->sp;
		if (stack_read(s, cfa + ARCH_RA_OFF, &ra))
			return native_end(s, WALK_UNREADABLE);
		if (ra != next->pc)
			goto unlike;
		slot = KEPT_STEP_FP_SLOT(k->step);
		if (slot != 0 && stack_read(s, cfa - slot * 8, &fp))
			return native_end(s, WALK_UNREADABLE);
		s->u.pc = next->pc;
		s->u.sp = cfa;
		s->u.fp = fp;
		s->u.interrupted = 0;
		s->kept_at = at - 1;
		return 0;
	}
	if (s->nr_native >= RPROF_MAX_NATIVE)
		return native_end(s, WALK_LIMIT);
	native_emit(s, pc, sp_word, 0);
by_rule:
	outcome = native_walk_step(s, loop->maps);
	if (outcome != WALK_NONE)
		return native_end(s, outcome);
	if (s->matching) {
		s->kept_at = at - 1;
		sp_word = s->u.sp | (s->u.interrupted ? 1 : 0);
		if (at < 2 || next->pc != s->u.pc || next->sp != sp_word)
			native_unmatch(loop);
	} else {
		s->new_native[(s->nr_native - 1) & (RPROF_MAX_NATIVE - 1)].step =
		        s->u.sp & 7 ? 0 : s->step;
	}
	return 0;
unlike:
	/* This frame is walked again, by its rule, and the kept one is passed by. */
	native_unmatch(loop);
	s->kept_at = at - 1;
	return 0;
}

static long native_keep(__u32 i, void *ctx)
{
	struct native_loop *loop = ctx;
	struct scratch *s = loop->s;
	__u32 at = s->base_native + s->nr_native - 1 - i;

	if (at < RPROF_MAX_KEPT_NATIVE)
		loop->kept->native[at] = s->new_native[i & (RPROF_MAX_NATIVE - 1)];
	return 0;
}

static __always_inline void native_walk(
        struct scratch *s, struct rprof_mappings *maps, struct kept_walk *kept)
{
	struct native_loop loop = {.s = s, .maps = maps, .kept = kept};
	__u64 root_sp;
	__u32 nr;

	s->nr_native = 0;
	s->native_outcome = WALK_LIMIT;
	s->stack.size = 0;
	s->stack_end = 0;
	s->matching = 0;
	s->match_from = 0;
	s->kept_at = 0;
	s->base_native = 0;
	if (kept->generation == maps->generation && kept->nr_native <= RPROF_MAX_KEPT_NATIVE)
		s->kept_at = kept->nr_native;
	if (s->kept_at != 0) {
		root_sp = kept->native[0].sp & ~7ULL;
		s->stack_end = page_end(root_sp) - root_sp < STACK_END_SLACK
		                       ? page_end(root_sp)
		                       : root_sp + STACK_END_SLACK;
	}
	bpf_loop(RPROF_MAX_NATIVE + RPROF_MAX_KEPT_NATIVE * 2, native_step, &loop, 0);
	if (s->native_outcome == WALK_ROOT && s->nr_native + s->match_from > RPROF_MAX_NATIVE)
		s->native_outcome = WALK_LIMIT;
	if (s->native_outcome == WALK_ROOT && s->matching && s->kept_at == 1) {
		s->base_native = s->match_from;
	} else if (s->matching) {
		/* The frame where it ended is one of them. */
		s->kept_at--;
		native_unmatch(&loop);
	}
	if (s->native_outcome == WALK_ROOT && s->keep) {
		bpf_loop(s->nr_native, native_keep, &loop, 0);
		nr = s->base_native + s->nr_native;
		kept->nr_native = nr < RPROF_MAX_KEPT_NATIVE ? nr : RPROF_MAX_KEPT_NATIVE;
		kept->generation = maps->generation;
	}
	s->rec.head.nr_native = s->nr_native;
	s->rec.head.base_native = s->base_native;
	s->rec.head.native_outcome = s->native_outcome;
}

#endif
