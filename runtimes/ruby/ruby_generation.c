/*
 * What the collector may have freed since: when an object that is read now is the one that a sample
 * saw.
 *
 * A generation is a number that changes with each phase of each collection (see struct
 * rprof_sample, gc_gen); its order ascends with time.
 */
#include "runtimes/ruby/ruby_cache.h"
#include <errno.h>

enum {
	FL_PROMOTED = 1 << 5,
	FL_PROMOTED1 = 1 << 6,
	SETTLED_COLLECTIONS = 8,
	MAJORS_WORDS = 32,
};

/*
 * The numbers of minor and of full collections lie near the number of all (struct rb_objspace,
 * profile: minor_gc_count, major_gc_count, 2.7 to 4.0), of which they are the sum: two words, the
 * only ones there of which that is true.
 */
void ruby_majors_find(struct runtime *rt)
{
	uint64_t words[2 * MAJORS_WORDS + 1], count;
	uint64_t addr = rt->proc.objspace_addr + rt->proc.objspace_gc_count -
	                sizeof(uint64_t) * MAJORS_WORDS;
	size_t found = 0;

	if (rt->proc.objspace_gc_count < sizeof(uint64_t) * MAJORS_WORDS ||
	        target_read(&rt->target, addr, words, sizeof(words)) != 0)
		return;
	count = words[MAJORS_WORDS];
	rt->gc_minors = 0;
	for (size_t i = 0; i + 1 < ARRAY_SIZE(words); i++) {
		if (i + 1 == MAJORS_WORDS || i == MAJORS_WORDS || words[i] == 0 ||
		        words[i + 1] == 0 || words[i] > count || words[i] + words[i + 1] != count)
			continue;
		rt->gc_minors = addr + i * sizeof(*words);
		found++;
	}
	if (found != 1)
		rt->gc_minors = 0;
}

/* The count before the flags and behind them: a collection that begins in between is seen. */
size_t ruby_gen_pieces(const struct runtime *rt, struct ruby_gen_words *words,
        struct target_piece out[RUBY_GEN_PIECES])
{
	uint64_t objspace = rt->proc.objspace_addr, count = objspace + rt->proc.objspace_gc_count;
	size_t nr = 0;

	*words = (struct ruby_gen_words){0};
	if (rt->proc.objspace_gc_count != 0)
		out[nr++] = (struct target_piece){count, &words->count, sizeof(words->count)};
	if (rt->gc_minors != 0)
		out[nr++] = (struct target_piece){
		        rt->gc_minors, words->minors_majors, sizeof(words->minors_majors)};
	out[nr++] = (struct target_piece){
	        objspace + (rt->proc.objspace_flags & ~7U), &words->flags, sizeof(words->flags)};
	if (rt->proc.objspace_gc_count != 0)
		out[nr++] = (struct target_piece){
		        count, &words->count_again, sizeof(words->count_again)};
	return nr;
}

uint64_t ruby_gen_of(const struct runtime *rt, const struct ruby_gen_words *words)
{
	uint32_t flags = (uint32_t)(words->flags >> (rt->proc.objspace_flags & 7) * 8);

	if (words->count != words->count_again)
		return words->count_again << 3 | RUBY_GEN_COLLECTING;
	return words->count << 3 | (flags & RUBY_GC_DURING_GC ? RUBY_GEN_COLLECTING : 0) |
	       (flags & 3);
}

bool ruby_now_of(const struct runtime *rt, const struct ruby_gen_words *words, struct ruby_now *now)
{
	uint64_t gen = ruby_gen_of(rt, words);

	now->order = ruby_gen_order(gen);
	now->majors = words->minors_majors[1];
	if (words->minors_majors[0] + now->majors != words->count)
		now->majors = 0;
	return !ruby_gen_is_unsure(gen);
}

static int read_words(const struct runtime *rt, struct ruby_gen_words *words)
{
	struct target_piece pieces[RUBY_GEN_PIECES];
	size_t nr = ruby_gen_pieces(rt, words, pieces);

	return target_read_pieces(&rt->target, pieces, nr) == nr ? 0 : -EFAULT;
}

int ruby_gc_gen(const struct runtime *rt, uint64_t *gen)
{
	struct ruby_gen_words words;
	int rc = read_words(rt, &words);

	*gen = rc == 0 ? ruby_gen_of(rt, &words) : 0;
	return rc;
}

bool ruby_now_read(const struct runtime *rt, struct ruby_now *now)
{
	struct ruby_gen_words words;

	*now = (struct ruby_now){0};
	return read_words(rt, &words) != 0 || ruby_now_of(rt, &words, now);
}

/* gc.h, RVALUE_OLD_P: until 3.2 the age is two bits in the flags, since 3.3 old is one bit. */
bool ruby_object_is_old(const struct runtime *rt, uint64_t flags)
{
	uint64_t bits =
	        rt->l->since >= RUBY_VERSION(3, 3, 0) ? FL_PROMOTED : FL_PROMOTED | FL_PROMOTED1;

	return (flags & bits) == bits;
}

/*
 * Is an object that stood on a stack at generation `sample` still there at `now` (both as orders)?
 * What is reachable while nothing is being marked lives until the next collection has marked; what
 * is reachable during an (incremental) mark may be dropped before the mark ends. Memory is freed
 * after a mark only.
 */
bool ruby_gen_covers(uint64_t sample, uint64_t now)
{
	if (sample == now)
		return true;
	if ((sample & 3) == RUBY_GC_MARKING)
		return false;
	return sample >> 2 == now >> 2 || now == (((sample >> 2) + 1) << 2 | RUBY_GC_MARKING);
}

/*
 * The earliest generation (as order) whose samples saw the object that is there now. An old object
 * was found alive by the last mark, so its memory was not handed out anew in the sweep after it,
 * nor since: whatever stood at this address after the mark before was the same.
 */
static uint64_t gen_since(uint64_t now, bool old)
{
	if (!old || (now >> 2) == 0)
		return now;
	return ((now >> 2) - 1) << 2 | RUBY_GC_SWEEPING;
}

bool ruby_object_covers(const struct object *o, uint64_t sample)
{
	if (!o->valid || sample < o->gen_lo)
		return false;
	/* What was in use is not freed before the next sweep, so it is the same until then. */
	return sample <= o->gen_hi ||
	       (o->used != 0 && sample >= o->used && ruby_gen_covers(o->used, sample));
}

void ruby_object_use(struct object *o, uint64_t sample)
{
	o->used = MAX(o->used, sample);
}

/* So many collections, at each look of which it was the same, and old. */
static bool is_settled(const struct object *o, uint64_t now)
{
	return o->old && (now - MIN(now, o->first)) >> 2 >= SETTLED_COLLECTIONS;
}

/* An old object is freed by a full collection only: how many there had been, when it was certainly
 * not about to be freed by the one that was running. */
static void note_majors(struct object *o, uint64_t sample, const struct ruby_now *now)
{
	bool idle = (now->order & 3) == 3;
	bool in_use = sample <= now->order && sample >= ((now->order & ~3ULL) | RUBY_GC_SWEEPING);

	o->majors = o->old && (idle || in_use) ? now->majors : 0;
}

bool ruby_object_lives(struct object *o, const uint64_t identity[NR_IDENTITY], bool old,
        uint64_t sample, const struct ruby_now *now)
{
	uint64_t since = gen_since(now->order, old), until = MAX(o->gen_hi, o->used);
	bool without_gap;

	if (!o->valid || !ruby_is_same(o->identity, identity))
		return false;
	without_gap = since <= until || ruby_gen_covers(until, now->order) ||
	              (o->old && o->majors != 0 && o->majors == now->majors);
	/* An object that was old does not grow young. One that was young may be gone, and one that
	 * looks like it in its place: code that is evaluated again and again. */
	if (o->old ? !old : !without_gap)
		return false;
	o->old = old;
	if (ruby_gen_covers(sample, now->order))
		since = MIN(since, sample);
	/* What looks like it and is old as well may be another, with a third in between. */
	if (without_gap || is_settled(o, now->order))
		since = MIN(since, o->gen_lo);
	else
		o->used = 0;
	o->gen_lo = since;
	o->gen_hi = MAX(o->gen_hi, now->order);
	note_majors(o, sample, now);
	return true;
}

void ruby_object_begin(
        struct object *o, uint32_t version, uint64_t sample, const struct ruby_now *now)
{
	o->version = version;
	o->gen_lo = gen_since(now->order, o->old);
	if (ruby_gen_covers(sample, now->order))
		o->gen_lo = MIN(o->gen_lo, sample);
	o->gen_hi = now->order;
	o->first = o->gen_lo;
	o->used = 0;
	o->valid = true;
	note_majors(o, sample, now);
}

void ruby_object_settle(const struct runtime *rt, uint64_t addr, const struct object *o)
{
	struct rprof_settled *settled = __atomic_load_n(&rt->settled, __ATOMIC_RELAXED);
	uint64_t word = object_word(addr, (uint32_t)rt->target.pid), *slot;

	if (settled == NULL)
		return;
	slot = &settled->slot[object_slot(addr, SETTLED_SLOTS) & ~1U];
	if (slot[0] != word && slot[1] != word && is_settled(o, o->gen_hi)) {
		__atomic_store_n(&slot[1], slot[0], __ATOMIC_RELAXED);
		__atomic_store_n(&slot[0], word, __ATOMIC_RELAXED);
	} else if (!o->old) {
		for (int i = 0; i < 2; i++)
			if (slot[i] == word)
				__atomic_store_n(&slot[i], 0, __ATOMIC_RELAXED);
	}
}
