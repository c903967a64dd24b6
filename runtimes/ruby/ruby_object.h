/*
 * Bounded reads of a few kinds of Ruby objects in the memory of a process: strings, arrays, names
 * of IDs and of classes. An object is checked to be of its type; anything else is -EINVAL. Out
 * parameters are untouched on failure.
 */
#ifndef RUBY_OBJECT_H
#define RUBY_OBJECT_H

#include "runtimes/ruby/ruby_layout.h"
#include "runtimes/ruby/ruby_abi.h"
#include "symbolizer/target.h"
#include <string.h>

/* enum ruby_value_type, value_type.h; the same from 2.7 to 4.0. */
enum {
	RUBY_T_CLASS = 2,
	RUBY_T_MODULE = 3,
	RUBY_T_STRING = 5,
	RUBY_T_ARRAY = 7,
	RUBY_T_MOVED = 30,
};
/* gc.c, struct RMoved, 2.7 to 3.4: while a compaction is at work, at the old place of an object. */
enum {
	RUBY_MOVED_TO = 2, /* word: where it is */
	RUBY_T_MOVED_SZ = 24,
};
enum {
	RSTRING_NOEMBED = 1 << 13,
	RSTRING_EMBED_LEN_SHIFT = 14, /* of the flags, in releases that have the length there */
	RSTRING_EMBED_LEN_MASK = 0x1f,
	RARRAY_EMBED_FLAG = 1 << 13,
	RARRAY_EMBED_LEN_SHIFT = 15,
	RUBY_ID_ENTRY_UNIT =
	        512, /* symbol.c: IDs in one array of global_symbols.ids, two words each */
	RUBY_ID_SCOPE_SHIFT = 4,
};
/* Offsets in a st_table (st.c, 3.1): entries_start, entries_bound, entries. */
enum {
	ST_START = 32,
	ST_BOUND = 40,
	ST_ENTRIES = 48,
	ST_TABLE_SZ = 56,
	ST_ENTRY_SZ = 24,
};

enum { RUBY_MAX_NAME = 4096 }; /* longest string that is read, with its NUL; a longer one is cut */

struct ruby_objects {
	const struct ruby_layout *l;
	const struct target *target;
	uint64_t ids_addr; /* address of global_symbols.ids */
	uint64_t last_op_id;
	uint64_t classpath_id,
	        attached_id; /* IDs of __classpath__ and __attached__ (RUBY_CLASS_IV_TBL) */
};

/* Could this VALUE be the address of an object? */
static inline bool ruby_is_heap(uint64_t value)
{
	return value >= 0x10000 && value < 1ULL << 47 && (value & 7) == 0;
}

static inline unsigned int ruby_type(uint64_t flags)
{
	return flags & RUBY_T_MASK;
}

static inline int ruby_imemo_type(uint64_t flags)
{
	return ruby_type(flags) == RUBY_T_IMEMO ? (int)(flags >> RUBY_IMEMO_SHIFT & 15) : -1;
}

/* What stands at an offset of memory that was read. */
static inline uint64_t ruby_word(const uint8_t *p, size_t off)
{
	uint64_t v;

	memcpy(&v, p + off, sizeof(v));
	return v;
}

static inline uint32_t ruby_half(const uint8_t *p, size_t off)
{
	uint32_t v;

	memcpy(&v, p + off, sizeof(v));
	return v;
}

/* n bytes and a NUL at most; out has room for RUBY_MAX_NAME. 0 or -errno. */
int ruby_string_read(const struct ruby_objects *o, uint64_t str, char *out);
/* Element i of an array. */
int ruby_array_read(const struct ruby_objects *o, uint64_t ary, uint64_t i, uint64_t *out);
/* The name of an ID. */
int ruby_id_read(const struct ruby_objects *o, uint64_t id, char *out);

struct ruby_class_name {
	char path[RUBY_MAX_NAME]; /* permanent class path; "" when it has none */
	bool singleton;           /* path is that of the class or module whose singleton this is */
};

/* -EINVAL: neither class nor module. */
int ruby_class_read(const struct ruby_objects *o, uint64_t class, struct ruby_class_name *out);

/* RUBY_CLASS_IV_TBL: finds the IDs of the hidden variables from rb_cObject's value. 0 or -errno. */
int ruby_class_calibrate(struct ruby_objects *o, uint64_t object_class);

#endif
