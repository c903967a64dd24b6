#include "runtimes/ruby/ruby_object.h"
#include "base/base.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	OBJECT_SZ = 40, /* the slot of the objects that are read here is never smaller */
	MAX_CLASS_VARS = 8192,
};

/* Where the object is, if a collection is just moving it. */
static int object_find(const struct ruby_objects *o, uint64_t *value, uint64_t *flags)
{
	uint64_t head[RUBY_MOVED_TO + 1];
	int rc = -EINVAL;

	for (int i = 0; i < 2 && ruby_is_heap(*value); i++) {
		rc = target_read(o->target, *value, head, sizeof(head));
		if (rc != 0)
			return rc;
		*flags = head[0];
		if (ruby_type(head[0]) != RUBY_T_MOVED)
			return 0;
		*value = head[RUBY_MOVED_TO];
		rc = -EINVAL;
	}
	return rc;
}

static int object_read(
        const struct ruby_objects *o, uint64_t *value, unsigned int type, uint8_t *out)
{
	uint64_t flags;
	int rc = object_find(o, value, &flags);

	if (rc == 0)
		rc = target_read(o->target, *value, out, OBJECT_SZ);
	if (rc != 0)
		return rc;
	return ruby_type(ruby_word(out, 0)) == type ? 0 : -EINVAL;
}

int ruby_string_read(const struct ruby_objects *o, uint64_t str, char *out)
{
	uint64_t flags, len, addr;
	uint8_t s[OBJECT_SZ];
	char text[RUBY_MAX_NAME];
	int rc;

	rc = object_read(o, &str, RUBY_T_STRING, s);
	if (rc != 0)
		return rc;
	flags = ruby_word(s, 0);
	if (flags & RSTRING_NOEMBED) {
		len = ruby_word(s, o->l->string.len);
		addr = ruby_word(s, o->l->string.ptr);
	} else {
		len = o->l->string.embed_len_in_flags
		              ? flags >> RSTRING_EMBED_LEN_SHIFT & RSTRING_EMBED_LEN_MASK
		              : ruby_word(s, o->l->string.len);
		addr = str + o->l->string.embed;
	}
	len = MIN(len, (uint64_t)RUBY_MAX_NAME - 1);
	rc = len > 0 ? target_read(o->target, addr, text, len) : 0;
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < len; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	text[len] = '\0';
	memcpy(out, text, len + 1);
	return 0;
}

int ruby_array_read(const struct ruby_objects *o, uint64_t ary, uint64_t i, uint64_t *out)
{
	uint64_t flags, len, addr;
	uint8_t a[OBJECT_SZ];
	int rc;

	rc = object_read(o, &ary, RUBY_T_ARRAY, a);
	if (rc != 0)
		return rc;
	flags = ruby_word(a, 0);
	if (flags & RARRAY_EMBED_FLAG) {
		len = flags >> RARRAY_EMBED_LEN_SHIFT & o->l->array.embed_len_mask;
		addr = ary + o->l->array.embed;
	} else {
		len = ruby_word(a, o->l->array.len);
		addr = ruby_word(a, o->l->array.ptr);
	}
	if (i >= len)
		return -EINVAL;
	return target_read_u64(o->target, addr + i * 8, out);
}

int ruby_id_read(const struct ruby_objects *o, uint64_t id, char *out)
{
	uint64_t ids, entries, str, serial = id > o->last_op_id ? id >> RUBY_ID_SCOPE_SHIFT : id;
	int rc;

	if (serial == 0 || o->ids_addr == 0)
		return -EINVAL;
	rc = target_read_u64(o->target, o->ids_addr, &ids);
	if (rc == 0)
		rc = ruby_array_read(o, ids, serial / RUBY_ID_ENTRY_UNIT, &entries);
	if (rc == 0)
		rc = ruby_array_read(o, entries, serial % RUBY_ID_ENTRY_UNIT * 2, &str);
	return rc == 0 ? ruby_string_read(o, str, out) : rc;
}

/*
 * Goes over the instance variables of a class (an entry of a st_table is {hash, key, record}, a
 * deleted one has hash ~0). visit returns true to stop. 0: stopped, -ENOENT: not.
 */
static int class_vars_visit(const struct ruby_objects *o, uint64_t class,
        bool (*visit)(const struct ruby_objects *o, uint64_t key, uint64_t value, void *ctx),
        void *ctx)
{
	uint64_t ext, table, st[ST_TABLE_SZ / 8], start, bound, nr, *entries;
	int rc;

	rc = target_read_u64(o->target, class + o->l->class.ptr, &ext);
	if (rc == 0 && ext == 0)
		return -ENOENT;
	if (rc == 0)
		rc = target_read_u64(o->target, ext + o->l->class.iv_tbl, &table);
	if (rc == 0 && table == 0)
		return -ENOENT;
	if (rc == 0)
		rc = target_read(o->target, table, st, sizeof(st));
	if (rc != 0)
		return rc;
	start = st[ST_START / 8];
	bound = st[ST_BOUND / 8];
	if (start > bound || bound - start > MAX_CLASS_VARS)
		return -EINVAL;
	nr = bound - start;
	if (nr == 0)
		return -ENOENT;
	entries = malloc(nr * ST_ENTRY_SZ);
	if (entries == NULL)
		return -ENOMEM;
	rc = target_read(
	        o->target, st[ST_ENTRIES / 8] + start * ST_ENTRY_SZ, entries, nr * ST_ENTRY_SZ);
	if (rc == 0) {
		rc = -ENOENT;
		for (uint64_t i = 0; i < nr && rc != 0; i++)
			if (entries[i * 3] != ~0ULL &&
			        visit(o, entries[i * 3 + 1], entries[i * 3 + 2], ctx))
				rc = 0;
	}
	free(entries);
	return rc;
}

struct var {
	uint64_t key, value;
};

static bool by_key(const struct ruby_objects *o, uint64_t key, uint64_t value, void *ctx)
{
	struct var *v = ctx;

	v->value = value;
	return key == v->key;
}

static bool by_value(const struct ruby_objects *o, uint64_t key, uint64_t value, void *ctx)
{
	struct var *v = ctx;

	v->key = key;
	return value == v->value;
}

static bool by_name(const struct ruby_objects *o, uint64_t key, uint64_t value, void *ctx)
{
	char text[RUBY_MAX_NAME];
	struct var *v = ctx;

	v->key = key;
	return ruby_string_read(o, value, text) == 0 && strcmp(text, "Object") == 0 &&
	       ruby_id_read(o, key, text) == 0 && strcmp(text, "__classpath__") == 0;
}

int ruby_class_calibrate(struct ruby_objects *o, uint64_t object_class)
{
	char name[RUBY_MAX_NAME];
	uint64_t singleton;
	struct var v;
	int rc;

	rc = class_vars_visit(o, object_class, by_name, &v);
	if (rc != 0)
		return rc;
	o->classpath_id = v.key;
	rc = target_read_u64(o->target, object_class + 8, &singleton);
	v.value = object_class;
	if (rc == 0)
		rc = class_vars_visit(o, singleton, by_value, &v);
	if (rc == 0)
		rc = ruby_id_read(o, v.key, name);
	if (rc == 0 && strcmp(name, "__attached__") != 0)
		rc = -EINVAL;
	if (rc == 0)
		o->attached_id = v.key;
	return rc;
}

/* The object whose singleton class this is; 0: unknown. */
static int class_attached(const struct ruby_objects *o, uint64_t class, uint64_t *out)
{
	struct var v = {.key = o->attached_id};
	int rc;

	if (o->l->class.style == RUBY_CLASS_EXT)
		return target_read_u64(o->target, class + o->l->class.attached_object, out);
	rc = class_vars_visit(o, class, by_key, &v);
	if (rc == 0)
		*out = v.value;
	return rc;
}

/* The permanent path, or "". */
static int class_path(const struct ruby_objects *o, uint64_t class, char *out)
{
	struct var v = {.key = o->classpath_id};
	uint8_t permanent;
	int rc;

	if (o->l->class.style == RUBY_CLASS_EXT) {
		rc = target_read(o->target, class + o->l->class.permanent_byte, &permanent, 1);
		if (rc == 0)
			rc = target_read_u64(o->target, class + o->l->class.classpath, &v.value);
		if (rc != 0)
			return rc;
		if (!(permanent & 1) || !ruby_is_heap(v.value)) {
			out[0] = '\0';
			return 0;
		}
	} else {
		rc = class_vars_visit(o, class, by_key, &v);
		if (rc == -ENOENT) {
			out[0] = '\0';
			return 0;
		}
		if (rc != 0)
			return rc;
	}
	return ruby_string_read(o, v.value, out);
}

static bool is_module(uint64_t flags)
{
	return ruby_type(flags) == RUBY_T_CLASS || ruby_type(flags) == RUBY_T_MODULE;
}

int ruby_class_read(const struct ruby_objects *o, uint64_t class, struct ruby_class_name *out)
{
	uint64_t flags;
	int rc;

	rc = object_find(o, &class, &flags);
	if (rc != 0)
		return rc;
	if (!is_module(flags))
		return -EINVAL;
	out->singleton = false;
	if (ruby_type(flags) == RUBY_T_CLASS && (flags & o->l->class.fl_singleton)) {
		uint64_t attached, attached_flags;

		out->singleton = true;
		out->path[0] = '\0';
		rc = class_attached(o, class, &attached);
		if (rc != 0)
			return rc;
		/* The singleton of an object that is no class has no name of its own. */
		if (object_find(o, &attached, &attached_flags) != 0 || !is_module(attached_flags))
			return 0;
		return class_path(o, attached, out->path);
	}
	return class_path(o, class, out->path);
}
