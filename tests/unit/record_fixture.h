/*
 * What the tests of record/ have in common: a runtime that is made up, a process that is the test
 * program itself, and samples. An object of the runtime is a number below NR_OBJECTS, and is called
 * "o" with that number. The method of a C frame is the address of its function.
 */
#ifndef TESTS_UNIT_RECORD_FIXTURE_H
#define TESTS_UNIT_RECORD_FIXTURE_H

#include "record/kept_walk.h"
#include "record/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NR_OBJECTS = 64, TAG = 7, MAX_RECORD = 65536, ENDS_RUN = 16 };

/* What resolve() was asked. */
struct asked {
	struct interp_frame frame;
	struct interp_moment when;
	bool leaf;
};

struct runtime {
	uint32_t late[NR_OBJECTS]; /* INTERP_*: why its name is not there; 0: it is */
	struct asked asked[256];   /* the latest of resolve(), in their order */
	size_t nr_asked;           /* since it was set to 0 */
	size_t nr_roles;           /* native_role() */
	size_t nr_thread_names;
	size_t nr_extensions; /* is_extension() */
	size_t nr_captured;
	const char *thread_name;
	uint64_t jit_lo, jit_hi; /* code of its JIT */
	uint64_t entry;          /* the function whose activations run it, once for each */
	uint64_t gc_entry;       /* one that enters the collector */
	uint64_t sites[4];       /* call_sites() */
	size_t nr_sites;
	const struct dso *dso;   /* the interpreter */
	const struct dso *ext;   /* an extension */
	const char *native_name; /* of all its native code */
};

static char object_names[NR_OBJECTS][8];

static void toy_frame_class(
        const struct runtime *rt, const struct interp_frame *f, struct interp_desc *out)
{
	*out = (struct interp_desc){.class = f->flags & 3, .ends_run = (f->flags & ENDS_RUN) != 0};
}

static void toy_resolve(struct runtime *rt, const struct interp_frame *f, bool leaf,
        const struct interp_moment *when, struct interp_info *out)
{
	rt->asked[rt->nr_asked++ % 256] = (struct asked){*f, *when, leaf};
	*out = (struct interp_info){.flags = INTERP_RESOLVED};
	if (rt->late[f->code]) {
		out->flags = rt->late[f->code];
		return;
	}
	snprintf(object_names[f->code], sizeof(object_names[0]), "o%u", (unsigned)f->code);
	out->frame.kind = (f->flags & 3) == STITCH_C ? FRAME_INTERP_C : FRAME_INTERP;
	out->func_addr = (f->flags & 3) == STITCH_C ? f->method : 0;
	out->frame.name = object_names[f->code];
}

static enum stitch_native_role toy_native_role(const struct runtime *rt, uint64_t pc)
{
	((struct runtime *)rt)->nr_roles++;
	if (pc >= rt->jit_lo && pc < rt->jit_hi)
		return STITCH_JIT;
	return rt->entry != 0 && pc >= rt->entry && pc < rt->entry + 16 ? STITCH_ENTRY
	                                                                : STITCH_PLAIN;
}

static const char *toy_native_name(const struct runtime *rt, uint64_t pc)
{
	return rt->native_name;
}

static size_t toy_call_sites(const struct runtime *rt, uint64_t *out, size_t max)
{
	for (size_t i = 0; i < rt->nr_sites && i < max; i++)
		out[i] = rt->sites[i];
	return rt->nr_sites;
}

static bool toy_enters_gc(const struct runtime *rt, uint64_t func_addr)
{
	return func_addr == rt->gc_entry;
}

static bool toy_is_extension(const struct runtime *rt, struct dso *dso)
{
	((struct runtime *)rt)->nr_extensions++;
	return dso == rt->ext;
}

static const struct dso *toy_dso(const struct runtime *rt)
{
	return rt->dso;
}

static const char *toy_gc_name(const struct runtime *rt, uint64_t gc_gen)
{
	return gc_gen == 1 ? "(toys are put away)" : "(collecting toys)";
}

static void toy_thread_name(struct runtime *rt, uint64_t context, char *out, size_t n)
{
	rt->nr_thread_names++;
	snprintf(out, n, "%s", rt->thread_name != NULL ? rt->thread_name : "");
}

static void toy_captured(struct runtime *rt, const struct rprof_capture *capture, size_t size)
{
	rt->nr_captured++;
}

static const struct runtime_ops toy_ops = {
        .name = "toy",
        .frame_class = toy_frame_class,
        .captured = toy_captured,
        .resolve = toy_resolve,
        .native_role = toy_native_role,
        .native_name = toy_native_name,
        .call_sites = toy_call_sites,
        .enters_gc = toy_enters_gc,
        .gc_name = toy_gc_name,
        .is_extension = toy_is_extension,
        .dso = toy_dso,
        .thread_name = toy_thread_name,
};

/* This process, with rt as its interpreter; NULL: it runs none. Its files are read once. */
static inline struct process *process_made(struct runtime *rt)
{
	static struct dso_cache *dsos;
	struct process *p = calloc(1, sizeof(*p));

	if (p == NULL || (dsos == NULL && dso_cache_new(&dsos) != 0) ||
	        maps_read(&p->maps, getpid(), NULL) != 0)
		abort();
	p->dsos = dsos;
	p->target.pid = getpid();
	p->target.pidfd = -1;
	p->mapped = calloc(p->maps.nr + 1, sizeof(*p->mapped));
	p->generation = 1;
	p->ops = rt != NULL ? &toy_ops : NULL;
	p->rt = rt;
	p->rt_tag = rt != NULL ? TAG : 0;
	return p;
}

static inline void process_made_free(struct process *p)
{
	maps_release(&p->maps);
	free(p->mapped);
	free(p);
}

/* ---- samples ----------------------------------------------------------------------------- */

static uint64_t record_room[MAX_RECORD / 8];

/* A sample with these native frames, leaf first, and nr_interp frames of code, the objects 1, 2,
 * ... from the leaf on. It is valid until the next one is made; all of it may be changed but the
 * counts.
 */
static inline struct rprof_sample *sample_made(
        const uint64_t *natives, size_t nr_native, size_t nr_interp)
{
	struct rprof_sample *s = (struct rprof_sample *)record_room;
	struct interp_frame *frames;

	memset(record_room, 0, sizeof(record_room));
	s->record.type = RECORD_SAMPLE;
	s->time_ns = 1000;
	s->tgid = (uint32_t)getpid();
	s->tid = 11;
	s->trigger = TRIGGER_CPU;
	s->tag = TAG;
	s->context = 0xec0;
	s->native_outcome = WALK_ROOT;
	s->interp_outcome = WALK_ROOT;
	s->nr_native = (uint16_t)nr_native;
	s->nr_interp = (uint16_t)nr_interp;
	memcpy(s->comm, "worker", 6);
	if (nr_native != 0)
		memcpy((uint64_t *)record_native(s), natives, nr_native * sizeof(*natives));
	frames = (struct interp_frame *)record_interp(s);
	for (size_t i = 0; i < nr_interp; i++)
		frames[i] = (struct interp_frame){.code = i + 1, .flags = STITCH_CODE};
	s->record.size = (uint32_t)((char *)(frames + nr_interp) - (char *)s);
	return s;
}

static inline struct interp_frame *sample_frame(struct rprof_sample *s, size_t i)
{
	return (struct interp_frame *)record_interp(s) + i;
}

#endif
