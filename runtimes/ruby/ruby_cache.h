/*
 * What is remembered of a process's code and methods, and what tells two objects at one address
 * apart. ruby_resolve.c makes the entries, ruby_reread.c prolongs them; ruby_generation.c says when
 * an object is still the same.
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
	uint64_t first;          /* the earliest of gen_lo since it looks the same */
	uint64_t used;           /* the last sample that saw it; 0: none in the interval */
	uint64_t majors;         /* full collections until the last look; 0: not known */
	uint64_t identity[NR_IDENTITY];
	uint32_t version; /* changes when the address holds another object */
	uint32_t reread;  /* the last ruby_reread that looked at it */
	uint32_t late;    /* the last sample (ruby_reread) for which it could not be verified */
	bool valid;       /* false: it could not be read */
	bool old;         /* a collection had found it alive, at gen_hi */
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

/* ---- generations (ruby_generation.c) -------------------------------------------------------- */

/* gc_gen is count << 3 | RUBY_GEN_COLLECTING | mode. A collection counts, marks and sweeps: modes
 * 0, 1, 2, 0. So that numbers ascend, the mode that is none counts as 3. */
static inline uint64_t ruby_gen_order(uint64_t gen)
{
	return (gen >> 3) << 2 | ((gen & 3) == 0 ? 3 : gen & 3);
}

/*
 * When does this generation lie in time? A collection counts before it sets the mode, and sets the
 * mode back before it ends (gc.c, gc_start, gc_sweep_finish), so in the mode that is none it may be
 * at its beginning or at its end, and memory is freed in between. Compaction moves objects.
 */
static inline bool ruby_gen_is_unsure(uint64_t gen)
{
	return (gen & 3) == RUBY_GC_COMPACTING ||
	       (gen & (RUBY_GEN_COLLECTING | 3)) == RUBY_GEN_COLLECTING;
}

/* The order of the earliest generation that it may be. */
static inline uint64_t ruby_gen_begin(uint64_t gen)
{
	return ruby_gen_is_unsure(gen) && gen >> 3 != 0 ? ruby_gen_order(((gen >> 3) - 1) << 3)
	                                                : ruby_gen_order(gen);
}

/* What gc_gen is made of, and where it is read: pieces that are to be read in this order. Returns
 * how many. */
enum { RUBY_GEN_PIECES = 4 };
struct ruby_gen_words {
	uint64_t count, minors_majors[2], flags, count_again;
};
size_t ruby_gen_pieces(const struct runtime *rt, struct ruby_gen_words *words,
        struct target_piece out[RUBY_GEN_PIECES]);
uint64_t ruby_gen_of(const struct runtime *rt, const struct ruby_gen_words *words);

/* A moment, as far as the collector goes. */
struct ruby_now {
	uint64_t order;  /* of its generation; 0: none are known */
	uint64_t majors; /* full collections so far; 0: not known */
};
/* False: it cannot be told in this moment. */
bool ruby_now_of(
        const struct runtime *rt, const struct ruby_gen_words *words, struct ruby_now *now);
bool ruby_now_read(const struct runtime *rt, struct ruby_now *now);
/* Looks for the number of full collections (in rt->gc_minors). */
void ruby_majors_find(struct runtime *rt);

bool ruby_object_is_old(const struct runtime *rt, uint64_t flags);
/* Is what stood on a stack at generation `sample` certainly still there at `now`? Both are orders.
 */
bool ruby_gen_covers(uint64_t sample, uint64_t now);
/* Is the object known to be the one that a sample of this generation saw, without a look at it? */
bool ruby_object_covers(const struct object *o, uint64_t sample);
/* A sample of this generation saw it. */
void ruby_object_use(struct object *o, uint64_t sample);
/* The object's address was read at `now` for a sample, with this identity, and old or not. True: it
 * is still the same, and *o now says so; false: another, or one that may be another, and *o is left
 * alone. */
bool ruby_object_lives(struct object *o, const uint64_t identity[NR_IDENTITY], bool old,
        uint64_t sample, const struct ruby_now *now);
/* A new object, read at `now`, with its identity and age in *o: what is known of it begins now, or
 * with the sample that it outlived. */
void ruby_object_begin(
        struct object *o, uint32_t version, uint64_t sample, const struct ruby_now *now);
/* Notes for the kernel side whether the object is there to stay. */
void ruby_object_settle(const struct runtime *rt, uint64_t addr, const struct object *o);
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
