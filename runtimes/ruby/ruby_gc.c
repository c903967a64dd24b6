/* What the collector does, read from user space: whether an object that is read now is the one that
 * a sample saw. */
#include "runtimes/ruby/ruby_names.h"

#include <errno.h>

/* The count before the flags and behind them: a collection that begins in between is seen. */
static int state_read(const struct runtime *rt, struct ruby_gc_state *out, bool *torn)
{
	uint64_t objspace = rt->proc.objspace_addr, count[2] = {0}, kinds[3] = {0}, word;
	uint64_t count_addr = objspace + rt->proc.objspace_gc_count;
	struct target_piece pieces[] = {
	        {count_addr, &count[0], sizeof(count[0])},
	        {objspace + rt->proc.objspace_minors, kinds, sizeof(kinds)},
	        {objspace + (rt->proc.objspace_flags & ~7U), &word, sizeof(word)},
	        {count_addr, &count[1], sizeof(count[1])},
	};

	if (objspace == 0 || rt->proc.objspace_gc_count == 0 ||
	        target_read_pieces(&rt->target, pieces, ARRAY_SIZE(pieces)) != ARRAY_SIZE(pieces))
		return -EFAULT;
	*out = (struct ruby_gc_state){
	        .flags = (uint32_t)(word >> (rt->proc.objspace_flags & 7) * 8),
	        .minor_flag = 1U << rt->proc.objspace_minor_bit,
	        .count = count[1],
	        .minors = kinds[0],
	        .majors = kinds[1],
	        .moves = kinds[2],
	};
	*torn = count[0] != count[1];
	return 0;
}

static uint64_t gen_of(const struct ruby_gc_state *gc, bool torn)
{
	if (torn)
		return gc->count << 3 | RUBY_GEN_COLLECTING;
	return gc->count << 3 | (gc->flags & 3) |
	       (gc->flags & RUBY_GC_DURING_GC ? RUBY_GEN_COLLECTING : 0);
}

int ruby_gc_gen(const struct runtime *rt, uint64_t *gen)
{
	struct ruby_gc_state gc = {0};
	bool torn = false;
	int rc = state_read(rt, &gc, &torn);

	*gen = rc == 0 ? gen_of(&gc, torn) : 0;
	return rc;
}

bool ruby_gc_is_same(const struct runtime *rt, uint64_t gen, uint32_t old_stamp)
{
	struct ruby_gc_state gc;
	bool torn;

	if (state_read(rt, &gc, &torn) != 0)
		return false;
	if (ruby_gc_covers(gen, gen_of(&gc, torn)))
		return true;
	return !torn && old_stamp != 0 && ruby_stamps_of(&gc).old == old_stamp;
}

/*
 * Memory is freed after a mark only, and moved by a compaction. What was in use while nothing was
 * being marked lives until the next collection has marked; what was in use during an (incremental)
 * mark may be dropped before it ends. A collection counts before it sets the mode, and sets the
 * mode back before it ends (gc.c, gc_start, gc_sweep_finish): without a mode nothing is certain.
 */
bool ruby_gc_covers(uint64_t sample_gen, uint64_t now_gen)
{
	uint64_t sample = sample_gen >> 3, now = now_gen >> 3;
	uint32_t sample_mode = sample_gen & 7, now_mode = now_gen & 7;

	if (sample_mode == RUBY_GEN_COLLECTING || now_mode == RUBY_GEN_COLLECTING ||
	        (sample_mode & 3) == RUBY_GC_COMPACTING || (now_mode & 3) == RUBY_GC_COMPACTING)
		return false;
	if ((sample_mode & 3) == RUBY_GC_MARKING)
		return sample == now && (now_mode & 3) == RUBY_GC_MARKING;
	if (sample == now)
		return true;
	return now == sample + 1 && (now_mode & 3) == RUBY_GC_MARKING;
}

bool ruby_gc_agree(const struct interp_moment *when, uint64_t capture_gen, uint32_t old_stamp)
{
	uint64_t gen = when->gc_gen;

	if (ruby_gc_covers(gen, capture_gen) || ruby_gc_covers(capture_gen, gen))
		return true;
	/* Old then and old when it was captured, and no full collection in between. */
	if (old_stamp != 0 && old_stamp == when->unsent_old_stamp)
		return true;
	/* What is old when it is captured was found alive by the last mark, so it was there before
	 * anything was freed or moved then; and what the sample saw was not freed before that. */
	return old_stamp != 0 && !((gen | capture_gen) & RUBY_GEN_COLLECTING) &&
	       (gen & 3) != RUBY_GC_COMPACTING && (gen & 3) != RUBY_GC_MARKING &&
	       capture_gen >> 3 == (gen >> 3) + 1;
}
