#include "record/namer.h"

#include "record/kept_walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_PENDING = 64,    /* samples that wait for objects that were not captured with them */
	PENDING_SAMPLES = 8, /* of the same thread, which bring them */
	PENDING_NS = 1000000000,
	MAX_UNSENT = 256,
	NAMES_EVERY = 64, /* a thread's name is read again after so many of its samples */
};

struct namer {
	struct hash64 names_due;    /* pid << 32 | tid -> samples until its name is read again */
	struct named_sample now;    /* that has just come; not a copy */
	struct named_frame *frames; /* its; owned */
	struct named_sample *pending[MAX_PENDING]; /* owned; their names are not all there */
	size_t nr_pending;
	struct named_sample *first, **last; /* the queue: copies, owned, and `now` as its last */
	size_t nr;
};

int namer_new(struct namer **out)
{
	struct namer *n = calloc(1, sizeof(*n));

	if (n == NULL)
		return -ENOMEM;
	hash64_init(&n->names_due);
	n->last = &n->first;
	n->frames = calloc(RPROF_MAX_INTERP, sizeof(*n->frames));
	if (n->frames == NULL) {
		namer_free(n);
		return -ENOMEM;
	}
	*out = n;
	return 0;
}

static void copy_free(struct named_sample *s)
{
	if (s == NULL || !s->is_copy)
		return;
	free((void *)s->sample);
	free(s->frames);
	free(s);
}

void namer_free(struct namer *n)
{
	if (n == NULL)
		return;
	while (n->first != NULL)
		namer_drop(n);
	for (size_t i = 0; i < n->nr_pending; i++)
		copy_free(n->pending[i]);
	hash64_release(&n->names_due);
	free(n->frames);
	free(n);
}

/* NULL: no memory. */
static struct named_sample *copy_new(const struct named_sample *s)
{
	size_t frames_sz = s->sample->nr_interp * sizeof(*s->frames);
	struct named_sample *copy = malloc(sizeof(*copy));
	struct rprof_sample *sample = malloc(s->size);
	struct named_frame *frames = malloc(frames_sz + 1);

	if (copy == NULL || sample == NULL || frames == NULL) {
		free(copy);
		free(sample);
		free(frames);
		return NULL;
	}
	memcpy(sample, s->sample, s->size);
	memcpy(frames, s->frames, frames_sz);
	*copy = *s;
	copy->sample = sample;
	copy->frames = frames;
	copy->is_copy = true;
	copy->next = NULL;
	return copy;
}

/* ---- names ------------------------------------------------------------------------------------
 */

/* The objects of a sample that were not captured with it. They may stand in many frames, of which
 * one says so. */
struct unsent {
	uint64_t objects[MAX_UNSENT];
	size_t nr;
	bool all; /* more than there is room for */
};

static bool is_unsent(const struct unsent *u, uint64_t object)
{
	if (u->all)
		return true;
	for (size_t i = 0; i < u->nr; i++)
		if (u->objects[i] == object)
			return true;
	return false;
}

static void unsent_find(struct unsent *u, const struct rprof_sample *s)
{
	const struct interp_frame *frames = record_interp(s);

	u->nr = 0;
	u->all = false;
	if (!(s->flags & SAMPLE_F_UNSENT))
		return;
	for (size_t i = 0; i < s->nr_interp; i++) {
		bool base = i + s->base_unsent >= s->nr_interp;
		const uint64_t objects[] = {
		        base || frames[i].extra & INTERP_F_CODE_UNSENT ? frames[i].code : 0,
		        base || frames[i].extra & INTERP_F_METHOD_UNSENT ? frames[i].method : 0,
		};

		for (size_t k = 0; k < ARRAY_SIZE(objects); k++) {
			if (objects[k] == 0 || is_unsent(u, objects[k]))
				continue;
			if (u->nr == MAX_UNSENT)
				u->all = true;
			else
				u->objects[u->nr++] = objects[k];
		}
	}
}

static bool is_incomplete(const struct named_frame *f)
{
	return f->info.flags & (INTERP_UNVERIFIED | INTERP_UNREADABLE);
}

/*
 * Names one frame. again: what was named right is left alone, since its address may hold another
 * object by now; and what was captured with the sample has to be shown to be that as well.
 */
static void name_frame(
        const struct named_sample *h, size_t i, const struct unsent *unsent, bool again)
{
	const struct rprof_sample *s = h->sample;
	struct interp_moment when = {s->time_ns, s->gc_gen, s->unsent_old_stamp};
	struct interp_frame f = record_interp(s)[i];

	if (again && !is_incomplete(&h->frames[i]))
		return;
	if (is_unsent(unsent, f.code))
		f.extra |= INTERP_F_CODE_UNSENT;
	if (is_unsent(unsent, f.method))
		f.extra |= INTERP_F_METHOD_UNSENT;
	if (again && (f.extra & INTERP_F_UNSENT) != INTERP_F_UNSENT) {
		f.extra |= INTERP_F_UNSENT;
		when.unsent_old_stamp = 0;
	}
	/* What collects has been called, and whoever calls what may collect has noted its line. */
	h->ops->resolve(
	        h->rt, &f, i == 0 && !(s->flags & SAMPLE_F_IN_GC), &when, &h->frames[i].info);
	h->frames[i].info.frame.language = h->ops->name;
}

/* Names the frames, leaf first, and says what they are to the stitcher. True: all that there is to
 * the names is there. */
static bool name_frames(const struct named_sample *h, bool again)
{
	const struct rprof_sample *s = h->sample;
	struct unsent unsent;
	bool complete = true;

	unsent_find(&unsent, s);
	for (size_t i = 0; i < s->nr_interp; i++) {
		struct named_frame *f = &h->frames[i];
		struct interp_desc desc = {.class = STITCH_HIDDEN};

		if (!again)
			f->info = (struct interp_info){0};
		if (h->ops != NULL)
			h->ops->frame_class(h->rt, &record_interp(s)[i], &desc);
		else
			f->info.flags = INTERP_UNVERIFIED;
		f->class = desc.class;
		f->ends_run = desc.ends_run;
		if (desc.class != STITCH_HIDDEN)
			name_frame(h, i, &unsent, again);
		complete &= !is_incomplete(f);
	}
	return complete;
}

static uint64_t thread_key(const struct rprof_sample *s)
{
	return (uint64_t)s->tgid << 32 | s->tid;
}

/* The program's name of the thread, now and then: it may change. */
static void name_thread(struct namer *n, struct named_sample *h)
{
	const struct rprof_sample *s = h->sample;
	uint64_t *due = hash64_find(&n->names_due, thread_key(s));

	if (due != NULL && *due > 0) {
		*due -= 1;
		return;
	}
	h->has_thread_name = true;
	if (h->ops != NULL && s->context != 0)
		h->ops->thread_name(h->rt, s->context, h->thread_name, sizeof(h->thread_name));
	/* Without memory it is read with the next sample too. */
	hash64_put(&n->names_due, thread_key(s), NAMES_EVERY);
}

struct frame named_gc(const struct named_sample *s)
{
	struct frame f = {.kind = FRAME_GC, .name = "(garbage collection)"};

	if (s->ops == NULL)
		return f;
	f.language = s->ops->name;
	if (s->ops->gc_name != NULL)
		f.name = s->ops->gc_name(s->rt, s->sample->gc_gen);
	return f;
}

/* ---- the queue, and what waits ------------------------------------------------------------------
 */

static void queue(struct namer *n, struct named_sample *s)
{
	s->next = NULL;
	*n->last = s;
	n->last = &s->next;
	n->nr++;
}

struct named_sample *namer_first(const struct namer *n)
{
	return n->first;
}

size_t namer_nr(const struct namer *n)
{
	return n->nr;
}

void namer_drop(struct namer *n)
{
	struct named_sample *s = n->first;

	n->first = s->next;
	if (n->first == NULL)
		n->last = &n->first;
	n->nr--;
	copy_free(s);
}

int namer_keep(struct namer *n)
{
	struct named_sample **at = &n->first, *copy;

	while (*at != NULL && *at != &n->now)
		at = &(*at)->next;
	if (*at == NULL)
		return 0;
	copy = copy_new(&n->now);
	*at = copy;
	n->last = copy != NULL ? &copy->next : at;
	n->nr -= copy == NULL;
	return copy != NULL ? 0 : -ENOMEM;
}

/*
 * A sample that came while objects were not captured waits for them, if they cannot be read
 * otherwise. sample: that has come; NULL: none will.
 */
static void retry(struct namer *n, const struct rprof_sample *sample)
{
	size_t kept = 0;

	for (size_t i = 0; i < n->nr_pending; i++) {
		struct named_sample *h = n->pending[i];
		bool ends = sample == NULL || sample->time_ns > h->sample->time_ns + PENDING_NS;

		if (sample != NULL && thread_key(sample) == thread_key(h->sample)) {
			ends = ++h->nr_later == PENDING_SAMPLES ||
			       !(sample->flags & SAMPLE_F_UNSENT);
			ends |= name_frames(h, true);
		}
		if (ends)
			queue(n, h);
		else
			n->pending[kept++] = h;
	}
	n->nr_pending = kept;
}

void namer_add(
        struct namer *n, struct process *process, const struct rprof_sample *sample, size_t size)
{
	struct named_sample *copy = NULL;
	bool complete;

	retry(n, sample);
	n->now = (struct named_sample){
	        .sample = sample, .size = size, .process = process, .frames = n->frames};
	n->now.rt = process_runtime(process, sample->tag, &n->now.ops);
	complete = name_frames(&n->now, false);
	name_thread(n, &n->now);
	if (!complete && (sample->flags & SAMPLE_F_UNSENT) && n->nr_pending < MAX_PENDING)
		copy = copy_new(&n->now);
	if (copy != NULL)
		n->pending[n->nr_pending++] = copy;
	else
		queue(n, &n->now);
}

void namer_flush(struct namer *n)
{
	retry(n, NULL);
}
