/*
 * Which line of the source an instruction of an iseq comes from. Pure: bytes in, table out.
 *
 * CRuby keeps, for each run of instructions, an entry with its line, and the positions where the
 * runs begin in a "succinct index" (iseq.c, succ_index_table_create, succ_index_lookup; the same
 * from 2.7 to 4.0).
 */
#ifndef RUBY_LINE_H
#define RUBY_LINE_H

#include <stddef.h>
#include <stdint.h>

/* Of the succinct index: positions whose rank stands in the first words, so many in each; then
 * blocks of so many positions and bytes. */
enum {
	RUBY_SUCC_IMMEDIATE = 54,
	RUBY_SUCC_RANKS = 9,
	RUBY_SUCC_BLOCK = 512,
	RUBY_SUCC_BLOCK_SZ = 80, /* {u32 rank, u64 small_block_ranks, u64 bits[8]} */
};

struct ruby_line_run {
	uint32_t pos; /* first position (8-byte words from iseq_encoded) */
	uint32_t line;
};

struct ruby_lines {
	struct ruby_line_run *runs; /* owned; ascending; adjacent ones with the same line are one */
	size_t nr;
};

/* Bytes of the succinct index of an iseq with iseq_size words; nothing may be read behind them. */
size_t ruby_succ_table_sz(uint32_t iseq_size);
/* How many entries begin at or before pos; table has ruby_succ_table_sz(iseq_size) bytes; pos <
 * iseq_size. */
uint32_t ruby_succ_lookup(const uint8_t *table, uint32_t iseq_size, uint32_t pos);

/*
 * entries: nr_entries of entry_sz bytes with a u32 line at 0. table may be NULL when nr_entries is
 * 0 or 1. 0, -EINVAL (the table contradicts itself) or -ENOMEM.
 */
int ruby_lines_build(struct ruby_lines *out, const uint8_t *entries, size_t nr_entries,
        size_t entry_sz, const uint8_t *table, uint32_t iseq_size);
void ruby_lines_release(struct ruby_lines *lines);
/* 0: unknown. */
uint32_t ruby_lines_find(const struct ruby_lines *lines, uint32_t pos);

#endif
