/*
 * Names frames: from what is known of their code and method (ruby_names.c) to labels, paths and
 * lines, spelled as Ruby 3.4 does.
 */
#include "runtimes/ruby/ruby_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_PARENTS = 64,
	MAX_LABEL_PARTS = 8, /* objects that a label is made of; of more it is made each time */
};

static const char unverified_name[] = "(code freed before it was read)";
static const char unreadable_name[] = "(unreadable)";

/* A frame's label. It is remembered for its code and method, with all objects that it was made of.
 */
struct label {
	uint64_t code_addr, method_addr;
	const struct code *code;     /* NULL: a C function's frame, or unknown */
	const struct method *method; /* NULL: there is none, or unknown */
	const char *name, *owner, *path;
	const char *made; /* the method's name, if it was made of this block */
	uint32_t
	        first_line; /* of the function: a rescue or ensure body has that of what it is in */
	uint32_t trouble;   /* INTERP_UNVERIFIED, INTERP_UNREADABLE: of a part that is missing */
	const struct object *part[MAX_LABEL_PARTS];
	uint32_t version[MAX_LABEL_PARTS];
	size_t nr_parts;
	bool fleeting; /* a part is missing, or good for one sample, or one too many: not remembered
	                */
};

/* A frame whose objects are looked up. */
struct lookup {
	struct runtime *rt;
	const struct interp_frame *f;
	const struct interp_moment *when;
	struct label *label;
};

static const void *part_find(struct lookup *k, unsigned int kind, uint64_t object, uint32_t unsent)
{
	struct label *l = k->label;
	uint32_t trouble = 0;
	const struct object *o =
	        ruby_object(k->rt, kind, object, k->f->extra & unsent, k->when, &trouble);

	l->trouble |= trouble;
	l->fleeting |= o == NULL || o->later || l->nr_parts == MAX_LABEL_PARTS;
	if (!l->fleeting) {
		l->part[l->nr_parts] = o;
		l->version[l->nr_parts++] = o->version;
	}
	return o;
}

/*
 * The label as Ruby 3.4 makes it (vm_backtrace.c, calculate_iseq_label): a block is "in" its
 * method, rescue, ensure and eval have the label of what they stand in. Returns the iseq that has
 * the label; NULL: a part is missing.
 */
static const struct code *label_code(struct lookup *k, char *prefix, size_t n)
{
	const struct code *c = k->label->code;
	uint64_t addr = k->f->code;
	unsigned int levels = 0;
	bool block = false, body = true;

	prefix[0] = '\0';
	k->label->first_line = c->first_line;
	for (int i = 0; !(RUBY_ISEQ_OWN_LABEL >> c->type & 1); i++) {
		body = body && (c->type == ISEQ_TYPE_RESCUE || c->type == ISEQ_TYPE_ENSURE);
		levels += c->type == ISEQ_TYPE_BLOCK;
		block |= c->type == ISEQ_TYPE_BLOCK || c->type == ISEQ_TYPE_PLAIN;
		if (c->parent == 0 || c->local == addr)
			break;
		addr = c->parent;
		c = i < MAX_PARENTS ? part_find(k, RUBY_CAPTURE_CODE, addr, INTERP_F_CODE_UNSENT)
		                    : NULL;
		if (c == NULL || c->label == NULL)
			return NULL;
		if (body)
			k->label->first_line = c->first_line;
	}
	if (block && levels > 1)
		snprintf(prefix, n, "block (%u levels) in ", levels);
	else if (block)
		snprintf(prefix, n, "block in ");
	return c;
}

/* vm_backtrace.c, rb_gen_method_name. owner may be NULL. */
static const char *qualified_name(
        struct ruby_cache *cache, const char *prefix, const struct class *owner, const char *name)
{
	const char *copy;
	char *text;
	int n;

	if (owner != NULL && owner->path != NULL)
		n = asprintf(
		        &text, "%s%s%c%s", prefix, owner->path, owner->singleton ? '.' : '#', name);
	else
		n = asprintf(&text, "%s%s", prefix, name);
	if (n < 0)
		return NULL;
	copy = ruby_intern(cache, text);
	free(text);
	return copy;
}

/* What is missing is left out: a name without an owner is better than none. */
static void label_make(struct lookup *k)
{
	const struct text *path = NULL, *id = NULL;
	const struct code *base = NULL;
	const struct class *owner = NULL;
	struct label *l = k->label;
	const struct method *m = l->method != NULL && !l->method->none ? l->method : NULL;
	const char *name = NULL;
	char prefix[64] = "";
	bool qualified;

	if (l->code != NULL) {
		path = part_find(k, RUBY_CAPTURE_PATH, l->code->path, INTERP_F_CODE_UNSENT);
		l->path = path != NULL ? path->text : NULL;
		base = label_code(k, prefix, sizeof(prefix));
		/* Its own label is the one that older Rubies show: "block in foo". */
		name = base != NULL ? base->label : l->code->label;
	}
	qualified =
	        m != NULL && (l->code == NULL || (base != NULL && base->type == ISEQ_TYPE_METHOD));
	if (m != NULL && (base == NULL || prefix[0] != '\0'))
		id = part_find(k, RUBY_CAPTURE_ID, m->id, INTERP_F_METHOD_UNSENT);
	if (m != NULL && (qualified || prefix[0] != '\0'))
		owner = part_find(k, RUBY_CAPTURE_CLASS, m->owner, INTERP_F_METHOD_UNSENT);
	if (name == NULL && id != NULL)
		name = id->text;
	if (name != NULL)
		l->name = qualified_name(k->rt->cache, prefix, qualified ? owner : NULL, name);
	if (qualified && owner != NULL)
		l->owner = owner->path;
	if (prefix[0] != '\0' && id != NULL)
		l->made = qualified_name(k->rt->cache, "", owner, id->text);
}

static bool label_holds(const struct label *l)
{
	for (size_t i = 0; i < l->nr_parts; i++)
		if (l->part[i]->version != l->version[i])
			return false;
	return true;
}

static struct label *label_find(struct ruby_cache *c, const struct interp_frame *f, uint64_t *key)
{
	uint64_t *found;

	*key = hash_mix(f->code) ^ f->method;
	while ((found = hash64_find(&c->labels, *key)) != NULL) {
		struct label *l = (struct label *)(uintptr_t)*found;

		if (l->code_addr == f->code && l->method_addr == f->method)
			return l;
		++*key;
	}
	return NULL;
}

static void label_remember(struct ruby_cache *c, struct label *known, uint64_t key,
        const struct interp_frame *f, const struct label *l)
{
	struct label *copy = known != NULL ? known : malloc(sizeof(*copy));

	if (copy == NULL)
		return;
	*copy = *l;
	copy->code_addr = f->code;
	copy->method_addr = f->method;
	if (known == NULL && hash64_put(&c->labels, key, (uintptr_t)copy) != 0)
		free(copy);
}

/* What names the frame, into *l. */
static void label_get(struct runtime *rt, const struct interp_frame *f,
        const struct interp_moment *when, struct label *l)
{
	struct lookup k = {.rt = rt, .f = f, .when = when, .label = l};
	uint32_t unsent = f->extra & (INTERP_F_CODE_UNSENT | INTERP_F_METHOD_UNSENT);
	struct label *known;
	uint64_t key;

	known = label_find(rt->cache, f, &key);
	if (known != NULL && unsent == 0 && label_holds(known)) {
		*l = *known;
		return;
	}
	*l = (struct label){0};
	if ((f->flags & VM_FRAME_MAGIC_MASK) != VM_FRAME_MAGIC_CFUNC && f->code != 0)
		l->code = part_find(&k, RUBY_CAPTURE_CODE, f->code, INTERP_F_CODE_UNSENT);
	if (f->method != 0)
		l->method = part_find(&k, RUBY_CAPTURE_METHOD, f->method, INTERP_F_METHOD_UNSENT);
	if (l->code == NULL || l->code->label != NULL)
		label_make(&k);
	if (unsent == 0 && !l->fleeting)
		label_remember(rt->cache, known, key, f, l);
}

/* ---- */

void ruby_frame_class(
        const struct runtime *rt, const struct interp_frame *f, struct interp_desc *out)
{
	uint32_t magic = f->flags & VM_FRAME_MAGIC_MASK;
	struct interp_desc d = {.class = STITCH_HIDDEN};
	/* YJIT of 3.1 pushes methods without writing their pc, which is what a C function's frame
	 * left there until the first call (yjit_codegen.c, gen_send_iseq, v3_1_0). The other frames
	 * are pushed with the pc of their first instruction. A C function that is called by
	 * rb_vm_call_cfunc (Init_xxx of a library) has a TOP frame without a pc. */
	bool runs = f->pc != 0 || magic == VM_FRAME_MAGIC_METHOD || magic == VM_FRAME_MAGIC_BLOCK;

	if (f->extra & INTERP_F_EP_FAULT && f->flags == 0)
		d.class = f->code != 0 && f->pc != 0 ? STITCH_CODE : STITCH_HIDDEN;
	else if (magic == VM_FRAME_MAGIC_CFUNC)
		d.class = STITCH_C;
	else if (magic != VM_FRAME_MAGIC_IFUNC && magic != VM_FRAME_MAGIC_DUMMY && f->code != 0 &&
	         runs)
		d.class = STITCH_CODE;
	/* rb_vm_call_cfunc and the dummy frames carry FINISH without an activation of vm_exec. */
	d.ends_run = (f->flags & VM_FRAME_FLAG_FINISH) && magic != VM_FRAME_MAGIC_DUMMY && runs;
	*out = d;
}

/* The line that runs: pc is behind the instruction (vm_backtrace.c, calc_pos). None where the pc is
 * not one of this code: the JIT's code has not written it yet. */
static void resolve_line(const struct runtime *rt, const struct interp_frame *f, bool leaf,
        const struct code *c, struct frame *out)
{
	bool jit = rt->nr_jit > 0;
	uint64_t pos = (f->pc - c->encoded) / 8;

	if (jit && (f->extra & INTERP_F_JIT))
		out->kind = FRAME_INTERP_JIT;
	if (f->pc < c->encoded || pos > c->size) {
		out->flags |= FRAME_F_APPROX;
		return;
	}
	out->line = ruby_lines_find(&c->lines, (uint32_t)(pos > 0 ? pos - 1 : 0));
	if (out->line == 0) {
		out->line = c->first_line;
		out->flags |= FRAME_F_APPROX;
	}
	/* JIT code writes the pc only before it calls something that may look at it. */
	if (leaf && out->kind == FRAME_INTERP_JIT)
		out->flags |= FRAME_F_APPROX;
}

void ruby_resolve(struct runtime *rt, const struct interp_frame *f, bool leaf,
        const struct interp_moment *when, struct interp_info *out)
{
	uint32_t magic = f->flags & VM_FRAME_MAGIC_MASK;
	bool native = magic == VM_FRAME_MAGIC_CFUNC;
	struct label label;

	memset(out, 0, sizeof(*out));
	out->frame.kind = native ? FRAME_INTERP_C : FRAME_INTERP;
	label_get(rt, f, when, &label);
	out->flags = label.trouble != 0 ? label.trouble : INTERP_RESOLVED;
	if (magic == VM_FRAME_MAGIC_IFUNC || (!native && f->code == 0)) {
		out->frame.name = "(internal)";
		out->func_addr = label.code != NULL ? label.code->func : 0;
		return;
	}
	if (label.name == NULL && label.trouble == 0)
		out->flags = INTERP_UNREADABLE;
	out->frame.name = label.name != NULL                  ? label.name
	                  : label.trouble & INTERP_UNVERIFIED ? unverified_name
	                                                      : unreadable_name;
	out->frame.owner = label.owner;
	if (native) {
		out->func_addr = label.method != NULL ? label.method->func : 0;
		return;
	}
	out->frame.path = label.path;
	if (label.code == NULL)
		return;
	out->frame.first_line = label.first_line;
	if (f->flags & VM_FRAME_FLAG_BMETHOD)
		out->frame.method = label.made;
	if (label.code->type == ISEQ_TYPE_RESCUE || label.code->type == ISEQ_TYPE_ENSURE)
		out->flags |= INTERP_SKIP_NEXT;
	resolve_line(rt, f, leaf, label.code, &out->frame);
}
