/* A process to be recorded that there is not: made_up.h says what lies where in it. */
#ifndef TESTS_FUZZ_MADE_UP_PROCESS_H
#define TESTS_FUZZ_MADE_UP_PROCESS_H

#include "tests/fuzz/library.h"
#include "tests/fuzz/made_up.h"

#include "record/process.h"
#include "runtimes/ruby/ruby_names.h"

#include <errno.h>

static int read_nothing(const struct target *t, uint64_t addr, void *out, size_t n)
{
	return -EFAULT;
}

/* As if it were attached to. */
static struct runtime *runtime_new(const struct target *target, struct dso *dso)
{
	const struct ruby_layout *l = ruby_layout_find(MADE_UP_RELEASE);
	struct runtime *rt = calloc(1, sizeof(*rt));

	rt->target = *target;
	rt->dso = dso;
	rt->bias = MADE_UP_BASE;
	rt->l = l;
	rt->objects =
	        (struct ruby_objects){.l = l, .target = &rt->target, .last_op_id = l->last_op_id};
	rt->proc.vm_exec_lo = MADE_UP_ENTRY;
	rt->proc.vm_exec_hi = MADE_UP_ENTRY + MADE_UP_FUNC_SZ;
	rt->proc.vm_core_lo = MADE_UP_LOOP;
	rt->proc.vm_core_hi = MADE_UP_LOOP + MADE_UP_FUNC_SZ;
	rt->gc_entries[rt->nr_gc_entries++] = MADE_UP_GC;
	rt->jit[rt->nr_jit++] = (struct ruby_range){MADE_UP_JIT & ~4095, MADE_UP_JIT + 4096};
	MUST(ruby_cache_new(&rt->cache) == 0);
	return rt;
}

/* id: in the recording. To be freed with process_free(). */
static struct process *process_made_up(
        uint32_t id, const struct library *ruby, struct dso_cache *dsos)
{
	static const char text[] = "00400000-00402000 r-xp 00000000 fd:01 12 /there/is/no.so\n"
	                           "00500000-00502000 rwxp 00000000 00:00 0 \n";
	struct process *p = calloc(1, sizeof(*p));

	*p = (struct process){
	        .target = {.pid = MADE_UP_PID, .pidfd = -1, .read = read_nothing},
	        .generation = 1,
	        .dsos = dsos,
	        .ops = &ruby_runtime,
	        .rt_tag = MADE_UP_TAG,
	        .id = id,
	};
	MUST(maps_parse(&p->maps, text, sizeof(text) - 1, NULL) == 0);
	if (ruby->path != NULL) {
		p->maps.v = reallocarray(p->maps.v, 3, sizeof(*p->maps.v));
		p->maps.v[2] = ruby->mapping;
		p->maps.v[2].start += MADE_UP_BASE;
		p->maps.v[2].end += MADE_UP_BASE;
		p->maps.nr = 3;
	}
	p->mapped = calloc(p->maps.nr, sizeof(*p->mapped));
	p->rt = runtime_new(&p->target, ruby->dso);
	return p;
}

#endif
