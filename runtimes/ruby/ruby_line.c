#include "runtimes/ruby/ruby_line.h"
#include "base/base.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	RANK_BITS = 7,
	BLOCK_SMALL_RANKS = 8,
	BLOCK_BITS = 16,
};

static size_t nr_immediate(uint32_t iseq_size)
{
	return (iseq_size < RUBY_SUCC_IMMEDIATE ? iseq_size + 8 : RUBY_SUCC_IMMEDIATE) /
	       RUBY_SUCC_RANKS;
}

size_t ruby_succ_table_sz(uint32_t iseq_size)
{
	size_t blocks = 0;

	if (iseq_size >= RUBY_SUCC_IMMEDIATE)
		blocks = (iseq_size - RUBY_SUCC_IMMEDIATE + RUBY_SUCC_BLOCK - 1) / RUBY_SUCC_BLOCK;
	return nr_immediate(iseq_size) * 8 + blocks * RUBY_SUCC_BLOCK_SZ;
}

static uint64_t word(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

uint32_t ruby_succ_lookup(const uint8_t *table, uint32_t iseq_size, uint32_t pos)
{
	const uint8_t *block;
	uint32_t rank, in_block, small;

	if (pos >= iseq_size)
		return 0;
	if (pos < RUBY_SUCC_IMMEDIATE)
		return word(table + (size_t)pos / RUBY_SUCC_RANKS * 8) >>
		               (pos % RUBY_SUCC_RANKS * RANK_BITS) &
		       ((1 << RANK_BITS) - 1);
	pos -= RUBY_SUCC_IMMEDIATE;
	block = table + nr_immediate(iseq_size) * 8 +
	        (size_t)(pos / RUBY_SUCC_BLOCK) * RUBY_SUCC_BLOCK_SZ;
	in_block = pos % RUBY_SUCC_BLOCK;
	small = in_block / 64;
	memcpy(&rank, block, sizeof(rank));
	if (small > 0)
		rank += word(block + BLOCK_SMALL_RANKS) >> ((small - 1) * 9) & 0x1ff;
	return rank + (uint32_t)__builtin_popcountll(
	                      word(block + BLOCK_BITS + (size_t)small * 8) << (63 - in_block % 64));
}

static uint32_t line_of(const uint8_t *entries, size_t entry_sz, size_t i)
{
	int32_t line;

	memcpy(&line, entries + i * entry_sz, sizeof(line));
	return line > 0 ? (uint32_t)line : 0;
}

int ruby_lines_build(struct ruby_lines *out, const uint8_t *entries, size_t nr_entries,
        size_t entry_sz, const uint8_t *table, uint32_t iseq_size)
{
	struct ruby_lines lines = {0};
	uint32_t last = 0;

	if (nr_entries > iseq_size || (nr_entries > 1 && table == NULL))
		return -EINVAL;
	lines.runs = calloc(MAX(nr_entries, (size_t)1), sizeof(*lines.runs));
	if (lines.runs == NULL)
		return -ENOMEM;
	if (nr_entries == 1)
		lines.runs[lines.nr++] = (struct ruby_line_run){0, line_of(entries, entry_sz, 0)};
	for (uint32_t pos = 0; nr_entries > 1 && pos < iseq_size; pos++) {
		uint32_t rank = ruby_succ_lookup(table, iseq_size, pos), line;

		if (rank < last || rank > nr_entries) {
			free(lines.runs);
			return -EINVAL;
		}
		if (rank == last)
			continue;
		last = rank;
		line = line_of(entries, entry_sz, rank - 1);
		if (lines.nr == 0 || lines.runs[lines.nr - 1].line != line)
			lines.runs[lines.nr++] = (struct ruby_line_run){pos, line};
	}
	*out = lines;
	return 0;
}

void ruby_lines_release(struct ruby_lines *lines)
{
	free(lines->runs);
	*lines = (struct ruby_lines){0};
}

uint32_t ruby_lines_find(const struct ruby_lines *lines, uint32_t pos)
{
	size_t lo = 0, hi = lines->nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (lines->runs[mid].pos <= pos)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > 0 ? lines->runs[lo - 1].line : 0;
}
