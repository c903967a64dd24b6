/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Copies into the ring what names an object, before the sample that has it: struct capture_plan
 * (bpf/abi.h) tells how. Nothing here knows an interpreter.
 *
 * What was sent is remembered in slots, so that an object is sent once, with a stamp that says
 * until when it is certain to be the same object. The interpreter's walk gives the stamps that are
 * good now: young objects may be freed by any collection, old ones by a full one. An object whose
 * stamp has passed is captured again, and sent if a hash over it differs.
 *
 * An object that stands on the stack of a thread that is interrupted is not freed meanwhile, and
 * its capture and the sample are put into the ring in this run. So whichever object is at an
 * address, what was put into the ring last is of that one, on all CPUs.
 */
#ifndef BPF_CAPTURE_BPF_H
#define BPF_CAPTURE_BPF_H

#include "bpf/maps.bpf.h"

enum capture_life { LIFE_YOUNG, LIFE_OLD, LIFE_BRIEF, LIFE_FOREVER };

#define CAPTURE_STAMP_FOREVER 0xffffffffU
#define CAPTURE_UNSENT        (1ULL << 32)
#define CAPTURE_KEY_KIND(key) ((__u32)(key)&15)
#define CAPTURE_KEY_OBJ(key)  ((key) >> 4 & 0xffffffffffffULL)
#define CAPTURE_PRIME         0x9e3779b97f4a7c15ULL

enum { HASHED_AT_ONCE = 32 };
enum capture_failure { CAPTURE_UNREAD = 1, CAPTURE_NO_OBJECT };
enum { HASH_FAILED = 1 }; /* of nothing that was captured whole */

static __always_inline __u64 capture_key(const struct scratch *s, __u32 kind, __u64 object)
{
	return (__u64)s->image << 52 | (object & 0xffffffffffffULL) << 4 | kind;
}

/* Is what has this stamp what it was? */
static __always_inline bool capture_is_good(const struct scratch *s, __u32 stamp)
{
	if (stamp == 0)
		return false;
	if (IS_PLANTED(PLANTED_STAMPS))
		return true;
	return stamp == CAPTURE_STAMP_FOREVER ||
	       stamp == (stamp & 1 ? s->old_stamp : s->young_stamp);
}

/* What is remembered of a key: stamp << 32 | hash, or 0. */
static __always_inline __u64 capture_recall(struct capture_slots *slots, __u64 key)
{
	__u64 at = key * CAPTURE_PRIME >> (64 - CAPTURE_SLOTS_SHIFT), word;

	word = *(volatile __u64 *)&slots->slot[at].word;
	if ((*(volatile __u64 *)&slots->slot[at].check ^ word) == key)
		return word;
	at ^= 1;
	word = *(volatile __u64 *)&slots->slot[at].word;
	if ((*(volatile __u64 *)&slots->slot[at].check ^ word) == key)
		return word;
	return 0;
}

static __always_inline void capture_remember(struct capture_slots *slots, __u64 key, __u64 word)
{
	__u64 at = key * CAPTURE_PRIME >> (64 - CAPTURE_SLOTS_SHIFT);
	__u64 old = slots->slot[at].word;

	if ((slots->slot[at].check ^ old) != key) {
		if ((slots->slot[at ^ 1].check ^ slots->slot[at ^ 1].word) == key) {
			at ^= 1;
		} else {
			/* The one that was met earlier is more likely to have passed. */
			slots->slot[at ^ 1].check = slots->slot[at].check;
			slots->slot[at ^ 1].word = old;
		}
	}
	*(volatile __u64 *)&slots->slot[at].word = word;
	*(volatile __u64 *)&slots->slot[at].check = key ^ word;
}

/* ---- the operations ------------------------------------------------------------------------- */

static __always_inline __u64 capture_word(const struct scratch *s, __u64 at)
{
	return s->cap.rec.word[at & (CAPTURE_RECORD_WORDS - 1)];
}

static __always_inline void capture_hash(struct scratch *s, __u64 word)
{
	__u64 h = (s->cap.hash ^ word) * CAPTURE_PRIME;

	s->cap.hash = h ^ h >> 29;
}

static long capture_hash_step(__u32 i, void *ctx)
{
	struct scratch *s = *(struct scratch **)ctx;
	__u64 at = s->cap.piece + (__u64)i * HASHED_AT_ONCE, end, h = s->cap.hash;

	end = s->cap.piece + ((__u64)s->cap.piece_sz + 7) / 8;
	for (int n = 0; n < HASHED_AT_ONCE; n++, at++) {
		if (at >= end)
			break;
		h = (h ^ capture_word(s, at)) * CAPTURE_PRIME;
		h ^= h >> 29;
	}
	s->cap.hash = h;
	return 0;
}

/* All bytes of the piece. */
static __always_inline void capture_hash_piece(struct scratch *s)
{
	bpf_loop(s->cap.piece_sz / (HASHED_AT_ONCE * 8) + 1, capture_hash_step, &s, 0);
}

#ifdef RPROF_CHECK
static long capture_check_step(__u32 i, void *ctx)
{
	struct scratch *s = *(struct scratch **)ctx;
	__u64 at = s->cap.piece, word = 0;

	if (bpf_probe_read_user(
	            &word, sizeof(word), (const void *)(capture_word(s, at - 2) + (__u64)i * 8)) ||
	        word != capture_word(s, at + i))
		s->cap.check_bad = 1;
	return 0;
}
#endif

/* Appends a piece of size bytes at addr. 0, or -1 and nothing. */
SUBPROGRAM int capture_read(struct scratch *s, __u64 addr, __u64 size)
{
	__u64 pos;

	if (!s)
		return -1;
	pos = s->cap.pos;
	if (size > CAPTURE_MAX_READ || pos >= CAPTURE_WORDS)
		return -1;
	s->rec.head.reads++;
	s->cap.rec.word[pos] = addr;
	s->cap.rec.word[pos + 1] = size;
	/* What is behind the bytes is sent too. */
	s->cap.rec.word[pos + 2 + (size >> 3)] = 0;
	if (bpf_probe_read_user(&s->cap.rec.word[pos + 2], size, (const void *)addr))
		return -1;
	s->cap.piece = pos + 2;
	s->cap.piece_sz = size;
	s->cap.pos = pos + 2 + ((size + 7) >> 3);
#ifdef RPROF_CHECK
	bpf_loop(size / 8, capture_check_step, &s, 0);
#endif
	return 0;
}

/* Gives back what of the piece is behind size bytes, a multiple of 8. */
static __always_inline void capture_trim(struct scratch *s, __u64 size)
{
	__u64 at = s->cap.piece - 1;

	if (size >= s->cap.piece_sz || at >= CAPTURE_RECORD_WORDS)
		return;
	s->cap.rec.word[at] = size;
	s->cap.piece_sz = size;
	s->cap.pos = s->cap.piece + size / 8;
}

/* The first words of an object, where it is: a collection may just have moved it. 0 or -1. */
static __always_inline int capture_head(
        struct scratch *s, __u64 *addr, __u64 size, const struct capture_plan *plan)
{
	if (capture_read(s, *addr, size))
		return -1;
	if ((capture_word(s, s->cap.piece) & plan->moved_mask) != plan->moved_type)
		return 0;
	*addr = capture_word(s, (__u64)s->cap.piece + plan->moved_to);
	return capture_read(s, *addr, CAPTURE_ARRAY_HEAD);
}

/* A string object. Most are short, and stand in their object: then one read gets all. Its
 * characters count, wherever they are. */
SUBPROGRAM int capture_string(struct scratch *s, __u64 addr, const struct capture_plan *plan)
{
	__u64 head, flags, len, ptr, at, need;

	if (!s || !plan)
		return -1;
	head = page_end(addr) - addr;
	if (head < CAPTURE_ARRAY_HEAD)
		head = CAPTURE_ARRAY_HEAD;
	if (head > CAPTURE_STRING_HEAD)
		head = CAPTURE_STRING_HEAD;
	if (capture_head(s, &addr, head & ~7ULL, plan))
		return -1;
	at = s->cap.piece;
	flags = capture_word(s, at);
	if (flags & plan->string.outside) {
		len = capture_word(s, at + plan->string.len / 8);
		ptr = capture_word(s, at + plan->string.ptr / 8);
	} else {
		len = flags >> (plan->string.len_shift & 63) & plan->string.len_mask;
		if (plan->string.len_mask == 0)
			len = capture_word(s, at + plan->string.len / 8);
		ptr = addr + plan->string.embed;
	}
	if (len > CAPTURE_MAX_STRING)
		len = CAPTURE_MAX_STRING;
	capture_hash(s, len);
	need = plan->string.embed + len;
	if (!(flags & plan->string.outside) && need <= s->cap.piece_sz) {
		need = (need + 7) & ~7ULL;
		capture_trim(s, need < CAPTURE_ARRAY_HEAD ? CAPTURE_ARRAY_HEAD : need);
		for (__u64 i = 2; i < CAPTURE_STRING_HEAD / 8; i++)
			if (i * 8 < need && i * 8 >= plan->string.embed)
				capture_hash(s, capture_word(s, at + i));
		return 0;
	}
	capture_trim(s, CAPTURE_ARRAY_HEAD);
	if (capture_read(s, ptr, len))
		return -1;
	capture_hash_piece(s);
	return 0;
}

/* The word of an array object that stands at an index, in s->cap.value. */
SUBPROGRAM int capture_element(
        struct scratch *s, __u64 addr, __u64 index, const struct capture_plan *plan)
{
	__u64 flags, len, ptr, at;

	if (!s || !plan || capture_head(s, &addr, CAPTURE_ARRAY_HEAD, plan))
		return -1;
	at = s->cap.piece;
	flags = capture_word(s, at);
	if (flags & plan->array.outside) {
		len = flags >> (plan->array.len_shift & 63) & plan->array.len_mask;
		ptr = addr + plan->array.embed;
	} else {
		len = capture_word(s, at + plan->array.len / 8);
		ptr = capture_word(s, at + plan->array.ptr / 8);
	}
	if (index >= len || capture_read(s, ptr + index * 8, 8))
		return -1;
	s->cap.value = capture_word(s, s->cap.piece);
	return 0;
}

struct capture_loop {
	struct scratch *s;
	const struct capture_plan *plan;
	__u64 key, found;
};

static long capture_find_step(__u32 i, void *ctx)
{
	struct capture_loop *loop = ctx;
	__u64 at = loop->s->cap.piece + (__u64)i * 3;

	if (i * 24ULL + 24 > loop->s->cap.piece_sz)
		return 1;
	if (capture_word(loop->s, at) == ~0ULL || capture_word(loop->s, at + 1) != loop->key)
		return 0;
	loop->s->cap.value = capture_word(loop->s, at + 2);
	loop->found = 1;
	return 1;
}

static __always_inline long capture_goto(struct scratch *s, __u32 next)
{
	s->cap.next = next;
	return 0;
}

static __always_inline long capture_end(struct scratch *s)
{
	s->cap.ended = 1;
	return 1;
}

/* Goes on where the plan says so, or gives up. */
static __always_inline long capture_fault(struct scratch *s, __u32 next)
{
	if (next != 0)
		return capture_goto(s, next);
	s->cap.failed = CAPTURE_UNREAD;
	return capture_end(s);
}

static __always_inline void capture_set(struct scratch *s, __u32 reg, __u64 value)
{
	s->cap.reg[reg & (CAPTURE_REGS - 1)] = value;
}

static __always_inline __u64 capture_reg(const struct scratch *s, __u32 reg)
{
	return s->cap.reg[reg & (CAPTURE_REGS - 1)];
}

/* The words of the piece in a set, the first one masked. */
SUBPROGRAM int capture_hash_words(struct scratch *s, __u32 words, __u64 first_mask)
{
	__u64 at, word;

	if (!s)
		return -1;
	at = s->cap.piece;
	for (int i = 0; i < CAPTURE_READ_WORDS; i++) {
		if (!(words >> i))
			break;
		if (!(words >> i & 1))
			continue;
		word = capture_word(s, at + i);
		capture_hash(s, i == 0 ? word & first_mask : word);
	}
	return 0;
}

static long capture_step(__u32 i, void *ctx)
{
	struct capture_loop *loop = ctx;
	struct scratch *s = loop->s;
	const struct capture_op *op = &loop->plan->op[s->cap.next & (CAPTURE_MAX_OPS - 1)];
	__u32 code = op->code, reg_a = op->a, reg_b = op->b, next = op->c, n = op->n, off = op->off;
	__u64 a = capture_reg(s, reg_a), b = capture_reg(s, reg_b), imm = op->imm;

	s->cap.next++;
	switch (code) {
	case CAPTURE_END:
		return capture_end(s);
	case CAPTURE_GIVE_UP:
		s->cap.failed = CAPTURE_NO_OBJECT;
		return capture_end(s);
	case CAPTURE_READ:
		if (capture_read(s, a + off, n))
			return capture_fault(s, next);
		capture_hash_words(s, op->words, imm);
		return 0;
	case CAPTURE_READ_VAR:
		b = capture_reg(s, reg_b & (CAPTURE_REGS - 1));
		if (b > imm || capture_read(s, a, b))
			return capture_fault(s, next);
		if (!(n & CAPTURE_UNCOUNTED))
			capture_hash_piece(s);
		return 0;
	case CAPTURE_STRING:
		return capture_string(s, a, loop->plan) ? capture_fault(s, next) : 0;
	case CAPTURE_ELEMENT:
		if (capture_element(s, a, capture_reg(s, n), loop->plan))
			return capture_fault(s, next);
		capture_set(s, reg_b, s->cap.value);
		return 0;
	case CAPTURE_FIND:
		loop->key = imm;
		loop->found = 0;
		bpf_loop(CAPTURE_MAX_TABLE, capture_find_step, loop, 0);
		if (!loop->found)
			return capture_goto(s, next);
		capture_hash(s, s->cap.value);
		capture_set(s, reg_a, s->cap.value);
		return 0;
	case CAPTURE_LOAD:
		a = capture_word(s, (__u64)s->cap.piece + off / 8);
		capture_set(s, reg_a, a >> (reg_b & 63) & imm);
		return 0;
	case CAPTURE_SET:
		capture_set(s, reg_a, imm);
		return 0;
	case CAPTURE_SHIFT:
		capture_set(s, reg_a, b >> (n & 63) & imm);
		return 0;
	case CAPTURE_SCALE:
		capture_set(s, reg_a, n != 0 ? (b + off) / n * imm + op->words : 0);
		return 0;
	case CAPTURE_ADD:
		capture_set(s, reg_a, b + capture_reg(s, n));
		return 0;
	case CAPTURE_SUB:
		capture_set(s, reg_a, b - capture_reg(s, n));
		return 0;
	case CAPTURE_JUMP:
		return capture_goto(s, next);
	case CAPTURE_IF_EQ:
		return a == imm ? capture_goto(s, next) : 0;
	case CAPTURE_IF_ABOVE:
		return a > imm ? capture_goto(s, next) : 0;
	case CAPTURE_IF_IN:
		return a < 64 && imm >> a & 1 ? capture_goto(s, next) : 0;
	case CAPTURE_IF_ADDR:
		return a >= 0x10000 && a >> 47 == 0 && (a & 7) == 0 ? capture_goto(s, next) : 0;
	case CAPTURE_LASTING:
		if ((capture_word(s, s->cap.piece) & imm) == imm && s->cap.life == LIFE_YOUNG)
			s->cap.life = LIFE_OLD;
		return 0;
	case CAPTURE_BRIEF:
		s->cap.life = LIFE_BRIEF;
		return 0;
	case CAPTURE_FOREVER:
		s->cap.life = LIFE_FOREVER;
		return 0;
	case CAPTURE_QUEUE:
		n = s->cap.nr_queued;
		if (a == 0)
			return 0;
		s->cap.queued[n & (CAPTURE_QUEUE_LEN - 1)] = capture_key(s, reg_b, a);
		s->cap.nr_queued = n + 1;
		return 0;
	}
	return capture_fault(s, 0);
}

/* ---- one object ----------------------------------------------------------------------------- */

/* The plan for one object: s->cap has the record, the hash and how it went. */
SUBPROGRAM int capture_run(struct scratch *s, const struct capture_plan *plan, __u64 key)
{
	struct capture_loop loop = {.s = s, .plan = plan};
	__u32 kind = CAPTURE_KEY_KIND(key);

	if (!s || !plan)
		return -1;
	s->cap.reg[0] = CAPTURE_KEY_OBJ(key);
	s->cap.hash = kind;
	s->cap.pos = sizeof(struct rprof_capture) / 8;
	s->cap.ended = 0;
	s->cap.failed = 0;
	s->cap.life = LIFE_YOUNG;
	s->cap.next = plan->start[kind & (CAPTURE_KINDS - 1)];
	bpf_loop(CAPTURE_MAX_STEPS, capture_step, &loop, 0);
	if (!s->cap.ended)
		s->cap.failed = CAPTURE_UNREAD;
	return 0;
}

static __always_inline __u32 capture_hash_end(const struct scratch *s)
{
	__u32 hash = s->cap.hash >> 32;

	return hash > HASH_FAILED ? hash : HASH_FAILED + 1;
}

/* 0 or -1: there is no room in the ring. */
static __always_inline int capture_send(struct scratch *s, __u64 key)
{
	__u64 pos = s->cap.pos;

	if (pos > CAPTURE_RECORD_WORDS)
		return -1;
	s->cap.rec.head = (struct rprof_capture){
	        .record = {.type = RECORD_CAPTURE, .size = pos * 8},
	        .tgid = s->rec.head.tgid,
	        .tag = s->tag,
	        .object = CAPTURE_KEY_OBJ(key),
	        .kind = CAPTURE_KEY_KIND(key),
	        .flags = s->cap.life == LIFE_OLD ? CAPTURE_F_OLD : 0,
	        .time_ns = s->rec.head.time_ns,
	        .gc_gen = s->gc_gen,
	        .old_stamp = s->old_stamp,
	};
	if (bpf_ringbuf_output(&rp_ring, &s->cap.rec, pos * 8,
	            ring_fills() ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP))
		return -1;
	count(COUNTER_CAPTURES);
	return 0;
}

/* A full collection has passed, and no other: an object that is old has been marked by it, so it
 * was there before anything was freed. */
static __always_inline bool capture_is_renewed(
        struct scratch *s, const struct capture_plan *plan, __u64 key, __u32 stamp)
{
	__u64 flags;

	if (stamp == 0 || stamp != s->renew_stamp ||
	        !(plan->aged_kinds >> CAPTURE_KEY_KIND(key) & 1))
		return false;
	if (user_read(s, CAPTURE_KEY_OBJ(key), &flags))
		return false;
	return (flags & plan->lasting_mask) == plan->lasting_mask;
}

/* The same; in a build that checks, again if memory was not the same when it was read a second
 * time: another thread may be changing it (the collector's marks). */
static __always_inline void capture_object(
        struct scratch *s, const struct capture_plan *plan, __u64 key)
{
#ifdef RPROF_CHECK
	__u32 queued = s->cap.nr_queued;

	s->cap.check_bad = 0;
	capture_run(s, plan, key);
	count(COUNTER_CHECK_CAPTURES);
	if (!s->cap.check_bad)
		return;
	s->cap.check_bad = 0;
	s->cap.nr_queued = queued;
#endif
	capture_run(s, plan, key);
}

#ifdef RPROF_CHECK
/* What was taken for known is captured all the same: it has to be what was sent. */
static __always_inline void capture_check(
        struct scratch *s, const struct capture_plan *plan, __u64 key, __u32 hash)
{
	__u32 queued = s->cap.nr_queued;

	if (hash <= HASH_FAILED || s->cap.check_left == 0)
		return;
	s->cap.check_left--;
	capture_object(s, plan, key);
	s->cap.nr_queued = queued;
	if (s->cap.failed)
		return;
	if (s->cap.check_bad || capture_hash_end(s) != hash)
		count(COUNTER_CHECK_CAPTURE);
}
#endif

/* Looks at the object, and sends it if user space has not got it as it is. Returns its stamp, with
 * CAPTURE_UNSENT if user space cannot have it. */
static __always_inline __u64 capture_one(
        struct scratch *s, struct capture_slots *slots, const struct capture_plan *plan, __u64 key)
{
	__u64 known = capture_recall(slots, key);
	__u32 stamp = known >> 32, hash, nr_parts;
	bool good;

	good = capture_is_good(s, stamp);
	if (!good && capture_is_renewed(s, plan, key, stamp)) {
		stamp = s->old_stamp;
		capture_remember(slots, key, (__u64)stamp << 32 | (__u32)known);
		good = true;
	}
	if (good) {
#ifdef RPROF_CHECK
		capture_check(s, plan, key, known);
#endif
		return stamp;
	}
	if (s->capture_lost || (s->nr_captures >= CAPTURE_LEAST &&
	                               bpf_ktime_get_ns() - s->rec.head.time_ns > CAPTURE_RUN_NS))
		return CAPTURE_UNSENT;
	s->nr_captures++;
	nr_parts = s->cap.nr_queued;
	capture_object(s, plan, key);
	/* What has parts is good once they are sent: capture_finish() says so. */
	nr_parts = s->cap.nr_queued - nr_parts;
#ifdef RPROF_CHECK
	if (s->cap.check_bad)
		count(COUNTER_CHECK_CAPTURE);
#endif
	/* Pages that a collection protects while it moves objects cannot be read; what was good
	 * before it has not been touched since. */
	if (s->cap.failed && stamp != 0 && stamp == (stamp & 1 ? s->old_before : s->young_before))
		return 0;
	hash = capture_hash_end(s);
	stamp = s->young_stamp;
	if (s->cap.life == LIFE_OLD)
		stamp = s->old_stamp;
	else if (s->cap.life == LIFE_FOREVER)
		stamp = CAPTURE_STAMP_FOREVER;
	else if (s->cap.life == LIFE_BRIEF)
		stamp = 0;
	if (s->cap.failed) {
		hash = HASH_FAILED;
		/* The page may be there the next time. */
		if (s->cap.failed == CAPTURE_UNREAD)
			stamp = 0;
		else if (stamp == CAPTURE_STAMP_FOREVER)
			stamp = s->young_stamp;
	} else if ((__u32)known == hash) {
		if (stamp != 0 && nr_parts == 0)
			capture_remember(slots, key, (__u64)stamp << 32 | hash);
		count(COUNTER_LOOKED_AT);
		return stamp;
	}
	if (capture_send(s, key)) {
		s->capture_lost = 1;
		return CAPTURE_UNSENT;
	}
	capture_remember(slots, key, (__u64)(nr_parts == 0 ? stamp : 0) << 32 | hash);
	return stamp;
}

/* ---- the objects of a walk ------------------------------------------------------------------ */

/*
 * The walk notes which objects of its frames have to be looked at, and they are when it is done.
 * at: the frame's number, from the outermost one. base: it stands in the kept walk.
 */
#define WANTED_BASE   0x80000000U
#define WANTED_METHOD 0x40000000U
#define WANTED_LATER                                                                               \
	0x20000000U /* it is old, so it can as well be captured with the next sample               \
	             */
#define WANTED_AT(w) ((w)&0x1fffffff)

/* An entry of the filter is of this run if it has its number: run << 16 | index. */
static __always_inline bool capture_is_noted(const struct scratch *s, __u32 entry, __u64 key)
{
	__u32 at = entry & 0xffff;

	return entry >> 16 == s->cap.run && at < s->cap.nr_wanted && at < CAPTURE_MAX_WANTED &&
	       s->cap.wanted[at & (CAPTURE_MAX_WANTED - 1)] == key;
}

/* Before the first capture_want() of a walk; capture_wanted() behind the last one. */
static __always_inline void capture_begin(struct scratch *s)
{
	s->cap.nr_wanted = 0;
	s->cap.run = (s->cap.run + 1) & 0xffff;
	s->cap.run += s->cap.run == 0;
	s->cap.young_unsent = 0;
}

/* 0 or -1: there is no room. */
static __always_inline int capture_want(struct scratch *s, __u64 key, __u32 where)
{
	__u32 nr = s->cap.nr_wanted, entry = s->cap.run << 16 | nr;
	__u64 hash = key * CAPTURE_PRIME, at;
	__u32 *first = &s->cap.filter[hash >> 56 & (CAPTURE_FILTER - 1)];
	__u32 *second = &s->cap.filter[hash >> 48 & (CAPTURE_FILTER - 1)];

	/* A method that calls itself is there many times. */
	if (capture_is_noted(s, *first, key) || capture_is_noted(s, *second, key))
		return 0;
	if (nr >= CAPTURE_MAX_WANTED)
		return -1;
	if (*first >> 16 == s->cap.run)
		*second = entry;
	else
		*first = entry;
	/* Else clang drops the mask, since it knows the bound; Linux 6.1's verifier forgets it
	 * where the number was kept on the stack ("unbounded memory access"). */
	at = nr;
	asm volatile("" : "+r"(at));
	s->cap.wanted[at & (CAPTURE_MAX_WANTED - 1)] = key;
	s->cap.wanted_at[at & (CAPTURE_MAX_WANTED - 1)] = where;
	s->cap.nr_wanted = nr + 1;
	return 0;
}

struct wanted_loop {
	struct scratch *s;
	struct kept_walk *kept;
	const struct capture_plan *plan;
	struct capture_slots *slots;
};

/* The object of a frame has been looked at, with all that belongs to its name. */
static __always_inline void capture_finish(struct wanted_loop *loop)
{
	struct scratch *s = loop->s;
	__u32 where = s->cap.where, at = WANTED_AT(where), stamp = s->cap.stamp;
	__u64 known = capture_recall(loop->slots, s->cap.key), pos;
	struct kept_interp *kept = &loop->kept->interp[at & (RPROF_MAX_KEPT_INTERP - 1)];
	bool method = where & WANTED_METHOD;

	/* Where a part is missing the next look is at all of them. */
	if (s->cap.unsent)
		stamp = 0;
	if (stamp == 0)
		s->look_again = 1;
	/* While objects move what was good before stays noted. */
	if (known != 0 && known >> 32 != stamp &&
	        (stamp != 0 || s->cap.unsent || s->young_stamp != 0))
		capture_remember(loop->slots, s->cap.key, (__u64)stamp << 32 | (__u32)known);
	if (where & WANTED_BASE) {
		if (method)
			kept->method_stamp = stamp;
		else
			kept->code_stamp = stamp;
		if (s->cap.unsent && s->rec.head.base_unsent <= at)
			s->rec.head.base_unsent = at + 1;
	} else if (at < RPROF_MAX_KEPT_INTERP) {
		pos = s->new_stamps[at];
		s->new_stamps[at] = method ? (pos & ~0xffffffffULL) | stamp
		                           : (pos & 0xffffffffULL) | (__u64)stamp << 32;
	}
	if (!s->cap.unsent)
		return;
	s->rec.head.flags |= SAMPLE_F_UNSENT;
	if (!(where & WANTED_LATER))
		s->cap.young_unsent = 1;
	if (!(where & WANTED_BASE))
		walk_unsent(s, at, method ? INTERP_F_METHOD_UNSENT : INTERP_F_CODE_UNSENT);
}

/* Is the object old, so that it can wait for those that may be gone by the next sample? */
static __always_inline bool capture_can_wait(
        struct scratch *s, const struct capture_plan *plan, __u64 key)
{
	__u64 flags = 0;

	if (!(plan->aged_kinds >> CAPTURE_KEY_KIND(key) & 1) ||
	        user_read(s, CAPTURE_KEY_OBJ(key), &flags))
		return false;
	return (flags & plan->lasting_mask) == plan->lasting_mask;
}

static long capture_next(__u32 i, void *ctx)
{
	struct wanted_loop *loop = ctx;
	struct scratch *s = loop->s;
	bool part = s->cap.nr_done != s->cap.nr_queued;
	__u64 key, stamp;
	__u32 at;

	if (part) {
		key = s->cap.queued[s->cap.nr_done++ & (CAPTURE_QUEUE_LEN - 1)];
	} else {
		if (s->cap.key != 0)
			capture_finish(loop);
		s->cap.key = 0;
		at = s->cap.nr_looked;
		if (at >= s->cap.nr_wanted || at >= CAPTURE_MAX_WANTED) {
			/* The second time it is the old ones' turn. */
			if (!s->cap.postponing)
				return 1;
			s->cap.postponing = 0;
			s->cap.nr_looked = 0;
			s->cap.second = 1;
			return 0;
		}
		key = s->cap.wanted[at & (CAPTURE_MAX_WANTED - 1)];
		s->cap.nr_looked = at + 1;
		if (s->cap.postponing && capture_can_wait(s, loop->plan, key)) {
			s->cap.wanted_at[at & (CAPTURE_MAX_WANTED - 1)] |= WANTED_LATER;
			return 0;
		}
		if (s->cap.second &&
		        !(s->cap.wanted_at[at & (CAPTURE_MAX_WANTED - 1)] & WANTED_LATER))
			return 0;
		s->cap.key = key;
		s->cap.where = s->cap.wanted_at[at & (CAPTURE_MAX_WANTED - 1)];
		s->cap.unsent = 0;
	}
	stamp = capture_one(s, loop->slots, loop->plan, key);
	if (stamp & CAPTURE_UNSENT)
		s->cap.unsent = 1;
	/* The whole is good as long as each of its parts. */
	if (!part || (__u32)stamp == 0 || (!(stamp & 1) && s->cap.stamp != 0))
		s->cap.stamp = stamp;
	return 0;
}

/* Looks at all that was noted. */
static __always_inline void capture_wanted(struct scratch *s, struct kept_walk *kept)
{
	struct wanted_loop loop = {.s = s, .kept = kept};
	__u32 plan = s->plan, zero = 0;

	s->cap.nr_queued = 0;
	s->cap.nr_done = 0;
	s->cap.nr_looked = 0;
	s->cap.key = 0;
	s->cap.second = 0;
	s->cap.postponing = s->cap.nr_wanted > CAPTURE_LEAST / 4;
	if (s->cap.nr_wanted == 0)
		return;
	loop.slots = bpf_map_lookup_elem(&rp_slots, &zero);
	loop.plan = bpf_map_lookup_elem(&rp_plans, &plan);
	if (!loop.slots || !loop.plan)
		return;
	bpf_loop(CAPTURE_MAX_WANTED * 32, capture_next, &loop, 0);
}

#endif
