/* Objects of Ruby in memory that says anything, captured or read later: names, owners, paths and
 * lines of frames. */
#include "tests/fuzz/ruby_check.h"

/* What attaching would have found out. */
static bool runtime_init(struct runtime *rt, const struct world *w)
{
	const struct world_head *h = &w->head;
	const struct ruby_layout *l = ruby_layout_find((uint32_t)h->release);

	if (l == NULL || !l->supported)
		return false;
	*rt = (struct runtime){.target = w->target, .l = l};
	rt->objects = (struct ruby_objects){
	        .l = l,
	        .target = &rt->target,
	        .ids_addr = h->ids_addr,
	        .last_op_id = l->last_op_id,
	        .classpath_id = h->classpath_id,
	        .attached_id = h->attached_id,
	};
	rt->proc.objspace_addr = h->objspace_addr;
	rt->proc.objspace_flags = l->objspace.flags;
	rt->proc.objspace_gc_count = l->objspace.gc_count;
	rt->proc.objspace_minors = l->objspace.minors;
	rt->proc.objspace_minor_bit = l->objspace.minor_bit;
	rt->vm = h->base;
	rt->nr_jit = h->release >> 32 & 1;
	return ruby_cache_new(&rt->cache) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world w;
	struct interp_frame frames[64];
	uint64_t threads[64];
	struct runtime rt;
	int nr;

	if (!world_init(&w, (struct feed){data, size}) || !runtime_init(&rt, &w))
		return 0;
	questions_check(&rt, &w);
	thread_name_check(&rt, w.head.context);
	nr = ruby_frames_read(&rt, w.head.context, frames, ARRAY_SIZE(frames));
	MUST(nr <= (int)ARRAY_SIZE(frames));
	for (int i = 0; i < nr; i++) {
		struct interp_moment when = {1, 8, 0};

		frame_check(&rt, &frames[i], i == 0, &when);
	}
	MUST(ruby_threads_read(&rt, threads, ARRAY_SIZE(threads)) <= ARRAY_SIZE(threads));
	ruby_cache_free(rt.cache);
	return 0;
}
