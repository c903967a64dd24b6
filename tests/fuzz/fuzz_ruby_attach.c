/*
 * Attaching to a process that maps a real libruby, and whose memory says anything. The library's
 * path is where Debian's packages and tests/rubies.sh put it; where it is missing there is nothing
 * to attach to.
 */
#include "tests/fuzz/library.h"
#include "tests/fuzz/ruby_check.h"

enum { MAX_THREADS = 16, MAX_FRAMES = 64, MAX_RELEASES = 8 };

static struct library libraries[MAX_RELEASES];
static struct dso_cache *dsos; /* for all inputs: reading a library takes long */

static void check(struct runtime *rt, struct world *w)
{
	struct interp_moment when = {1, 8, 0};
	struct interp_frame frames[MAX_FRAMES];
	uint64_t threads[MAX_THREADS], ec, sites[32];
	size_t nr_threads = ruby_threads_read(rt, threads, MAX_THREADS);
	struct capture_plan plan;
	struct buf text;

	MUST(nr_threads <= MAX_THREADS);
	MUST(rt->proc.vm_exec_lo < rt->proc.vm_exec_hi &&
	        rt->proc.vm_core_lo < rt->proc.vm_core_hi);
	MUST(ruby_is_heap(rt->vm) && ruby_is_heap(rt->main_thread));
	MUST(ruby_call_sites(rt, sites, ARRAY_SIZE(sites)) <= ARRAY_SIZE(sites));
	if (ruby_plan(rt, &plan))
		MUST(plan.nr_ops <= CAPTURE_MAX_OPS);
	for (size_t i = 0; i < nr_threads; i++) {
		int nr = ruby_thread_ec(rt, threads[i], &ec) == 0
		                 ? ruby_frames_read(rt, ec, frames, MAX_FRAMES)
		                 : 0;

		for (int k = 0; k < nr; k++)
			frame_check(rt, &frames[k], k == 0, &when);
		thread_name_check(rt, ec);
	}
	questions_check(rt, w);
	buf_init(&text, 1 << 20);
	ruby_runtime.describe(rt, &text, true);
	buf_release(&text);
}

/* Looked for once. NULL: there is none. */
static struct library *library_of(uint64_t release)
{
	static size_t nr;
	size_t i = 0;

	if (dsos == NULL) {
		MUST(dso_cache_new(&dsos) == 0);
		for (unsigned int row = 0; ruby_layout_row(row) != NULL; row++) {
			const struct ruby_layout *l = ruby_layout_row(row);

			if (l->supported && nr < MAX_RELEASES &&
			        library_open(&libraries[nr], dsos, l->since))
				libraries[nr++].release = l->since >> 8;
		}
	}
	while (i < nr && libraries[i].release != (uint32_t)release >> 8)
		i++;
	return i < nr ? &libraries[i] : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world w;
	struct runtime *rt = NULL;
	struct mapping m;
	struct maps maps = {.v = &m, .nr = 1};
	struct library *lib;
	struct err err = {0};

	if (!world_init(&w, (struct feed){data, size}) ||
	        (lib = library_of(w.head.release)) == NULL)
		return 0;
	m = lib->mapping;
	m.start += w.head.base & ~4095ULL;
	m.end += w.head.base & ~4095ULL;
	if (m.start >= m.end)
		return 0;
	if (ruby_attach(&w.target, &maps, dsos, &rt, &err) != 0) {
		MUST(err.msg[0] != '\0' && rt == NULL);
		return 0;
	}
	check(rt, &w);
	ruby_runtime.free(rt);
	return 0;
}
