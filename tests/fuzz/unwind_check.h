/* What symbolizer/unwind_table.h promises of any table, whatever it was made of. */
#ifndef TESTS_FUZZ_UNWIND_CHECK_H
#define TESTS_FUZZ_UNWIND_CHECK_H

#include "tests/fuzz/fuzz.h"

#include "symbolizer/unwind_table.h"

static inline void unwind_rule_check(const struct unwind_rule *rule)
{
	MUST(rule->cfa_kind <= CFA_SP_DEREF && rule->fp_kind <= FP_UNDEFINED);
	MUST(rule->ra_kind <= RA_END && rule->flags <= UNWIND_F_SIGNAL);
}

static inline void unwind_table_check(const struct unwind_table *t, uint64_t lo, uint64_t hi)
{
	static const struct unwind_rule invalid;
	size_t nr_rows = 0;

	MUST(t->nr_rules >= 1 && t->nr_rules <= 65536);
	MUST(memcmp(&t->rules[0], &invalid, sizeof(invalid)) == 0);
	for (size_t i = 0; i < t->nr_rules; i++)
		unwind_rule_check(&t->rules[i]);
	for (size_t i = 0; i < t->nr_pages; i++) {
		const struct unwind_table_page *page = &t->pages[i];

		MUST(page->nr <= UNWIND_CHUNK_ROWS && page->first + page->nr <= t->nr_rows);
		nr_rows += page->nr;
		/* The first row holds from the page's start on. */
		MUST(page->nr == 0 || UNWIND_ROW_LOW(t->rows[page->first]) == 0);
		for (uint32_t k = 0; k < page->nr; k++) {
			uint32_t row = t->rows[page->first + k];

			MUST(UNWIND_ROW_RULE(row) < t->nr_rules);
			MUST(k == 0 ||
			        UNWIND_ROW_LOW(row) > UNWIND_ROW_LOW(t->rows[page->first + k - 1]));
		}
	}
	MUST(nr_rows == t->nr_rows);
	for (size_t i = 0; i < t->nr_fdes; i++) {
		MUST(t->fdes[i].start < t->fdes[i].end);
		MUST(i == 0 || t->fdes[i].start >= t->fdes[i - 1].end);
	}
	/* Outside of the text there is no rule. */
	MUST(lo == 0 || unwind_table_find(t, lo - 1) == NULL ||
	        memcmp(unwind_table_find(t, lo - 1), &invalid, sizeof(invalid)) == 0);
	MUST(memcmp(unwind_table_find(t, hi), &invalid, sizeof(invalid)) == 0);
	MUST(memcmp(unwind_table_find(t, UINT64_MAX), &invalid, sizeof(invalid)) == 0);
}

#endif
