/* What tells two objects at one address apart, from the bytes that were read of them. */
#include "runtimes/ruby/ruby_cache.h"

enum {
	IMEMO_BITS = RUBY_T_MASK | 15 << 12,
};

size_t ruby_body_sz(const struct runtime *rt)
{
	return MIN(rt->l->iseq.sz, RUBY_MAX_BODY_SZ);
}

size_t ruby_def_sz(const struct runtime *rt)
{
	return MIN(rt->l->method.sz, RUBY_DEF_WORDS * sizeof(uint64_t));
}

uint64_t ruby_iseq_body(const struct runtime *rt, const uint64_t head[RUBY_HEAD_WORDS])
{
	uint64_t addr = head[rt->l->iseq.body / 8];

	return ruby_imemo_type(head[0]) == imemo_iseq && ruby_is_heap(addr) ? addr : 0;
}

uint32_t ruby_body_first_line(const struct runtime *rt, const struct ruby_body *b)
{
	uint32_t line;

	if (rt->l->iseq.first_lineno_is_value) {
		int64_t fixnum = (int64_t)ruby_word(b->bytes, rt->l->iseq.first_lineno);

		return fixnum > 0 && (fixnum & 1) ? (uint32_t)(fixnum >> 1) : 0;
	}
	line = ruby_half(b->bytes, rt->l->iseq.first_lineno);
	return line <= INT32_MAX ? line : 0;
}

/*
 * Addresses alone do not tell two iseqs apart: a program that defines and frees methods in a loop,
 * and compacts its heap, gets the same ones again.
 */
void ruby_body_identity(const struct runtime *rt, const struct ruby_body *b,
        const uint64_t label[RUBY_HEAD_WORDS], uint64_t id[NR_IDENTITY])
{
	const struct ruby_layout *l = rt->l;

	id[0] = b->addr;
	id[1] = ruby_word(b->bytes, l->iseq.iseq_encoded);
	/* The rest of the slot, with the characters of a short string. The first word holds marks
	 * of the collector: flags, of which only the embedded length is of interest. */
	id[2] = label == NULL ? 0
	                      : hash_bytes(label + 2, (RUBY_HEAD_WORDS - 2) * sizeof(*label),
	                                ruby_word(b->bytes, l->iseq.label));
	id[3] = ruby_word(b->bytes, l->iseq.pathobj);
	id[4] = ruby_body_first_line(rt, b);
	id[5] = (uint64_t)ruby_half(b->bytes, l->iseq.iseq_size) << 32 |
	        ruby_half(b->bytes, l->iseq.type);
}

void ruby_method_identity(const struct runtime *rt, uint64_t me,
        const uint64_t entry[RUBY_HEAD_WORDS], const uint64_t def[RUBY_DEF_WORDS],
        uint64_t id[NR_IDENTITY])
{
	const struct ruby_layout *l = rt->l;

	id[0] = me;
	id[1] = entry[l->method.def / 8];
	id[2] = entry[l->method.owner / 8];
	id[3] = entry[l->method.called_id / 8];
	id[4] = def[l->method.method_serial / 8];
	id[5] = def[l->method.original_id / 8] ^ (def[0] & 15);
}

uint64_t ruby_cref_identity(const uint64_t entry[RUBY_HEAD_WORDS])
{
	return entry[0] & IMEMO_BITS;
}
