/*
 * Prolongs what is known of a whole stack's objects at once.
 *
 * A program that collects often makes nearly every sample newer than what is remembered, and each
 * object is then looked at again before it gives a name. One by one that takes six system calls and
 * more; here the words of all of them are read by one, between two reads of the generation. Nothing
 * is decided here that ruby_resolve would decide otherwise: an object whose words are the same
 * lives on, all others are left to it as they are.
 */
#include "runtimes/ruby/ruby_cache.h"
#include <stdlib.h>
#include <string.h>

enum {
	MAX_OBJECTS = 64,
	MAX_PIECES = MAX_OBJECTS * 3,
	NR_TRIES = 2,
	FIND_EVERY = 64,
	MAX_GAP = 1024, /* bytes read for nothing, which costs less than one piece more */
	BYTES_SZ = MAX_PIECES * (RUBY_MAX_BODY_SZ + MAX_GAP),
};

/* An object's words as they were read now. */
struct reread {
	struct object *object;
	struct code *code;     /* or */
	struct method *method; /* whose object it is */
	uint64_t addr;
	uint64_t head[RUBY_HEAD_WORDS];  /* of the object itself */
	uint64_t other[RUBY_HEAD_WORDS]; /* the label string's or the method entry's */
	union {
		struct ruby_body body;
		uint64_t def[RUBY_DEF_WORDS];
	};
};

struct ruby_batch {
	struct reread v[MAX_OBJECTS];
	size_t nr;
	struct target_piece pieces[MAX_PIECES];
	size_t nr_pieces;
	struct target_piece spans[RUBY_GEN_PIECES + MAX_PIECES +
	                          RUBY_GEN_PIECES]; /* generation, pieces joined, generation */
	size_t nr_spans;
	uint8_t bytes[BYTES_SZ]; /* of the spans */
};

static void add_piece(struct ruby_batch *b, uint64_t addr, void *out, size_t n)
{
	b->pieces[b->nr_pieces++] = (struct target_piece){addr, out, n};
}

static void add_pieces(const struct runtime *rt, struct ruby_batch *b, struct reread *r)
{
	const uint64_t *id = r->object->identity;

	add_piece(b, r->addr, r->head, sizeof(r->head));
	if (r->code != NULL) {
		add_piece(b, id[0], r->body.bytes, ruby_body_sz(rt));
		add_piece(b, r->code->label, r->other, sizeof(r->other));
		return;
	}
	if (r->method->entry != 0 && r->method->entry != r->addr)
		add_piece(b, r->method->entry, r->other, sizeof(r->other));
	if (!r->method->none)
		add_piece(b, id[1], r->def, ruby_def_sz(rt));
}

/* False: it is not what was read. */
static bool code_read_again(const struct runtime *rt, struct reread *r, uint64_t id[NR_IDENTITY])
{
	const struct code *c = r->code;

	r->body.addr = ruby_iseq_body(rt, r->head);
	if (r->body.addr != c->object.identity[0] ||
	        ruby_word(r->body.bytes, rt->l->iseq.label) != c->label)
		return false;
	ruby_body_identity(rt, &r->body, r->other, id);
	return true;
}

static bool method_read_again(
        const struct runtime *rt, const struct reread *r, uint64_t id[NR_IDENTITY])
{
	const struct method *m = r->method;
	const uint64_t *entry = r->head;
	uint64_t me = r->addr;
	int kind = ruby_imemo_type(r->head[0]);

	/* As in ruby_resolve.c, method_read. */
	if (kind == imemo_svar) {
		me = r->head[1];
		if (me != 0)
			entry = r->other;
		kind = me == 0 ? imemo_cref : ruby_imemo_type(entry[0]);
	}
	if (me != m->entry || kind != (m->none ? imemo_cref : imemo_ment))
		return false;
	if (m->none)
		id[0] = ruby_cref_identity(entry);
	else if (entry[rt->l->method.def / 8] == m->object.identity[1])
		ruby_method_identity(rt, me, entry, r->def, id);
	return true;
}

static int compare_pieces(const void *a, const void *b)
{
	const struct target_piece *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Joins what lies close together, as a class's methods do: the kernel looks up each page for each
 * piece. */
static void join_pieces(struct ruby_batch *b)
{
	uint8_t *to = b->bytes;

	qsort(b->pieces, b->nr_pieces, sizeof(*b->pieces), compare_pieces);
	for (size_t i = 0, next; i < b->nr_pieces; i = next) {
		uint64_t start = b->pieces[i].addr, end = start + b->pieces[i].n;

		for (next = i + 1; next < b->nr_pieces && b->pieces[next].addr <= end + MAX_GAP;
		        next++)
			end = MAX(end, b->pieces[next].addr + b->pieces[next].n);
		b->spans[b->nr_spans++] = (struct target_piece){start, to, end - start};
		to += end - start;
	}
}

static void split_spans(struct ruby_batch *b, const struct target_piece *span)
{
	for (size_t i = 0; i < b->nr_pieces; i++) {
		const struct target_piece *p = &b->pieces[i];

		while (p->addr >= span->addr + span->n)
			span++;
		memcpy(p->out, (const uint8_t *)span->out + (p->addr - span->addr), p->n);
	}
}

/* False: a collection came in between, so that nothing is known. */
static bool batch_run(struct runtime *rt, struct ruby_batch *b, uint64_t order)
{
	struct ruby_gen_words before, after;
	size_t nr_gen = ruby_gen_pieces(rt, &before, b->spans);
	struct ruby_now now, then;

	b->nr_pieces = 0;
	for (size_t i = 0; i < b->nr; i++)
		add_pieces(rt, b, &b->v[i]);
	b->nr_spans = nr_gen;
	join_pieces(b);
	b->nr_spans += ruby_gen_pieces(rt, &after, &b->spans[b->nr_spans]);
	if (target_read_pieces(&rt->target, b->spans, b->nr_spans) != b->nr_spans)
		return true; /* one of them cannot be read: each is tried later */
	if (!ruby_now_of(rt, &before, &then) || !ruby_now_of(rt, &after, &now) ||
	        then.order != now.order)
		return false;
	split_spans(b, &b->spans[nr_gen]);
	for (size_t i = 0; i < b->nr; i++) {
		struct reread *r = &b->v[i];
		uint64_t id[NR_IDENTITY] = {0};

		if (!(r->code != NULL ? code_read_again(rt, r, id) : method_read_again(rt, r, id)))
			continue;
		if (ruby_object_lives(
		            r->object, id, ruby_object_is_old(rt, r->head[0]), order, &now))
			ruby_object_settle(rt, r->addr, r->object);
	}
	return true;
}

static void batch_finish(struct runtime *rt, struct ruby_batch *b, uint64_t order)
{
	for (int i = 0; b->nr > 0 && i < NR_TRIES && !batch_run(rt, b, order); i++)
		;
	b->nr = 0;
}

/* Is it one that a look at its identity would prolong, and not among the others yet? */
static bool is_due(const struct runtime *rt, struct object *o, uint64_t order)
{
	if (!o->valid || order < o->gen_lo || ruby_object_covers(o, order) ||
	        o->reread == rt->cache->nr_rereads)
		return false;
	o->reread = rt->cache->nr_rereads;
	return true;
}

static void add_code(struct runtime *rt, struct ruby_batch *b, uint64_t addr, uint64_t order)
{
	const uint64_t *found = hash64_find(&rt->cache->codes, addr);
	struct code *c = found != NULL ? (struct code *)(uintptr_t)*found : NULL;

	/* A block written in C has no label. */
	if (c != NULL && ruby_is_heap(c->label) && is_due(rt, &c->object, order))
		b->v[b->nr++] = (struct reread){.object = &c->object, .code = c, .addr = addr};
}

static void add_method(struct runtime *rt, struct ruby_batch *b, uint64_t addr, uint64_t order)
{
	const uint64_t *found = hash64_find(&rt->cache->methods, addr);
	struct method *m = found != NULL ? (struct method *)(uintptr_t)*found : NULL;

	/* A class without a name may have been given one: that is not seen in its method. */
	if (m != NULL && (m->owner != NULL || m->none) && is_due(rt, &m->object, order))
		b->v[b->nr++] = (struct reread){.object = &m->object, .method = m, .addr = addr};
}

void ruby_reread(struct runtime *rt, const struct interp_frame *frames, size_t nr, uint64_t gc_gen)
{
	uint64_t order = ruby_gen_order(gc_gen);
	struct ruby_batch *b = rt->cache->batch;

	if (b == NULL)
		b = rt->cache->batch = malloc(sizeof(*b));
	if (b == NULL)
		return;
	if (rt->gc_minors == 0 && rt->cache->nr_rereads % FIND_EVERY == 0)
		ruby_majors_find(rt);
	rt->cache->nr_rereads++;
	b->nr = 0;
	for (size_t i = 0; i < nr; i++) {
		struct interp_desc desc;

		ruby_frame_class(rt, &frames[i], &desc);
		if (desc.class == INTERP_HIDDEN)
			continue;
		if (desc.class == INTERP_CODE)
			add_code(rt, b, frames[i].code, order);
		add_method(rt, b, frames[i].method, order);
		if (b->nr + 2 > MAX_OBJECTS)
			batch_finish(rt, b, order);
	}
	batch_finish(rt, b, order);
}
