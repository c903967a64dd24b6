#include "symbolizer/unwind_table.h"
#include "base/array.h"

#include "base/hash.h"
#include "symbolizer/cfi.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Two passes. The first reads the section in its order and leaves each FDE's rows one after the
 * other; the second goes through the FDEs by address and lays the rows out in pages.
 */

enum {
	MAX_RULES = 65535,   /* the index has 16 bits */
	MAX_PAGES = 1 << 20, /* 64 GiB of text */
};

struct row {
	uint32_t off; /* from the FDE's start */
	uint32_t rule;
};

struct range {
	uint64_t start, end;
	size_t first_row, nr_rows;
	size_t order; /* in the section */
	bool is_signal;
};

struct cie {
	struct eh_cie eh;
	struct cfi_state initial;
	bool bad;
};

struct builder {
	struct eh_frame eh;
	uint64_t text_lo, text_hi;

	struct hash64 cie_at; /* offset in the section to index in cies */
	struct cie *cies;
	size_t nr_cies, cap_cies;

	struct row *rows;
	size_t nr_rows, cap_rows;
	struct range *ranges;
	size_t nr_ranges, cap_ranges;
	size_t nr_bad_fdes;

	struct unwind_rule *rules;
	size_t nr_rules, cap_rules;
	uint32_t *rule_slots; /* index in rules; 0: free. nr_rule_slots is a power of two */
	size_t nr_rule_slots;
};

/* ---- the dictionary of rules --------------------------------------------------------------------
 */

static uint32_t *rule_slot(struct builder *b, const struct unwind_rule *rule)
{
	size_t mask = b->nr_rule_slots - 1;
	size_t i = hash_bytes(rule, sizeof(*rule), 0) & mask;

	while (b->rule_slots[i] != 0 &&
	        memcmp(&b->rules[b->rule_slots[i]], rule, sizeof(*rule)) != 0)
		i = (i + 1) & mask;
	return &b->rule_slots[i];
}

static int grow_rule_slots(struct builder *b)
{
	size_t nr_slots = b->nr_rule_slots != 0 ? b->nr_rule_slots * 2 : 1024;
	uint32_t *slots = calloc(nr_slots, sizeof(*slots));
	uint32_t i;

	if (slots == NULL)
		return -ENOMEM;
	free(b->rule_slots);
	b->rule_slots = slots;
	b->nr_rule_slots = nr_slots;
	for (i = 1; i < b->nr_rules; i++)
		*rule_slot(b, &b->rules[i]) = i;
	return 0;
}

/* rules[0] is the one of all zeros, which no slot names. */
static int intern_rule(struct builder *b, const struct unwind_rule *rule, uint32_t *index)
{
	static const struct unwind_rule invalid;
	uint32_t *slot;
	int rc;

	if (memcmp(rule, &invalid, sizeof(invalid)) == 0) {
		*index = 0;
		return 0;
	}
	if (b->nr_rules * 2 >= b->nr_rule_slots) {
		rc = grow_rule_slots(b);
		if (rc != 0)
			return rc;
	}
	slot = rule_slot(b, rule);
	if (*slot == 0) {
		if (b->nr_rules > MAX_RULES)
			return -E2BIG;
		rc = ARRAY_RESERVE(b->rules, b->cap_rules, b->nr_rules + 1, UINT32_MAX);
		if (rc != 0)
			return rc;
		b->rules[b->nr_rules] = *rule;
		*slot = (uint32_t)b->nr_rules++;
	}
	*index = *slot;
	return 0;
}

/* ---- first pass: the section in its order ------------------------------------------------------
 */

static int add_cie(struct builder *b, const struct eh_entry *entry)
{
	struct cie *cie;
	int rc = ARRAY_RESERVE(b->cies, b->cap_cies, b->nr_cies + 1, UINT32_MAX);

	if (rc != 0)
		return rc;
	cie = &b->cies[b->nr_cies];
	cie->bad = !eh_parse_cie(&b->eh, entry, &cie->eh) ||
	           cfi_init(&b->eh, &cie->eh, &cie->initial) != 0;
	return hash64_put(&b->cie_at, entry->off, b->nr_cies++);
}

static int add_row(void *arg, uint32_t off, const struct unwind_rule *rule)
{
	struct builder *b = arg;
	uint32_t index;
	int rc = intern_rule(b, rule, &index);

	if (rc == 0)
		rc = ARRAY_RESERVE(b->rows, b->cap_rows, b->nr_rows + 1, UINT32_MAX);
	if (rc == 0)
		b->rows[b->nr_rows++] = (struct row){.off = off, .rule = index};
	return rc;
}

static int add_fde(struct builder *b, const struct eh_entry *entry)
{
	const uint64_t *index = hash64_find(&b->cie_at, entry->cie_off);
	const struct cie *cie = index != NULL ? &b->cies[*index] : NULL;
	size_t first_row = b->nr_rows;
	struct eh_fde fde;
	int rc;

	if (cie == NULL || cie->bad || !eh_parse_fde(&b->eh, entry, &cie->eh, &fde)) {
		b->nr_bad_fdes++;
		return 0;
	}
	/* Empty, or of a section that the linker threw away. */
	if (fde.start == fde.end || fde.start >= b->text_hi || fde.end <= b->text_lo)
		return 0;
	rc = cfi_run(&b->eh, &cie->eh, &cie->initial, &fde, add_row, b);
	if (rc == -EINVAL) {
		b->nr_rows = first_row;
		b->nr_bad_fdes++;
		return 0;
	}
	if (rc != 0)
		return rc;
	rc = ARRAY_RESERVE(b->ranges, b->cap_ranges, b->nr_ranges + 1, UINT32_MAX);
	if (rc != 0)
		return rc;
	b->ranges[b->nr_ranges] = (struct range){
	        .start = fde.start,
	        .end = fde.end,
	        .first_row = first_row,
	        .nr_rows = b->nr_rows - first_row,
	        .order = b->nr_ranges,
	        .is_signal = cie->eh.is_signal,
	};
	b->nr_ranges++;
	return 0;
}

static int read_section(struct builder *b, struct err *err)
{
	struct eh_entry entry;
	size_t off = 0;
	int rc;

	while (eh_frame_next(&b->eh, &off, &entry)) {
		rc = 0;
		if (entry.kind == EH_CIE)
			rc = add_cie(b, &entry);
		else if (entry.kind == EH_FDE)
			rc = add_fde(b, &entry);
		if (rc == -E2BIG)
			return err_set(err, rc, "unwind table: more than %d rules", MAX_RULES);
		if (rc != 0)
			return err_set(err, rc, "unwind table: out of memory");
	}
	if (off < b->eh.sz) {
		/* The rest cannot be read; what came before it can. */
		b->nr_bad_fdes++;
		if (b->nr_cies == 0)
			return err_set(err, -EINVAL, "unwind table: not an .eh_frame section");
	}
	return 0;
}

/* ---- second pass: by address ------------------------------------------------------------------
 */

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static void sort_ranges(struct builder *b)
{
	size_t i;

	for (i = 1; i < b->nr_ranges; i++)
		if (b->ranges[i].start < b->ranges[i - 1].start)
			break;
	if (i < b->nr_ranges)
		qsort(b->ranges, b->nr_ranges, sizeof(*b->ranges), compare_ranges);
}

/* Ranges that overlap an earlier one go. */
static void drop_overlaps(struct builder *b)
{
	size_t i, nr = 0;

	for (i = 0; i < b->nr_ranges; i++) {
		struct range *r = &b->ranges[i], *before = nr != 0 ? &b->ranges[nr - 1] : NULL;

		if (before != NULL && r->start < before->end) {
			/* A signal trampoline's FDE starts a byte early, so that its return
			 * address minus one is inside (glibc 2.36,
			 * sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c, do_cfa_expr). That
			 * byte may be another function's last. */
			if (!r->is_signal || r->start != before->end - 1 ||
			        before->end - before->start == 1)
				continue;
			before->end--;
		}
		b->ranges[nr++] = *r;
	}
	b->nr_ranges = nr;
}

struct emitter {
	struct unwind_table *table;
	size_t cap_rows;
	size_t page;
	size_t full_page; /* the last one with too many rows */
	uint32_t rule;    /* in force at the end of what was emitted */
};

static int push_row(struct emitter *e, uint32_t low, uint32_t rule)
{
	struct unwind_table *table = e->table;
	struct unwind_table_page *page = &table->pages[e->page];
	int rc;

	if (e->page == e->full_page)
		return 0;
	if (page->nr == UNWIND_CHUNK_ROWS) {
		table->nr_rows = page->first;
		table->nr_full_pages++;
		page->nr = 0;
		e->full_page = e->page;
		return 0;
	}
	rc = ARRAY_RESERVE(table->rows, e->cap_rows, table->nr_rows + 1, UINT32_MAX);
	if (rc != 0)
		return rc;
	if (page->nr == 0)
		page->first = (uint32_t)table->nr_rows;
	table->rows[table->nr_rows++] = UNWIND_ROW(low, rule);
	page->nr++;
	return 0;
}

/* Carries the rule in force into every page that starts before vaddr. */
static int carry_to(struct emitter *e, uint64_t vaddr)
{
	int rc = 0;

	/* A page that starts at vaddr itself has its first row from there. */
	while (rc == 0 && e->page + 1 < e->table->nr_pages &&
	        (uint64_t)(e->page + 1) << UNWIND_PAGE_SHIFT < vaddr) {
		e->page++;
		if (e->rule != 0)
			rc = push_row(e, 0, e->rule);
	}
	return rc;
}

/* vaddr ascends strictly, and is below the end of the last page unless rule is 0. */
static int emit(struct emitter *e, uint64_t vaddr, uint32_t rule)
{
	uint32_t low = vaddr & 0xffff;
	int rc;

	if (rule == e->rule)
		return 0;
	rc = carry_to(e, vaddr);
	if (rc != 0)
		return rc;
	if (low != 0) {
		if (e->table->pages[e->page].nr == 0)
			rc = push_row(e, 0, e->rule);
		if (rc == 0)
			rc = push_row(e, low, rule);
	} else if (rule != 0) {
		e->page = vaddr >> UNWIND_PAGE_SHIFT;
		rc = push_row(e, 0, rule);
	}
	if (rc == 0)
		e->rule = rule;
	return rc;
}

static int emit_range(struct emitter *e, const struct builder *b, const struct range *r)
{
	size_t i;

	for (i = 0; i < r->nr_rows; i++) {
		const struct row *row = &b->rows[r->first_row + i];
		uint64_t at = r->start + row->off;
		uint64_t next = i + 1 < r->nr_rows ? r->start + row[1].off : r->end;
		int rc;

		if (next <= b->text_lo)
			continue;
		if (at >= b->text_hi || at >= r->end)
			break;
		e->table->nr_unsupported += row->rule == 0;
		rc = emit(e, MAX(at, b->text_lo), row->rule);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int emit_rows(const struct builder *b, struct unwind_table *table)
{
	struct emitter e = {.table = table, .full_page = SIZE_MAX};
	size_t i;
	int rc = 0;

	for (i = 0; rc == 0 && i < b->nr_ranges; i++) {
		const struct range *r = &b->ranges[i];

		rc = emit_range(&e, b, r);
		/* What lies between FDEs has no rule, be it padding. */
		if (rc == 0 && (i + 1 == b->nr_ranges || r[1].start != r->end))
			rc = emit(&e, MIN(r->end, b->text_hi), 0);
	}
	return rc;
}

static int emit_fdes(const struct builder *b, struct unwind_table *table)
{
	size_t i;

	table->fdes = malloc(MAX(b->nr_ranges, 1) * sizeof(*table->fdes));
	if (table->fdes == NULL)
		return -ENOMEM;
	for (i = 0; i < b->nr_ranges; i++)
		table->fdes[i] = (struct unwind_fde){b->ranges[i].start, b->ranges[i].end};
	table->nr_fdes = b->nr_ranges;
	return 0;
}

static int lay_out(struct builder *b, struct unwind_table *table, struct err *err)
{
	int rc;

	table->nr_pages = (size_t)((b->text_hi + 0xffff) >> UNWIND_PAGE_SHIFT);
	table->pages = calloc(MAX(table->nr_pages, 1), sizeof(*table->pages));
	if (table->pages == NULL)
		return err_set(err, -ENOMEM, "unwind table: out of memory");
	sort_ranges(b);
	drop_overlaps(b);
	rc = emit_rows(b, table);
	if (rc == 0)
		rc = emit_fdes(b, table);
	if (rc != 0)
		return err_set(err, rc, "unwind table: out of memory");
	table->nr_bad_fdes = b->nr_bad_fdes;
	table->rules = b->rules;
	table->nr_rules = b->nr_rules;
	b->rules = NULL;
	return 0;
}

int unwind_table_build(struct unwind_table *out, const void *eh_frame, size_t eh_frame_sz,
        uint64_t eh_frame_vaddr, uint64_t text_lo, uint64_t text_hi, struct err *err)
{
	struct builder b = {
	        .eh = {.data = eh_frame, .sz = eh_frame_sz, .vaddr = eh_frame_vaddr},
	        .text_lo = text_lo,
	        .text_hi = text_hi,
	};
	struct unwind_table table = {0};
	int rc;

	hash64_init(&b.cie_at);
	if (text_hi > (uint64_t)MAX_PAGES << UNWIND_PAGE_SHIFT) {
		rc = err_set(err, -E2BIG, "unwind table: text ends at %#llx, beyond 64 GiB",
		        (unsigned long long)text_hi);
		goto out;
	}
	b.rules = calloc(256, sizeof(*b.rules));
	if (b.rules == NULL) {
		rc = err_set(err, -ENOMEM, "unwind table: out of memory");
		goto out;
	}
	b.cap_rules = 256;
	b.nr_rules = 1;
	rc = read_section(&b, err);
	if (rc == 0)
		rc = lay_out(&b, &table, err);
out:
	hash64_release(&b.cie_at);
	free(b.cies);
	free(b.rows);
	free(b.ranges);
	free(b.rules);
	free(b.rule_slots);
	if (rc != 0)
		unwind_table_release(&table);
	else
		*out = table;
	return rc;
}

void unwind_table_release(struct unwind_table *table)
{
	free(table->rows);
	free(table->pages);
	free(table->rules);
	free(table->fdes);
	*table = (struct unwind_table){0};
}

const struct unwind_rule *unwind_table_find(const struct unwind_table *table, uint64_t vaddr)
{
	static const struct unwind_rule invalid;
	const struct unwind_table_page *page;
	uint32_t low = vaddr & 0xffff, lo, hi;
	const uint32_t *rows;

	if (vaddr >> UNWIND_PAGE_SHIFT >= table->nr_pages)
		return &invalid;
	page = &table->pages[vaddr >> UNWIND_PAGE_SHIFT];
	if (page->nr == 0)
		return &invalid;
	/* The last row at or below low: rows[lo] always is one. */
	rows = &table->rows[page->first];
	for (lo = 0, hi = page->nr; hi - lo > 1;) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (UNWIND_ROW_LOW(rows[mid]) <= low)
			lo = mid;
		else
			hi = mid;
	}
	return &table->rules[UNWIND_ROW_RULE(rows[lo])];
}
