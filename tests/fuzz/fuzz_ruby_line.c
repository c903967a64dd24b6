/* An iseq's table of lines and its succinct index: any bytes make a table that is in order, or
 * none. */
#include "tests/fuzz/fuzz.h"

#include "runtimes/ruby/ruby_line.h"

enum { MAX_SIZE = 1 << 14, MAX_ENTRIES = 1 << 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	uint32_t iseq_size = feed_u32(&f) % MAX_SIZE;
	size_t nr = feed_u16(&f) % MAX_ENTRIES, entry_sz = feed_u8(&f) & 1 ? 8 : 12, got;
	size_t table_sz = ruby_succ_table_sz(iseq_size);
	uint8_t *entries = calloc(nr, entry_sz), *table = calloc(1, table_sz), *bytes;
	struct ruby_lines lines = {0};

	/* What is not in the input is zero, but of its full size. */
	bytes = feed_bytes(&f, table_sz, &got);
	memcpy(table, bytes, got);
	free(bytes);
	bytes = feed_bytes(&f, nr * entry_sz, &got);
	memcpy(entries, bytes, got);
	free(bytes);
	if (ruby_lines_build(&lines, entries, nr, entry_sz, table, iseq_size) == 0) {
		MUST(lines.nr <= nr);
		for (size_t i = 0; i < lines.nr; i++) {
			MUST(lines.runs[i].pos <= iseq_size && lines.runs[i].line <= INT32_MAX);
			MUST(i == 0 || lines.runs[i].pos > lines.runs[i - 1].pos);
			MUST(i == 0 || lines.runs[i].line != lines.runs[i - 1].line);
			MUST(ruby_lines_find(&lines, lines.runs[i].pos) == lines.runs[i].line);
		}
		for (uint32_t pos = 0; nr > 1 && pos < iseq_size; pos++) {
			uint32_t rank = ruby_succ_lookup(table, iseq_size, pos), line = 0;

			MUST(rank <= nr);
			if (rank > 0)
				memcpy(&line, entries + (rank - 1) * entry_sz, sizeof(line));
			MUST(ruby_lines_find(&lines, pos) == (line > INT32_MAX ? 0 : line));
		}
		ruby_lines_release(&lines);
	}
	free(entries);
	free(table);
	return 0;
}
