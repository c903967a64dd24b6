/*
 * The unwind table of one ELF file, made from .eh_frame: rows as bpf/abi.h describes them.
 * Pure: bytes in, table out.
 */
#ifndef SYMBOLIZER_UNWIND_TABLE_H
#define SYMBOLIZER_UNWIND_TABLE_H

#include "base/err.h"
#include "bpf/abi.h"
#include <stddef.h>

/* One 64-KiB page of text: rows[first .. first+nr). nr 0: nothing covered. */
struct unwind_table_page {
	uint32_t first;
	uint32_t nr; /* at most UNWIND_CHUNK_ROWS */
};

struct unwind_fde {
	uint64_t start, end; /* vaddr, [start, end). A signal trampoline's starts a byte early. */
};

struct unwind_table {
	uint32_t *rows; /* UNWIND_ROW(); all owned */
	size_t nr_rows;
	struct unwind_table_page *pages; /* pages[vaddr >> UNWIND_PAGE_SHIFT] */
	size_t nr_pages;
	struct unwind_rule *rules; /* rules[0] is CFA_INVALID */
	size_t nr_rules;
	struct unwind_fde *fdes; /* ascending by start; ranges that overlap were dropped */
	size_t nr_fdes;
	size_t nr_unsupported; /* rows whose rule cannot be expressed (they are CFA_INVALID) */
	size_t nr_bad_fdes;    /* FDEs that could not be parsed and were left out */
	size_t nr_full_pages;  /* pages left without rows: more than UNWIND_CHUNK_ROWS */
};

/*
 * eh_frame: the section's bytes and its vaddr. text_lo/text_hi: executable vaddrs; rows outside are
 * dropped, FDEs wholly outside too. No address outside of an FDE has a rule, be it padding.
 * An empty section gives an empty table.
 *
 * -EINVAL: not an .eh_frame at all; -ENOMEM; -E2BIG: more than 65535 rules, or text beyond 64 GiB.
 */
int unwind_table_build(struct unwind_table *out, const void *eh_frame, size_t eh_frame_sz,
        uint64_t eh_frame_vaddr, uint64_t text_lo, uint64_t text_hi, struct err *err);
void unwind_table_release(struct unwind_table *table);
/* The rule in force at vaddr; rules[0] (CFA_INVALID) where none is. Never NULL. */
const struct unwind_rule *unwind_table_find(const struct unwind_table *table, uint64_t vaddr);

#endif
