/*
 * Reads objects, from what was captured of them or from the process, and remembers what they are.
 *
 * Code, methods and classes are objects of Ruby's heap: one that a sample saw may be gone before
 * user space can look. So the walk copies what names them (ruby_plan.c, bpf/capture.bpf.h), and
 * here the copy is laid over the process's memory (symbolizer/overlay.h) and read as if it were
 * that.
 */
#include "runtimes/ruby/ruby_names.h"

#include "symbolizer/overlay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	IFUNC_FUNC = 16, /* offset in struct vm_ifunc */
	MAX_INSNS = 1 << 22,
};

/* ---- strings ------------------------------------------------------------------------------- */

const char *ruby_intern(struct ruby_cache *c, const char *s)
{
	uint64_t key = hash_bytes(s, strlen(s), 0), *found;
	char *copy;

	while ((found = hash64_find(&c->strings, key)) != NULL) {
		if (strcmp((const char *)(uintptr_t)*found, s) == 0)
			return (const char *)(uintptr_t)*found;
		key++;
	}
	copy = strdup(s);
	if (copy != NULL && hash64_put(&c->strings, key, (uintptr_t)copy) != 0) {
		free(copy);
		copy = NULL;
	}
	return copy;
}

static const char *intern_string(struct ruby_cache *c, const struct ruby_objects *o, uint64_t str)
{
	char text[RUBY_MAX_NAME];

	return ruby_string_read(o, str, text) == 0 ? ruby_intern(c, text) : NULL;
}

/* ---- reading one object --------------------------------------------------------------------- */

/* An object's first words; one that was moved is where its old place says. */
static int head_read(const struct ruby_objects *o, uint64_t addr, uint64_t head[RUBY_HEAD_WORDS])
{
	const size_t size = RUBY_HEAD_WORDS * sizeof(*head);
	int rc;

	if (!ruby_is_heap(addr))
		return -EINVAL;
	rc = target_read(o->target, addr, head, size);
	if (rc == 0 && ruby_type(head[0]) == RUBY_T_MOVED)
		rc = ruby_is_heap(head[RUBY_MOVED_TO])
		             ? target_read(o->target, head[RUBY_MOVED_TO], head, size)
		             : -EINVAL;
	return rc;
}

static uint32_t body_first_line(const struct ruby_layout *l, const uint8_t *body)
{
	uint32_t line;

	if (l->iseq.first_lineno_is_value) {
		int64_t fixnum = (int64_t)ruby_word(body, l->iseq.first_lineno);

		return fixnum > 0 && (fixnum & 1) && fixnum >> 1 <= INT32_MAX
		               ? (uint32_t)(fixnum >> 1)
		               : 0;
	}
	line = ruby_half(body, l->iseq.first_lineno);
	return line <= INT32_MAX ? line : 0;
}

/* Lines are worth having, but a frame without them is still right. */
static void code_lines(const struct ruby_objects *o, struct code *c)
{
	size_t entries_sz = (size_t)c->nr_entries * o->l->iseq.entry_sz;
	size_t table_sz = ruby_succ_table_sz(c->size);
	uint8_t *entries, *table;

	if (c->nr_entries == 0 || c->nr_entries > c->size)
		return;
	entries = malloc(entries_sz);
	table = malloc(MAX(table_sz, (size_t)8));
	if (entries != NULL && table != NULL &&
	        target_read(o->target, c->lines_entries, entries, entries_sz) == 0 &&
	        (c->nr_entries == 1 ||
	                target_read(o->target, c->lines_table, table, table_sz) == 0)) {
		struct ruby_lines lines;

		if (ruby_lines_build(&lines, entries, c->nr_entries, o->l->iseq.entry_sz, table,
		            c->size) == 0)
			c->lines = lines;
	}
	free(entries);
	free(table);
}

static int code_read(
        struct ruby_cache *cache, const struct ruby_objects *o, uint64_t addr, struct code *c)
{
	const struct ruby_layout *l = o->l;
	uint64_t head[RUBY_HEAD_WORDS];
	uint8_t body[RUBY_BODY_WORDS * 8];
	int rc = head_read(o, addr, head);

	if (rc != 0)
		return rc;
	if (ruby_imemo_type(head[0]) == imemo_ifunc) {
		c->func = head[IFUNC_FUNC / 8];
		return 0;
	}
	if (ruby_imemo_type(head[0]) != imemo_iseq || !ruby_is_heap(head[l->iseq.body / 8]))
		return -EINVAL;
	rc = target_read(o->target, head[l->iseq.body / 8], body, ruby_body_sz(l));
	if (rc != 0)
		return rc;
	c->type = ruby_half(body, l->iseq.type);
	c->encoded = ruby_word(body, l->iseq.iseq_encoded);
	c->size = ruby_half(body, l->iseq.iseq_size);
	c->first_line = body_first_line(l, body);
	c->parent = ruby_word(body, l->iseq.parent_iseq);
	c->local = ruby_word(body, l->iseq.local_iseq);
	c->path = ruby_word(body, l->iseq.pathobj);
	if (c->type > ISEQ_TYPE_PLAIN || c->size == 0 || c->size > MAX_INSNS)
		return -EINVAL;
	c->label = intern_string(cache, o, ruby_word(body, l->iseq.label));
	if (c->label == NULL)
		return -EINVAL;
	c->lines_entries = ruby_word(body, l->iseq.insns_body);
	c->lines_table = ruby_word(body, l->iseq.succ_index_table);
	c->nr_entries = ruby_half(body, l->iseq.insns_size);
	return 0;
}

/* The C function behind a definition, through aliases and refined methods; 0: there is none. */
static uint64_t method_func(const struct ruby_objects *o, const uint64_t *def)
{
	const struct ruby_layout *l = o->l;
	uint64_t d[RUBY_DEF_WORDS], entry[RUBY_HEAD_WORDS];

	memcpy(d, def, sizeof(d));
	for (int i = 0; i < RUBY_MAX_ALIASES; i++) {
		unsigned int type = d[0] & RUBY_METHOD_TYPE_MASK;

		if (type == VM_METHOD_TYPE_CFUNC)
			return d[l->method.body / 8];
		if (type != VM_METHOD_TYPE_ALIAS && type != VM_METHOD_TYPE_REFINED)
			return 0;
		if (head_read(o, d[l->method.body / 8], entry) != 0 ||
		        ruby_imemo_type(entry[0]) != imemo_ment ||
		        target_read(o->target, entry[l->method.def / 8], d, ruby_def_sz(l)) != 0)
			return 0;
	}
	return 0;
}

static int method_read(const struct ruby_objects *o, uint64_t addr, struct method *m)
{
	const struct ruby_layout *l = o->l;
	uint64_t entry[RUBY_HEAD_WORDS], def[RUBY_DEF_WORDS] = {0};
	int rc = head_read(o, addr, entry);

	/* The kernel-side walk follows these; that in user space does not. */
	if (rc == 0 && ruby_is_svar(entry[0])) {
		m->none = entry[RUBY_SVAR_METHOD] == 0;
		if (m->none)
			return 0;
		rc = head_read(o, entry[RUBY_SVAR_METHOD], entry);
	}
	if (rc != 0)
		return rc;
	if (ruby_imemo_type(entry[0]) == imemo_cref) {
		m->none = true;
		return 0;
	}
	if (ruby_imemo_type(entry[0]) != imemo_ment || !ruby_is_heap(entry[l->method.def / 8]))
		return -EINVAL;
	rc = target_read(o->target, entry[l->method.def / 8], def, ruby_def_sz(l));
	if (rc != 0)
		return rc;
	m->owner = entry[l->method.owner / 8];
	m->id = def[l->method.original_id / 8];
	m->func = method_func(o, def);
	return 0;
}

static int class_read(
        struct ruby_cache *cache, const struct ruby_objects *o, uint64_t addr, struct class *c)
{
	struct ruby_class_name name;
	int rc = ruby_class_read(o, addr, &name);

	if (rc != 0)
		return rc;
	c->singleton = name.singleton;
	c->path = name.path[0] != '\0' ? ruby_intern(cache, name.path) : NULL;
	return 0;
}

static int id_read(
        struct ruby_cache *cache, const struct ruby_objects *o, uint64_t id, struct text *t)
{
	char text[RUBY_MAX_NAME];
	int rc = ruby_id_read(o, id, text);

	t->text = rc == 0 ? ruby_intern(cache, text) : NULL;
	return rc;
}

/* A String, or [path, absolute path] (iseq.h, rb_iseq_pathobj_new). */
static int path_read(
        struct ruby_cache *cache, const struct ruby_objects *o, uint64_t pathobj, struct text *t)
{
	uint64_t s;

	if (ruby_array_read(o, pathobj, 1, &s) == 0 && ruby_is_heap(s))
		t->text = intern_string(cache, o, s);
	else if (ruby_array_read(o, pathobj, 0, &s) == 0)
		t->text = intern_string(cache, o, s);
	else
		t->text = intern_string(cache, o, pathobj);
	return t->text != NULL ? 0 : -EINVAL;
}

/* One of each, as they are stored. */
union any_object {
	struct object object;
	struct code code;
	struct method method;
	struct class class;
	struct text text;
};

static int any_read(struct ruby_cache *cache, const struct ruby_objects *o, unsigned int kind,
        uint64_t addr, union any_object *out)
{
	memset(out, 0, sizeof(*out));
	switch (kind) {
	case RUBY_CAPTURE_CODE:
		return code_read(cache, o, addr, &out->code);
	case RUBY_CAPTURE_METHOD:
		return method_read(o, addr, &out->method);
	case RUBY_CAPTURE_CLASS:
		return class_read(cache, o, addr, &out->class);
	case RUBY_CAPTURE_ID:
		return id_read(cache, o, addr, &out->text);
	default:
		return path_read(cache, o, addr, &out->text);
	}
}

/* ---- what is remembered -------------------------------------------------------------------- */

static union any_object *any_find(struct hash64 *h, uint64_t addr)
{
	uint64_t *found = hash64_find(h, addr);

	return found != NULL ? (union any_object *)(uintptr_t)*found : NULL;
}

/* Puts *new, whose lines it takes, in the place of what was known of the address. NULL: no memory.
 */
static union any_object *any_put(
        struct hash64 *h, unsigned int kind, uint64_t addr, union any_object *new)
{
	union any_object *old = any_find(h, addr);

	if (old == NULL) {
		old = calloc(1, sizeof(*old));
		if (old == NULL || hash64_put(h, addr, (uintptr_t)old) != 0) {
			free(old);
			if (kind == RUBY_CAPTURE_CODE)
				ruby_lines_release(&new->code.lines);
			return NULL;
		}
	} else if (kind == RUBY_CAPTURE_CODE) {
		ruby_lines_release(&old->code.lines);
	}
	new->object.version = old->object.version + 1;
	*old = *new;
	return old;
}

void ruby_captured(struct runtime *rt, const struct rprof_capture *c, size_t size)
{
	struct ruby_objects objects = rt->objects;
	union any_object new;
	struct overlay overlay;
	uint32_t old_stamp;
	int rc;

	if (size < sizeof(*c) || c->kind >= NR_RUBY_CAPTURES ||
	        overlay_init(&overlay, &rt->target, c + 1, size - sizeof(*c)) != 0)
		return;
	objects.target = &overlay.target;
	old_stamp = c->flags & CAPTURE_F_OLD ? c->old_stamp : 0;
	rc = any_read(rt->cache, &objects, c->kind, c->object, &new);
	new.object.known = rc == 0;
	new.object.old_stamp = old_stamp;
	new.object.gc_gen = c->gc_gen;
	new.object.time_ns = c->time_ns;
	/* A part lies on a page that was not there: what it is now counts if it is certain that
	 * nothing was freed meanwhile. */
	new.object.verified = c->kind == RUBY_CAPTURE_ID || overlay.nr_below == 0 ||
	                      ruby_gc_is_same(rt, c->gc_gen, old_stamp);
	/* So do lines that are too many for a capture. */
	if (rc == 0 && c->kind == RUBY_CAPTURE_CODE) {
		overlay.nr_below = 0;
		code_lines(&objects, &new.code);
		if (overlay.nr_below != 0 && !ruby_gc_is_same(rt, c->gc_gen, old_stamp))
			ruby_lines_release(&new.code.lines);
	}
	any_put(&rt->cache->captured[c->kind], c->kind, c->object, &new);
}

const void *ruby_object(struct runtime *rt, unsigned int kind, uint64_t object, bool unsent,
        const struct interp_moment *when, uint32_t *trouble)
{
	union any_object *o = any_find(&rt->cache->captured[kind], object), new;

	if (o != NULL && unsent && kind != RUBY_CAPTURE_ID && o->object.time_ns != when->time_ns &&
	        !ruby_gc_agree(when, o->object.gc_gen, o->object.old_stamp))
		o = NULL;
	if (o != NULL) {
		if (o->object.known && o->object.verified)
			return o;
		*trouble |= o->object.verified ? INTERP_UNREADABLE : INTERP_UNVERIFIED;
		return NULL;
	}
	o = any_find(&rt->cache->later[kind], object);
	if (o == NULL || o->object.gc_gen != when->gc_gen) {
		int rc = any_read(rt->cache, &rt->objects, kind, object, &new);

		if (rc == 0 && kind == RUBY_CAPTURE_CODE)
			code_lines(&rt->objects, &new.code);
		new.object.known = rc == 0;
		new.object.later = true;
		new.object.verified = kind == RUBY_CAPTURE_ID ||
		                      ruby_gc_is_same(rt, when->gc_gen, when->unsent_old_stamp);
		new.object.gc_gen = when->gc_gen;
		o = any_put(&rt->cache->later[kind], kind, object, &new);
	}
	if (o != NULL && o->object.known && o->object.verified)
		return o;
	*trouble |= o != NULL && o->object.verified ? INTERP_UNREADABLE : INTERP_UNVERIFIED;
	return NULL;
}

int ruby_cache_new(struct ruby_cache **out)
{
	struct ruby_cache *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -ENOMEM;
	for (int i = 0; i < NR_RUBY_CAPTURES; i++) {
		hash64_init(&c->captured[i]);
		hash64_init(&c->later[i]);
	}
	hash64_init(&c->labels);
	hash64_init(&c->strings);
	*out = c;
	return 0;
}

static void free_values(struct hash64 *h, bool code)
{
	for (size_t i = 0; i < h->nr_slots; i++) {
		if (!h->slots[i].used)
			continue;
		if (code)
			ruby_lines_release(&((struct code *)(uintptr_t)h->slots[i].value)->lines);
		free((void *)(uintptr_t)h->slots[i].value);
	}
	hash64_release(h);
}

void ruby_cache_free(struct ruby_cache *c)
{
	if (c == NULL)
		return;
	for (int i = 0; i < NR_RUBY_CAPTURES; i++) {
		free_values(&c->captured[i], i == RUBY_CAPTURE_CODE);
		free_values(&c->later[i], i == RUBY_CAPTURE_CODE);
	}
	free_values(&c->labels, false);
	free_values(&c->strings, false);
	free(c);
}
