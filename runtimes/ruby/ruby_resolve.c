/*
 * Names frames, and remembers what it read.
 *
 * iseqs and method entries are objects of Ruby's heap: one that a sample saw may be gone, and its
 * memory used again, before it is read. The walker stamps each sample with a generation of the
 * collector. An entry here knows the interval of generations in which its object was seen
 * unchanged; a sample within it needs no read at all. Past its end the words that make up the
 * object's identity are read again, and the interval is extended if they are the same. A sample
 * that no interval covers is not given a name that may be another's.
 */
#include "base/hash.h"
#include "runtimes/ruby/ruby_cache.h"
#include "runtimes/ruby/ruby_line.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* enum rb_iseq_type, the same from 2.7 to 4.0 */
	ISEQ_TYPE_TOP = 0,
	ISEQ_TYPE_METHOD,
	ISEQ_TYPE_BLOCK,
	ISEQ_TYPE_CLASS,
	ISEQ_TYPE_RESCUE,
	ISEQ_TYPE_ENSURE,
	ISEQ_TYPE_EVAL,
	ISEQ_TYPE_MAIN,
	ISEQ_TYPE_PLAIN,
	/* rb_method_type_t, the same from 2.7 to 4.0 */
	VM_METHOD_TYPE_CFUNC = 1,
	VM_METHOD_TYPE_ALIAS = 6,
	VM_METHOD_TYPE_REFINED = 11,

	IFUNC_FUNC = 16, /* offset in struct vm_ifunc */
	MAX_PARENTS = 64,
	MAX_ALIASES = 8,
	MAX_INSNS = 1 << 22,
	NR_TRIES = 3,
};

static const char unverified_name[] = "(code freed before it was read)";
static const char unreadable_name[] = "(unreadable)";

/* A frame's label, made of its code and its method. */
struct label {
	uint64_t code_addr, method_addr;
	uint32_t code_version, method_version;
	struct code *code;     /* NULL: a C function's frame */
	struct method *method; /* NULL: none was sent */
	const char *name, *owner;
};

/* ---- strings ------------------------------------------------------------------------------- */

/* One copy of each, for as long as the cache lives. NULL: no memory. */
static const char *intern(struct ruby_cache *c, const char *s)
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

static const char *intern_string(struct runtime *rt, uint64_t str)
{
	char text[RUBY_MAX_NAME];

	return ruby_string_read(&rt->objects, str, text) == 0 ? intern(rt->cache, text) : NULL;
}

/* IDs of methods are never freed (symbol.c: a method's name is made a permanent symbol). */
static const char *intern_id(struct runtime *rt, uint64_t id)
{
	uint64_t *found = hash64_find(&rt->cache->ids, id);
	char text[RUBY_MAX_NAME];
	const char *s;

	if (found != NULL)
		return (const char *)(uintptr_t)*found;
	if (ruby_id_read(&rt->objects, id, text) != 0)
		return NULL;
	s = intern(rt->cache, text);
	if (s != NULL)
		hash64_put(&rt->cache->ids, id, (uintptr_t)s);
	return s;
}

/* ---- generations ---------------------------------------------------------------------------- */

static bool is_still(const struct runtime *rt, const struct ruby_now *then)
{
	struct ruby_now now;

	return ruby_now_read(rt, &now) && now.order == then->order;
}

/* ---- iseqs ---------------------------------------------------------------------------------- */

static int body_read(const struct runtime *rt, uint64_t iseq, struct ruby_body *out)
{
	uint64_t head[RUBY_HEAD_WORDS];
	int rc;

	if (!ruby_is_heap(iseq))
		return -EINVAL;
	rc = target_read(&rt->target, iseq, head, sizeof(head));
	if (rc != 0)
		return rc;
	out->old = ruby_object_is_old(rt, head[0]);
	out->addr = ruby_iseq_body(rt, head);
	if (out->addr == 0)
		return -EINVAL;
	return target_read(&rt->target, out->addr, out->bytes, ruby_body_sz(rt));
}

/*
 * The label as Ruby 3.4 makes it (vm_backtrace.c, calculate_iseq_label): a block is "in" its
 * method, rescue, ensure and eval have the label of what they stand in.
 */
static int code_label(
        struct runtime *rt, uint64_t iseq, const struct ruby_body *first, struct code *c)
{
	const struct ruby_layout *l = rt->l;
	unsigned int levels = 0;
	bool block = false;
	char prefix[64] = "";
	struct ruby_body *b;
	uint32_t type;
	int rc = 0;

	b = malloc(sizeof(*b));
	if (b == NULL)
		return -ENOMEM;
	*b = *first;
	for (int i = 0;; i++) {
		uint64_t parent = ruby_word(b->bytes, l->iseq.parent_iseq);

		type = ruby_half(b->bytes, l->iseq.type);
		if (type > ISEQ_TYPE_PLAIN)
			rc = -EINVAL;
		if (rc != 0 || type == ISEQ_TYPE_TOP || type == ISEQ_TYPE_CLASS ||
		        type == ISEQ_TYPE_MAIN || type == ISEQ_TYPE_METHOD)
			break;
		if (type == ISEQ_TYPE_BLOCK)
			levels++;
		block |= type == ISEQ_TYPE_BLOCK || type == ISEQ_TYPE_PLAIN;
		if (parent == 0 || ruby_word(b->bytes, l->iseq.local_iseq) == iseq)
			break;
		if (i == MAX_PARENTS) {
			rc = -EINVAL;
			break;
		}
		iseq = parent;
		rc = body_read(rt, iseq, b);
		if (rc != 0)
			break;
	}
	if (rc == 0) {
		if (block && levels > 1)
			snprintf(prefix, sizeof(prefix), "block (%u levels) in ", levels);
		else if (block)
			snprintf(prefix, sizeof(prefix), "block in ");
		c->prefix = intern(rt->cache, prefix);
		c->base_label = intern_string(rt, ruby_word(b->bytes, l->iseq.label));
		c->base_is_method = type == ISEQ_TYPE_METHOD;
		if (c->prefix == NULL || c->base_label == NULL)
			rc = -EINVAL;
	}
	free(b);
	return rc;
}

/* pathobj is a String, or [path, absolute path] (iseq.h, rb_iseq_pathobj_new). */
static const char *code_path(struct runtime *rt, uint64_t pathobj)
{
	const char *path = NULL;
	uint64_t s;

	if (ruby_array_read(&rt->objects, pathobj, 1, &s) == 0)
		path = intern_string(rt, s);
	if (path == NULL && ruby_array_read(&rt->objects, pathobj, 0, &s) == 0)
		path = intern_string(rt, s);
	return path != NULL ? path : intern_string(rt, pathobj);
}

/* Lines are worth having, but a frame without them is still right. */
static void code_lines(struct runtime *rt, const struct ruby_body *b, struct code *c)
{
	const struct ruby_layout *l = rt->l;
	size_t nr = ruby_half(b->bytes, l->iseq.insns_size), table_sz = ruby_succ_table_sz(c->size);
	uint8_t *entries, *table;

	if (nr == 0 || nr > c->size)
		return;
	entries = malloc(nr * l->iseq.entry_sz);
	table = malloc(MAX(table_sz, (size_t)8));
	if (entries != NULL && table != NULL &&
	        target_read(&rt->target, ruby_word(b->bytes, l->iseq.insns_body), entries,
	                nr * l->iseq.entry_sz) == 0 &&
	        (nr == 1 || target_read(&rt->target, ruby_word(b->bytes, l->iseq.succ_index_table),
	                            table, table_sz) == 0)) {
		struct ruby_lines lines;

		if (ruby_lines_build(&lines, entries, nr, l->iseq.entry_sz, table, c->size) == 0)
			c->lines = lines;
	}
	free(entries);
	free(table);
}

static int code_read(
        struct runtime *rt, const struct interp_frame *f, bool identity_only, struct code *c)
{
	struct ruby_body b;
	uint64_t head[RUBY_HEAD_WORDS], string[RUBY_HEAD_WORDS];
	uint32_t type;
	int rc;

	if ((f->flags & VM_FRAME_MAGIC_MASK) == VM_FRAME_MAGIC_IFUNC) {
		rc = target_read(&rt->target, f->code, head, sizeof(head));
		if (rc == 0 && ruby_imemo_type(head[0]) != imemo_ifunc)
			rc = -EINVAL;
		c->func = c->object.identity[0] = rc == 0 ? head[IFUNC_FUNC / 8] : 0;
		c->object.old = rc == 0 && ruby_object_is_old(rt, head[0]);
		return rc;
	}
	rc = body_read(rt, f->code, &b);
	if (rc != 0)
		return rc;
	c->label = ruby_word(b.bytes, rt->l->iseq.label);
	ruby_body_identity(rt, &b,
	        ruby_is_heap(c->label) &&
	                        target_read(&rt->target, c->label, string, sizeof(string)) == 0
	                ? string
	                : NULL,
	        c->object.identity);
	c->object.old = b.old;
	if (identity_only)
		return 0;
	type = ruby_half(b.bytes, rt->l->iseq.type);
	c->encoded = ruby_word(b.bytes, rt->l->iseq.iseq_encoded);
	c->size = ruby_half(b.bytes, rt->l->iseq.iseq_size);
	c->first_line = ruby_body_first_line(rt, &b);
	c->skip_next = type == ISEQ_TYPE_RESCUE || type == ISEQ_TYPE_ENSURE;
	if (c->size == 0 || c->size > MAX_INSNS)
		return -EINVAL;
	rc = code_label(rt, f->code, &b, c);
	if (rc != 0)
		return rc;
	c->path = code_path(rt, ruby_word(b.bytes, rt->l->iseq.pathobj));
	code_lines(rt, &b, c);
	return 0;
}

/* ---- method entries -------------------------------------------------------------------------- */

static int method_entry_read(const struct runtime *rt, uint64_t me, uint64_t entry[5])
{
	int rc;

	if (!ruby_is_heap(me))
		return -EINVAL;
	rc = target_read(&rt->target, me, entry, 5 * sizeof(*entry));
	if (rc == 0 && ruby_imemo_type(entry[0]) != imemo_ment)
		rc = -EINVAL;
	return rc;
}

/* The C function behind a definition, through aliases and refined methods; 0: there is none. */
static uint64_t method_func(const struct runtime *rt, const uint64_t *def)
{
	const struct ruby_layout *l = rt->l;
	uint64_t d[8], entry[5];

	memcpy(d, def, sizeof(d));
	for (int i = 0; i < MAX_ALIASES; i++) {
		unsigned int type = d[0] & 15;

		if (type == VM_METHOD_TYPE_CFUNC)
			return d[l->method.body / 8];
		if (type != VM_METHOD_TYPE_ALIAS && type != VM_METHOD_TYPE_REFINED)
			return 0;
		if (method_entry_read(rt, d[l->method.body / 8], entry) != 0 ||
		        target_read(&rt->target, entry[l->method.def / 8], d, l->method.sz) != 0)
			return 0;
	}
	return 0;
}

/*
 * What was read of the same method entry by way of another object: each call of a method that sets
 * $~ makes a new svar, with the old entry in it. An entry without an owner's name is not kept: its
 * class may be given one.
 */
static bool method_recall(const struct ruby_cache *c, uint64_t me, struct method *m)
{
	const uint64_t *found = hash64_find(&c->entries, me);
	const struct method *known =
	        found != NULL ? (const struct method *)(uintptr_t)*found : NULL;

	if (known == NULL || !ruby_is_same(known->object.identity, m->object.identity))
		return false;
	m->name = known->name;
	m->owner = known->owner;
	m->separator = known->separator;
	m->func = known->func;
	return true;
}

static void method_remember(struct ruby_cache *c, uint64_t me, const struct method *m)
{
	uint64_t *found = hash64_find(&c->entries, me);
	struct method *copy;

	if (m->owner == NULL || m->name == NULL)
		return;
	copy = found != NULL ? (struct method *)(uintptr_t)*found : malloc(sizeof(*copy));
	if (copy == NULL)
		return;
	if (found == NULL && hash64_put(&c->entries, me, (uintptr_t)copy) != 0)
		free(copy);
	else
		*copy = *m;
}

static int method_read(struct runtime *rt, uint64_t addr, bool identity_only, struct method *m)
{
	const struct ruby_layout *l = rt->l;
	uint64_t entry[RUBY_HEAD_WORDS], def[RUBY_DEF_WORDS] = {0}, me = addr;
	struct ruby_class_name *class;
	int rc, kind;

	if (!ruby_is_heap(addr))
		return -EINVAL;
	rc = target_read(&rt->target, addr, entry, sizeof(entry));
	if (rc != 0)
		return rc;
	m->object.old = ruby_object_is_old(rt, entry[0]);
	kind = ruby_imemo_type(entry[0]);
	if (kind == imemo_svar) {
		/* $~ and $_ of the method took the place of the entry, which stands in there. */
		me = entry[1];
		if (me != 0 && (!ruby_is_heap(me) ||
		                       target_read(&rt->target, me, entry, sizeof(entry)) != 0))
			return -EINVAL;
		kind = me == 0 ? imemo_cref : ruby_imemo_type(entry[0]);
	}
	m->entry = me;
	if (kind == imemo_cref) {
		m->none = true;
		m->object.identity[0] = ruby_cref_identity(entry);
		return 0;
	}
	if (kind != imemo_ment)
		return -EINVAL;
	if (!ruby_is_heap(entry[l->method.def / 8]))
		return -EINVAL;
	rc = target_read(&rt->target, entry[l->method.def / 8], def, ruby_def_sz(rt));
	if (rc != 0)
		return rc;
	ruby_method_identity(rt, me, entry, def, m->object.identity);
	if (identity_only || method_recall(rt->cache, me, m))
		return 0;
	m->name = intern_id(rt, def[l->method.original_id / 8]);
	m->func = method_func(rt, def);
	class = malloc(sizeof(*class));
	if (class == NULL)
		return -ENOMEM;
	if (ruby_class_read(&rt->objects, entry[l->method.owner / 8], class) == 0 &&
	        class->path[0] != '\0') {
		m->owner = intern(rt->cache, class->path);
		m->separator = class->singleton ? '.' : '#';
	}
	free(class);
	method_remember(rt->cache, me, m);
	return 0;
}

/* ---- what is remembered -------------------------------------------------------------------- */

static struct code *code_find(struct ruby_cache *c, uint64_t addr)
{
	uint64_t *found = hash64_find(&c->codes, addr);
	struct code *code;

	if (found != NULL)
		return (struct code *)(uintptr_t)*found;
	code = calloc(1, sizeof(*code));
	if (code != NULL && hash64_put(&c->codes, addr, (uintptr_t)code) != 0) {
		free(code);
		code = NULL;
	}
	return code;
}

static struct method *method_find(struct ruby_cache *c, uint64_t addr)
{
	uint64_t *found = hash64_find(&c->methods, addr);
	struct method *method;

	if (found != NULL)
		return (struct method *)(uintptr_t)*found;
	method = calloc(1, sizeof(*method));
	if (method != NULL && hash64_put(&c->methods, addr, (uintptr_t)method) != 0) {
		free(method);
		method = NULL;
	}
	return method;
}

/* 0 or INTERP_UNVERIFIED or INTERP_UNREADABLE: what *c tells about the object that the sample saw.
 */
static uint32_t code_update_at(
        struct runtime *rt, const struct interp_frame *f, uint64_t order, struct code *c)
{
	struct code new;
	struct ruby_now now;

	if (ruby_object_covers(&c->object, order))
		return 0;
	for (int i = 0; i < NR_TRIES; i++) {
		bool identity_only = c->object.valid && i == 0 && order >= c->object.gen_lo;

		if (!ruby_now_read(rt, &now))
			continue;
		new = (struct code){0};
		if (code_read(rt, f, identity_only, &new) != 0) {
			ruby_lines_release(&new.lines);
			if (is_still(rt, &now))
				return ruby_gen_covers(order, now.order) ? INTERP_UNREADABLE
				                                         : INTERP_UNVERIFIED;
			continue;
		}
		if (!is_still(rt, &now)) { /* a collection in between: read once more */
			ruby_lines_release(&new.lines);
			continue;
		}
		if (ruby_object_lives(
		            &c->object, new.object.identity, new.object.old, order, &now)) {
			ruby_lines_release(&new.lines);
			ruby_object_settle(rt, f->code, &c->object);
			return ruby_object_covers(&c->object, order) ? 0 : INTERP_UNVERIFIED;
		}
		if (identity_only)
			continue;
		ruby_object_begin(&new.object, c->object.version + 1, order, &now);
		ruby_lines_release(&c->lines);
		*c = new;
		ruby_object_settle(rt, f->code, &c->object);
		return ruby_object_covers(&c->object, order) ? 0 : INTERP_UNVERIFIED;
	}
	return INTERP_UNVERIFIED;
}

static uint32_t method_update_at(
        struct runtime *rt, uint64_t addr, uint64_t order, struct method *m)
{
	struct method new;
	struct ruby_now now;

	if (ruby_object_covers(&m->object, order))
		return 0;
	for (int i = 0; i < NR_TRIES; i++) {
		/* A class without a name may have been given one: it is read in full each time. */
		bool identity_only = m->object.valid && i == 0 && order >= m->object.gen_lo &&
		                     (m->owner != NULL || m->none);

		if (!ruby_now_read(rt, &now))
			continue;
		new = (struct method){0};
		if (method_read(rt, addr, identity_only, &new) != 0) {
			if (is_still(rt, &now))
				return ruby_gen_covers(order, now.order) ? INTERP_UNREADABLE
				                                         : INTERP_UNVERIFIED;
			continue;
		}
		if (!is_still(rt, &now))
			continue;
		if (ruby_object_lives(
		            &m->object, new.object.identity, new.object.old, order, &now)) {
			ruby_object_settle(rt, addr, &m->object);
			if (!identity_only && new.owner != m->owner) {
				m->owner = new.owner;
				m->separator = new.separator;
				m->object.version++;
			}
			return ruby_object_covers(&m->object, order) ? 0 : INTERP_UNVERIFIED;
		}
		if (identity_only)
			continue;
		ruby_object_begin(&new.object, m->object.version + 1, order, &now);
		*m = new;
		ruby_object_settle(rt, addr, &m->object);
		return ruby_object_covers(&m->object, order) ? 0 : INTERP_UNVERIFIED;
	}
	return INTERP_UNVERIFIED;
}

/* The latest generation that a sample may be of which it cannot be told when it was taken. */
static uint64_t gen_end(const struct runtime *rt, uint64_t gc_gen)
{
	uint64_t end = ruby_gen_order(gc_gen);
	struct ruby_now now;

	return ruby_gen_is_unsure(gc_gen) && ruby_now_read(rt, &now) ? MIN(end, now.order) : end;
}

/* It could not be verified for another frame of this sample: a deep stack has the same few objects,
 * and each look takes system calls. */
static bool is_late(const struct runtime *rt, const struct object *o)
{
	return rt->cache->nr_rereads != 0 && o->late == rt->cache->nr_rereads;
}

/* Of the frame's code c, or of its method m where c is NULL: what was the same at both ends of the
 * time that the sample may be of. */
static uint32_t object_update(struct runtime *rt, const struct interp_frame *f, uint64_t gc_gen,
        struct code *c, struct method *m)
{
	struct object *o = c != NULL ? &c->object : &m->object;
	uint64_t ends[2] = {ruby_gen_begin(gc_gen)};
	uint32_t flags = 0;

	if (is_late(rt, o))
		return INTERP_UNVERIFIED;
	ends[1] = gen_end(rt, gc_gen);
	for (int i = 0; flags == 0 && i < 2; i++)
		if (i == 0 || ends[1] != ends[0])
			flags = c != NULL ? code_update_at(rt, f, ends[i], c)
			                  : method_update_at(rt, f->method, ends[i], m);
	if (flags == 0 && !ruby_object_covers(o, ends[0]))
		flags = INTERP_UNVERIFIED;
	if (flags == 0)
		ruby_object_use(o, ends[0]);
	else if (flags & INTERP_UNVERIFIED)
		o->late = rt->cache->nr_rereads;
	return flags;
}

/* vm_backtrace.c, rb_gen_method_name. */
static void label_make(struct ruby_cache *cache, struct label *l)
{
	const struct code *c = l->code;
	const struct method *m = l->method != NULL && !l->method->none ? l->method : NULL;
	const char *base = c != NULL ? c->base_label : m != NULL ? m->name : NULL;
	bool qualified = m != NULL && m->owner != NULL && (c == NULL || c->base_is_method);
	char *text;
	int n;

	l->name = unreadable_name;
	l->owner = qualified ? m->owner : NULL;
	if (base == NULL)
		return;
	if (qualified)
		n = asprintf(&text, "%s%s%c%s", c != NULL ? c->prefix : "", m->owner, m->separator,
		        base);
	else
		n = asprintf(&text, "%s%s", c != NULL ? c->prefix : "", base);
	if (n < 0)
		return;
	l->name = intern(cache, text);
	if (l->name == NULL)
		l->name = unreadable_name;
	free(text);
}

/* The label of this pair of objects, made when there is none or when one of them is another than it
 * was. */
static const struct label *label_get(struct ruby_cache *c, const struct interp_frame *f,
        struct code *code, struct method *method)
{
	uint64_t key = hash_mix(f->code) ^ f->method, *found;
	struct label *l;

	while ((found = hash64_find(&c->labels, key)) != NULL) {
		l = (struct label *)(uintptr_t)*found;
		if (l->code_addr == f->code && l->method_addr == f->method)
			break;
		key++;
	}
	if (found == NULL) {
		l = calloc(1, sizeof(*l));
		if (l == NULL || hash64_put(&c->labels, key, (uintptr_t)l) != 0) {
			free(l);
			return NULL;
		}
		l->code_addr = f->code;
		l->method_addr = f->method;
	}
	if (l->name == NULL || l->code != code || l->method != method ||
	        (code != NULL && l->code_version != code->object.version) ||
	        (method != NULL && l->method_version != method->object.version)) {
		l->code = code;
		l->method = method;
		l->code_version = code != NULL ? code->object.version : 0;
		l->method_version = method != NULL ? method->object.version : 0;
		label_make(c, l);
	}
	return l;
}

/* ---- */

void ruby_frame_class(
        const struct runtime *rt, const struct interp_frame *f, struct interp_desc *out)
{
	uint32_t magic = f->flags & VM_FRAME_MAGIC_MASK;
	struct interp_desc d = {.class = INTERP_HIDDEN};

	/* A C function that is called by rb_vm_call_cfunc (Init_xxx of a library) has a TOP frame
	 * without a pc. */
	if (f->extra & INTERP_F_EP_FAULT && f->flags == 0)
		d.class = f->code != 0 && f->pc != 0 ? INTERP_CODE : INTERP_HIDDEN;
	else if (magic == VM_FRAME_MAGIC_CFUNC)
		d.class = INTERP_C;
	else if (magic == VM_FRAME_MAGIC_IFUNC)
		d.c_call = 1;
	else if (magic == VM_FRAME_MAGIC_TOP && f->pc == 0)
		d.c_call = 1;
	else if (magic != VM_FRAME_MAGIC_DUMMY && f->code != 0 && f->pc != 0)
		d.class = INTERP_CODE;
	/* rb_vm_call_cfunc and the dummy frames carry FINISH without an activation of vm_exec. */
	d.ends_run =
	        (f->flags & VM_FRAME_FLAG_FINISH) && magic != VM_FRAME_MAGIC_DUMMY && f->pc != 0;
	*out = d;
}

/* The line that runs: pc is behind the instruction (vm_backtrace.c, calc_pos). */
static void resolve_line(const struct runtime *rt, const struct interp_frame *f, bool leaf,
        const struct code *c, struct frame *out)
{
	bool jit = rt->nr_jit > 0;
	uint64_t pos = (f->pc - c->encoded) / 8;

	if (jit && (f->extra & INTERP_F_JIT))
		out->kind = FRAME_INTERP_JIT;
	if (f->pc < c->encoded || pos > c->size) {
		out->line = c->first_line;
		out->flags |= FRAME_F_APPROX;
		return;
	}
	out->line = ruby_lines_find(&c->lines, (uint32_t)(pos > 0 ? pos - 1 : 0));
	if (out->line == 0)
		out->line = c->first_line;
	/* JIT code writes the pc only before it calls something that may look at it. */
	if (leaf && out->kind == FRAME_INTERP_JIT)
		out->flags |= FRAME_F_APPROX;
}

void ruby_resolve(struct runtime *rt, const struct interp_frame *f, bool leaf, uint64_t gc_gen,
        struct interp_info *out)
{
	uint32_t magic = f->flags & VM_FRAME_MAGIC_MASK, flags = 0;
	const struct label *label = NULL;
	struct method *method = NULL;
	struct code *code = NULL;
	bool native = magic == VM_FRAME_MAGIC_CFUNC;

	memset(out, 0, sizeof(*out));
	out->frame.kind = native ? FRAME_INTERP_C : FRAME_INTERP;
	out->frame.name = unreadable_name;
	if (!native && f->code != 0) {
		code = code_find(rt->cache, f->code);
		flags |=
		        code != NULL ? object_update(rt, f, gc_gen, code, NULL) : INTERP_UNREADABLE;
	}
	if (magic == VM_FRAME_MAGIC_IFUNC || (!native && f->code == 0)) {
		out->frame.name = "(internal)";
		out->func_addr = flags == 0 && code != NULL ? code->func : 0;
		out->flags = flags == 0 ? INTERP_RESOLVED : flags;
		return;
	}
	if (f->method != 0 && flags == 0) {
		method = method_find(rt->cache, f->method);
		flags |= method != NULL ? object_update(rt, f, gc_gen, NULL, method)
		                        : INTERP_UNREADABLE;
	}
	if (native && method == NULL && flags == 0)
		flags = INTERP_UNREADABLE;
	if (flags & INTERP_UNVERIFIED) {
		out->frame.name = unverified_name;
		out->flags = INTERP_UNVERIFIED;
		return;
	}
	/* A method whose environment could not be followed: the name without the class, said to be
	 * so. */
	if (flags == 0)
		label = label_get(rt->cache, f, code, method);
	if (label == NULL) {
		out->flags = INTERP_UNREADABLE;
		return;
	}
	out->frame.name = label->name;
	out->frame.owner = label->owner;
	out->flags = label->name == unreadable_name ? INTERP_UNREADABLE : INTERP_RESOLVED;
	if (native) {
		out->func_addr = method->func;
		return;
	}
	if (code->skip_next)
		out->flags |= INTERP_SKIP_NEXT;
	out->frame.path = code->path;
	resolve_line(rt, f, leaf, code, &out->frame);
}

int ruby_cache_new(struct ruby_cache **out)
{
	struct ruby_cache *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -ENOMEM;
	hash64_init(&c->codes);
	hash64_init(&c->methods);
	hash64_init(&c->entries);
	hash64_init(&c->labels);
	hash64_init(&c->ids);
	hash64_init(&c->strings);
	*out = c;
	return 0;
}

static void free_values(struct hash64 *h)
{
	for (size_t i = 0; i < h->nr_slots; i++)
		if (h->slots[i].used)
			free((void *)(uintptr_t)h->slots[i].value);
	hash64_release(h);
}

void ruby_cache_free(struct ruby_cache *c)
{
	if (c == NULL)
		return;
	free(c->batch);
	for (size_t i = 0; i < c->codes.nr_slots; i++)
		if (c->codes.slots[i].used)
			ruby_lines_release(
			        &((struct code *)(uintptr_t)c->codes.slots[i].value)->lines);
	free_values(&c->codes);
	free_values(&c->methods);
	free_values(&c->entries);
	free_values(&c->labels);
	hash64_release(&c->ids);
	free_values(&c->strings);
	free(c);
}
