/* What the collector does, read from user space: whether an object that is read now is the one that
 * a sample saw. */
#include "runtimes/ruby/ruby_names.h"

#include <errno.h>

/* The count before the flags and behind them: a collection that begins in between is seen. */
int ruby_gc_gen(const struct runtime *rt, uint64_t *gen)
{
	uint64_t objspace = rt->proc.objspace_addr, count[2] = {0}, word;
	uint64_t count_addr = objspace + rt->proc.objspace_gc_count;
	struct target_piece pieces[] = {
	        {count_addr, &count[0], sizeof(count[0])},
	        {objspace + (rt->proc.objspace_flags & ~7U), &word, sizeof(word)},
	        {count_addr, &count[1], sizeof(count[1])},
	};
	uint32_t flags;

	*gen = 0;
	if (objspace == 0 || rt->proc.objspace_gc_count == 0 ||
	        target_read_pieces(&rt->target, pieces, ARRAY_SIZE(pieces)) != ARRAY_SIZE(pieces))
		return -EFAULT;
	flags = (uint32_t)(word >> (rt->proc.objspace_flags & 7) * 8);
	*gen = count[1] << 3 | (flags & 3);
	if (count[0] != count[1])
		*gen = count[1] << 3 | RUBY_GEN_COLLECTING;
	else if (flags & RUBY_GC_DURING_GC)
		*gen |= RUBY_GEN_COLLECTING;
	return 0;
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
