/*
 * What is known of a process's code, methods and classes: what the kernel side captured of them
 * before the sample that has them, or, where it could not, what is read of them later.
 */
#ifndef RUBY_NAMES_H
#define RUBY_NAMES_H

#include "base/hash.h"
#include "runtimes/ruby/ruby_line.h"
#include "runtimes/ruby/ruby_runtime.h"

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
	RUBY_METHOD_TYPE_MASK = 15,

	RUBY_HEAD_WORDS = 5, /* an object's slot, of which no words but these are read */
	RUBY_DEF_WORDS = 8,  /* of rb_method_definition_struct */
	RUBY_BODY_WORDS = 32,
	RUBY_MAX_ALIASES = 8,
};
/* Iseqs whose label stands in themselves; that of others is made of their parents'. */
#define RUBY_ISEQ_OWN_LABEL                                                                        \
	(1ULL << ISEQ_TYPE_TOP | 1ULL << ISEQ_TYPE_METHOD | 1ULL << ISEQ_TYPE_CLASS |              \
	        1ULL << ISEQ_TYPE_MAIN)

/* What all that is remembered begins with. */
struct object {
	uint32_t version; /* changes when the address holds another object, or it is named otherwise
	                   */
	bool known;       /* false: what was there could not be read */
	bool verified;    /* false: and it may have been another's */
	bool later; /* it was read from the process, for samples of this gc_gen and no others */
	uint32_t old_stamp; /* when it was captured, if it was old; 0: it was not */
	uint64_t gc_gen;
	uint64_t time_ns; /* of the sample with which it was captured */
};

/* What is known of one address; strings live as long as the cache. */
struct code {
	struct object object;
	uint32_t type; /* ISEQ_TYPE_* */
	uint32_t size, first_line;
	uint64_t encoded, parent, local, path;
	const char *label;
	uint64_t func; /* an ifunc's; all else is 0 then */
	uint64_t lines_entries, lines_table;
	uint32_t nr_entries;
	struct ruby_lines lines;
};

struct method {
	struct object object;
	bool none; /* a cref: the frame has no method entry */
	uint64_t owner, id;
	uint64_t func; /* of a C function, 0: it is none */
};

struct class
{
	struct object object;
	const char *path; /* permanent class path, NULL: none */
	bool singleton;   /* path is that of the object whose singleton it is */
};

/* An ID, or the pathobj of iseqs. */
struct text {
	struct object object;
	const char *text;
};

struct ruby_cache {
	/* By kind (RUBY_CAPTURE_*): what names the object -> struct code, method, class, text. */
	struct hash64 captured[NR_RUBY_CAPTURES];
	struct hash64 later[NR_RUBY_CAPTURES]; /* read from the process for one sample */
	struct hash64 labels, strings;         /* addresses of the structures as values */
};

/* One copy of a string, for as long as the cache lives. NULL: no memory. */
const char *ruby_intern(struct ruby_cache *c, const char *s);

/*
 * The object of a kind, for a sample of this moment: what was captured before it; or, if nothing
 * was, or it was not sent (`unsent`: what was captured may be another's), what stands there now, if
 * that is certain to be the same. *trouble is set to INTERP_UNVERIFIED or INTERP_UNREADABLE where
 * the result is NULL.
 */
const void *ruby_object(struct runtime *rt, unsigned int kind, uint64_t object, bool unsent,
        const struct interp_moment *when, uint32_t *trouble);

/* Bytes to read of a body, of a method's definition. */
static inline uint32_t ruby_body_sz(const struct ruby_layout *l)
{
	return MAX(l->iseq.parent_iseq, l->iseq.local_iseq) + 8U;
}

static inline uint32_t ruby_def_sz(const struct ruby_layout *l)
{
	return MIN(l->method.sz, (uint32_t)RUBY_DEF_WORDS * 8);
}

/* gc.h, RVALUE_OLD_P: until 3.2 the age is two bits in the flags, since 3.3 old is one bit. */
static inline uint64_t ruby_old_mask(const struct ruby_layout *l)
{
	return l->since >= RUBY_VERSION(3, 3, 0) ? 1 << 5 : 1 << 5 | 1 << 6;
}

/*
 * ruby_gc.c. Of an object that stood on a stack, or was captured, at `gen` (as in struct
 * rprof_sample):
 * is it still there at now_gen, whatever was freed in between?
 */
bool ruby_gc_covers(uint64_t gen, uint64_t now_gen);
/* Is what is read now what was there at gen? old_stamp: that was good then, of an old object; else
 * 0. */
bool ruby_gc_is_same(const struct runtime *rt, uint64_t gen, uint32_t old_stamp);
/* Is what was captured at capture_gen (old_stamp: as above) what a sample saw at its address? */
bool ruby_gc_agree(const struct interp_moment *when, uint64_t capture_gen, uint32_t old_stamp);

#endif
