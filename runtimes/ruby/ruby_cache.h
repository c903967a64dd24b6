/*
 * What is remembered of a process's code and methods, and what tells two objects at one address
 * apart. ruby_resolve.c makes the entries, ruby_reread.c prolongs them.
 */
#ifndef RUBY_CACHE_H
#define RUBY_CACHE_H

#include "base/hash.h"
#include "runtimes/ruby/ruby_line.h"
#include "runtimes/ruby/ruby_runtime.h"

enum {
	NR_IDENTITY = 6,
	RUBY_MAX_BODY_SZ = 512, /* no release's rb_iseq_constant_body is larger */
	RUBY_HEAD_WORDS = 5,    /* an object's slot, of which no words but these are read */
	RUBY_DEF_WORDS = 8,     /* of rb_method_definition_struct */
};

/* What is known of the object at one address. */
struct object {
	uint64_t gen_lo, gen_hi; /* orders of generations: the object was the same in all of them */
	uint64_t identity[NR_IDENTITY];
	uint32_t version; /* changes when the address holds another object */
	uint32_t reread;  /* the last ruby_reread that looked at it */
	bool valid;       /* false: it could not be read */
	bool old;         /* a collection has found it alive */
};

struct code {
	struct object object;
	uint64_t label; /* address of the label string whose fingerprint is in identity */
	uint64_t encoded;
	uint32_t size, first_line;
	const char *path;
	const char *prefix;     /* "", "block in ", "block (2 levels) in " */
	const char *base_label; /* of the method, class body or file that it belongs to */
	bool base_is_method, skip_next;
	uint64_t func; /* an ifunc's */
	struct ruby_lines lines;
};

struct method {
	struct object object;
	uint64_t entry; /* address of the method entry: not the object's own when that is an svar */
	bool none;      /* a cref: the frame has no method entry */
	const char *owner; /* permanent class path, NULL: none */
	char separator;    /* '#', or '.' when it is owner's singleton's */
	const char *name;  /* original name; NULL: unknown */
	uint64_t func;     /* of a C function, 0: it is none */
};

struct ruby_cache {
	struct hash64 entries; /* address of a method entry to what was read there last, a method */
	struct hash64 codes, methods, labels, ids,
	        strings; /* addresses of the structures as values */
	/* ruby_reread.c */
	struct ruby_batch *batch; /* owned; room for what one call reads */
	uint32_t nr_rereads;
};

/* gc_gen is count << 2 | mode, mode 0 none, 1 mark, 2 sweep; a collection goes 1, 2, 0. So that
 * numbers ascend: */
static inline uint64_t ruby_gen_order(uint64_t gen)
{
	return (gen & ~3ULL) | ((gen & 3) == 0 ? 3 : gen & 3);
}

/* Where gc_gen is read: pieces of one word each into words[2]; *nr is how many. */
size_t ruby_gen_pieces(const struct runtime *rt, uint64_t words[2], struct target_piece out[2]);
uint64_t ruby_gen_of(const struct runtime *rt, const uint64_t words[2]);

bool ruby_object_is_old(const struct runtime *rt, uint64_t flags);
/* Is the object known to be the one that a sample of this generation saw, without a look at it? */
static inline bool ruby_object_covers(const struct object *o, uint64_t order)
{
	return o->valid && order >= o->gen_lo && order <= o->gen_hi;
}

static inline bool ruby_is_same(const uint64_t a[NR_IDENTITY], const uint64_t b[NR_IDENTITY])
{
	for (size_t i = 0; i < NR_IDENTITY; i++)
		if (a[i] != b[i])
			return false;
	return true;
}

/* ---- identities ----------------------------------------------------------------------------- */

struct ruby_body {
	uint8_t bytes[RUBY_MAX_BODY_SZ];
	uint64_t addr;
	bool old; /* the iseq that it belongs to */
};

static inline uint64_t ruby_word(const uint8_t *p, size_t off)
{
	uint64_t v;

	__builtin_memcpy(&v, p + off, sizeof(v));
	return v;
}

static inline uint32_t ruby_half(const uint8_t *p, size_t off)
{
	uint32_t v;

	__builtin_memcpy(&v, p + off, sizeof(v));
	return v;
}

/* Bytes to read of a body, and of a method's definition. */
size_t ruby_body_sz(const struct runtime *rt);
size_t ruby_def_sz(const struct runtime *rt);
/* The address of an iseq's body; 0 when head is no iseq's. */
uint64_t ruby_iseq_body(const struct runtime *rt, const uint64_t head[RUBY_HEAD_WORDS]);
uint32_t ruby_body_first_line(const struct runtime *rt, const struct ruby_body *b);
/* label: the slot of the string that is the body's label; NULL: it cannot be read. */
void ruby_body_identity(const struct runtime *rt, const struct ruby_body *b,
        const uint64_t label[RUBY_HEAD_WORDS], uint64_t id[NR_IDENTITY]);
/* Of the method entry at `me`, with its definition. */
void ruby_method_identity(const struct runtime *rt, uint64_t me,
        const uint64_t entry[RUBY_HEAD_WORDS], const uint64_t def[RUBY_DEF_WORDS],
        uint64_t id[NR_IDENTITY]);
uint64_t ruby_cref_identity(const uint64_t entry[RUBY_HEAD_WORDS]);

#endif
