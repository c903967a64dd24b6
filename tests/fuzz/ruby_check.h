/* What a runtime says of frames and captures of a world, held against runtimes/runtime.h. */
#ifndef TESTS_FUZZ_RUBY_CHECK_H
#define TESTS_FUZZ_RUBY_CHECK_H

#include "tests/fuzz/world.h"

#include "runtimes/ruby/ruby_runtime.h"

enum { MAX_QUESTIONS = 256 };

static void string_check(const char *s)
{
	MUST(s == NULL || strlen(s) < 1 << 16);
}

static void frame_check(struct runtime *rt, const struct interp_frame *f, bool leaf,
        const struct interp_moment *when)
{
	struct interp_desc desc;
	struct interp_info info, again;

	ruby_frame_class(rt, f, &desc);
	MUST(desc.class <= STITCH_HIDDEN);
	ruby_resolve(rt, f, leaf, when, &info);
	MUST(info.frame.name != NULL);
	MUST((info.flags & (INTERP_RESOLVED | INTERP_UNVERIFIED | INTERP_UNREADABLE)) != 0);
	/* Right, or a part is missing: never both. */
	MUST(!(info.flags & INTERP_RESOLVED) ||
	        !(info.flags & (INTERP_UNVERIFIED | INTERP_UNREADABLE)));
	string_check(info.frame.name);
	string_check(info.frame.owner);
	string_check(info.frame.path);
	string_check(info.frame.method);
	MUST(info.frame.line <= INT32_MAX && info.frame.first_line <= INT32_MAX);
	/* Asked again, the answer is the same: nothing has changed. */
	ruby_resolve(rt, f, leaf, when, &again);
	MUST(memcmp(&info, &again, sizeof(info)) == 0);
}

static void capture_put(struct runtime *rt, struct world *w, const struct world_capture *q)
{
	size_t n = MIN((size_t)q->size, w->questions.n);
	struct rprof_capture *c = calloc(1, sizeof(*c) + n);

	c->record = (struct rprof_record){RECORD_CAPTURE, (uint32_t)(sizeof(*c) + n)};
	c->object = q->object;
	c->kind = q->object_kind % (NR_RUBY_CAPTURES + 1);
	c->flags = q->flags;
	c->time_ns = q->time_ns;
	c->gc_gen = q->gc_gen;
	c->old_stamp = q->old_stamp;
	if (n > 0)
		memcpy(c + 1, w->questions.p, n);
	w->questions.p += n;
	w->questions.n -= n;
	ruby_captured(rt, c, sizeof(*c) + n);
	free(c);
}

/* All that the input asks. */
static void questions_check(struct runtime *rt, struct world *w)
{
	for (int i = 0; i < MAX_QUESTIONS && w->questions.n > 0; i++) {
		struct world_capture capture;
		struct world_frame frame;

		if (w->questions.p[0] % NR_WORLD_KINDS == WORLD_CAPTURE) {
			world_ask(w, &capture, sizeof(capture));
			capture_put(rt, w, &capture);
		} else {
			struct interp_moment when;

			world_ask(w, &frame, sizeof(frame));
			when = (struct interp_moment){frame.time_ns, frame.gc_gen, frame.old_stamp};
			frame_check(rt, &frame.frame, frame.leaf & 1, &when);
		}
	}
}

static void thread_name_check(struct runtime *rt, uint64_t context)
{
	char name[64];

	memset(name, 'x', sizeof(name));
	ruby_runtime.thread_name(rt, context, name, sizeof(name));
	MUST(memchr(name, '\0', sizeof(name)) != NULL);
}

#endif
