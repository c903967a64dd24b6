/*
 * The line table against tables made here from lists of positions, by the rule of CRuby's iseq.c
 * (succ_index_table_create), and the layout table's rows against each other.
 */
#include "runtimes/ruby/ruby_layout.h"
#include "runtimes/ruby/ruby_line.h"
#include "tests/unit/tap.h"
#include <errno.h>
#include <stdlib.h>

enum { MAX_SIZE = 4096, ENTRY_SZ = 12 };

struct made {
	uint32_t size;              /* of the iseq */
	uint8_t begins[MAX_SIZE];   /* an entry begins here */
	uint32_t line_at[MAX_SIZE]; /* the truth */
	uint8_t entries[MAX_SIZE * ENTRY_SZ];
	size_t nr;
	uint8_t *table; /* exactly as large as it may be read: the sanitizer watches its end */
};

static void put64(uint8_t *at, uint64_t v)
{
	memcpy(at, &v, sizeof(v));
}

/* The number of entries that begin at or before pos. */
static uint32_t rank(const struct made *m, uint32_t pos)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i <= pos && i < m->size; i++)
		n += m->begins[i];
	return n;
}

static void make_table(struct made *m)
{
	uint32_t imm = (m->size < 54 ? m->size + 8 : 54) / 9;
	uint32_t blocks = m->size < 54 ? 0 : (m->size - 54 + 511) / 512;
	size_t sz = imm * 8 + blocks * 80;

	CHECK_EQ(ruby_succ_table_sz(m->size), sz);
	m->table = calloc(1, sz);
	for (uint32_t w = 0; w < imm; w++) {
		uint64_t v = 0;

		for (uint32_t i = 0; i < 9; i++)
			v |= (uint64_t)rank(m, w * 9 + i) << (7 * i);
		put64(m->table + w * 8, v);
	}
	for (uint32_t b = 0; b < blocks; b++) {
		uint8_t *block = m->table + imm * 8 + b * 80;
		uint32_t base = 54 + b * 512, before = rank(m, base - 1);
		uint64_t small = 0;

		memcpy(block, &before, sizeof(before));
		for (uint32_t j = 0; j < 8; j++) {
			uint64_t bits = 0;

			if (j > 0)
				small |= (uint64_t)(rank(m, base + j * 64 - 1) - before)
				         << ((j - 1) * 9);
			for (uint32_t i = 0; i < 64; i++)
				if (base + j * 64 + i < m->size && m->begins[base + j * 64 + i])
					bits |= 1ULL << i;
			put64(block + 16 + j * 8, bits);
		}
		put64(block + 8, small);
	}
}

static uint64_t seed = 88172645463325252ULL;

static uint32_t rnd(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 33) % n;
}

/* dense: one position in so many begins an entry. The first 54 positions hold at most 127. */
static void make(struct made *m, uint32_t size, uint32_t dense)
{
	uint32_t line = 0;

	memset(m, 0, sizeof(*m));
	m->size = size;
	for (uint32_t i = 0; i < size; i++) {
		m->begins[i] = i == 0 || rnd(dense) == 0;
		if (m->begins[i]) {
			line = 1 + rnd(1000);
			memcpy(m->entries + m->nr * ENTRY_SZ, &line, sizeof(line));
			memset(m->entries + m->nr * ENTRY_SZ + 4, 0xff, 8);
			m->nr++;
		}
		m->line_at[i] = line;
	}
	make_table(m);
}

static void check_all_positions(uint32_t size, uint32_t dense)
{
	static struct made m;
	struct ruby_lines lines;

	make(&m, size, dense);
	CHECK_EQ(ruby_lines_build(&lines, m.entries, m.nr, ENTRY_SZ, m.table, size), 0);
	for (uint32_t pos = 0; pos < size; pos++) {
		if (ruby_succ_lookup(m.table, size, pos) != rank(&m, pos) ||
		        ruby_lines_find(&lines, pos) != m.line_at[pos]) {
			TAP_FAIL("size %u, position %u: line %u, not %u", size, pos,
			        ruby_lines_find(&lines, pos), m.line_at[pos]);
			break;
		}
	}
	ruby_lines_release(&lines);
	free(m.table);
}

TEST(each_position_of_a_short_iseq_has_its_line)
{
	for (uint32_t size = 2; size < 130; size++)
		for (uint32_t dense = 1; dense < 6; dense++)
			check_all_positions(size, dense);
}

TEST(each_position_across_the_edges_of_blocks_has_its_line)
{
	static const uint32_t sizes[] = {54, 55, 117, 118, 54 + 511, 54 + 512, 54 + 513, 54 + 1024,
	        54 + 512 * 3, 54 + 512 * 3 + 1, 54 + 512 * 3 + 65, 4000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (uint32_t dense = 1; dense < 40; dense += 7)
			check_all_positions(sizes[i], dense);
}

TEST(one_entry_holds_everywhere_and_none_nowhere)
{
	static const uint8_t entry[ENTRY_SZ] = {7};
	struct ruby_lines lines;

	REQUIRE(ruby_lines_build(&lines, entry, 1, ENTRY_SZ, NULL, 100) == 0);
	CHECK_EQ(ruby_lines_find(&lines, 0), 7);
	CHECK_EQ(ruby_lines_find(&lines, 99), 7);
	ruby_lines_release(&lines);
	REQUIRE(ruby_lines_build(&lines, entry, 0, ENTRY_SZ, NULL, 100) == 0);
	CHECK_EQ(ruby_lines_find(&lines, 5), 0);
	ruby_lines_release(&lines);
}

TEST(a_table_of_any_bytes_gives_no_line_outside_of_the_entries)
{
	static uint8_t entries[64 * ENTRY_SZ];

	for (int round = 0; round < 2000; round++) {
		uint32_t size = 65 + rnd(1500);
		size_t sz = ruby_succ_table_sz(size);
		uint8_t *table = malloc(sz);
		struct ruby_lines lines;

		for (size_t i = 0; i < sz; i++)
			table[i] = (uint8_t)rnd(round % 2 ? 256 : 3);
		if (ruby_lines_build(&lines, entries, 64, ENTRY_SZ, table, size) == 0) {
			CHECK(lines.nr <= 64);
			ruby_lines_release(&lines);
		}
		free(table);
	}
}

TEST(a_table_that_goes_down_is_refused)
{
	uint8_t table[48] = {0}, entries[4 * ENTRY_SZ] = {0};
	struct ruby_lines lines;

	put64(table, 2 | 1 << 7);
	CHECK_EQ(ruby_lines_build(&lines, entries, 4, ENTRY_SZ, table, 20), -EINVAL);
}

TEST(rows_of_the_layout_table_ascend_and_leave_no_hole_in_a_series)
{
	const struct ruby_layout *row, *last = NULL;

	for (unsigned int i = 0; (row = ruby_layout_row(i)) != NULL; i++, last = row) {
		CHECK(row->since < row->until);
		if (last != NULL)
			CHECK_EQ(row->since, last->until);
		CHECK(ruby_layout_find(row->since) == row);
		CHECK(ruby_layout_find(row->until - 1) == row);
	}
	CHECK(ruby_layout_find(RUBY_VERSION(2, 6, 9)) == NULL);
	CHECK(ruby_layout_find(RUBY_VERSION(4, 1, 0)) == NULL);
}

/* As README.md says it. */
TEST(the_supported_releases_are_those_that_users_are_told)
{
	char text[64], readme[128], few[8];

	ruby_layout_supported(text, sizeof(text));
	CHECK_STR(text, "3.1 and 3.3");
	snprintf(readme, sizeof(readme), "grep -qF '**Ruby %s only**' README.md", text);
	CHECK_EQ(system(readme), 0);
	ruby_layout_supported(few, sizeof(few));
	CHECK_STR(few, "3.1 and");
}

TEST(offsets_of_each_row_are_words_inside_of_their_structures)
{
	const struct ruby_layout *l;

	for (unsigned int i = 0; (l = ruby_layout_row(i)) != NULL; i++) {
		CHECK(l->cfp.sz == 56 || l->cfp.sz == 64);
		CHECK(l->cfp.ep < l->cfp.sz && l->cfp.jit_return < l->cfp.sz);
		CHECK(l->ec.machine_stack_maxsize + 8 <= 256 &&
		        l->ec.machine_stack_start > l->ec.thread_ptr);
		CHECK(l->iseq.local_iseq == l->iseq.parent_iseq + 8 &&
		        l->iseq.local_iseq < l->iseq.sz);
		CHECK(l->iseq.succ_index_table == l->iseq.insns_size + 8);
		CHECK(l->iseq.sz <= 512 && l->iseq.label > l->iseq.pathobj);
		CHECK(l->iseq.entry_sz == (l->since < RUBY_VERSION(3, 1, 0) ? 8 : 12));
		CHECK(l->method.owner == 32 && l->method.sz <= 64);
		CHECK((l->thread.nt != 0) == (l->since >= RUBY_VERSION(3, 2, 0)));
		CHECK((l->thread.nt != 0) != (l->thread.thread_id != 0));
		CHECK(l->thread.ec != 0 && l->vm.main_thread != 0 && l->vm.objspace != 0);
		CHECK(!l->supported || (l->last_op_id != 0 && l->objspace.gc_count != 0 &&
		                               l->ractor.running != 0));
		CHECK(l->class.style != RUBY_CLASS_EXT || l->class.permanent_byte != 0);
	}
}

TEST(only_whole_version_numbers_are_versions)
{
	CHECK_EQ(ruby_version_parse("3.1.2"), RUBY_VERSION(3, 1, 2));
	CHECK_EQ(ruby_version_parse("3.3.11"), RUBY_VERSION(3, 3, 11));
	CHECK_EQ(ruby_version_parse("3.3"), 0);
	CHECK_EQ(ruby_version_parse(""), 0);
	CHECK_EQ(ruby_version_parse("3.3.8-dev"), 0);
	CHECK_EQ(ruby_version_parse("3.3.256"), 0);
	CHECK_EQ(ruby_version_parse("3..8"), 0);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
