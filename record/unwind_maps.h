/*
 * Unwind tables in the memory that the kernel-side walk searches: the BPF array maps, mapped into
 * this process. Each ELF file is loaded once and shared by all processes that map it.
 */
#ifndef RECORD_UNWIND_MAPS_H
#define RECORD_UNWIND_MAPS_H

#include "base/err.h"
#include "base/hash.h"
#include "bpf/abi.h"
#include "record/process.h"
#include "symbolizer/dso.h"

/* Where a file's table stands; what struct rprof_mapping needs of it. */
struct loaded_table {
	uint32_t page0, nr_pages, rule0;
};

struct table_store {
	uint32_t *rows;            /* nr_chunks * UNWIND_CHUNK_ROWS */
	struct unwind_page *pages; /* max_pages */
	struct unwind_rule *rules; /* max_rules */
	uint32_t max_chunks, max_pages, max_rules;
	uint32_t chunk, chunk_fill, nr_pages, nr_rules;
	struct hash64 loaded;        /* address of the table -> index in tables */
	struct loaded_table *tables; /* owned */
	size_t nr_tables, cap_tables;
};

/* Has the unwind tables of different files built, on all processors. Which have none shows later.
 */
void tables_build(struct dso *const *dsos, size_t nr);

/* Adds what a table takes to the counters. Rows in chunks leave some of each chunk's end unused. */
void table_size(const struct unwind_table *t, uint64_t *rows, uint32_t *pages, uint32_t *rules);

/* The memory stays the caller's. */
void table_store_init(struct table_store *store, uint32_t *rows, uint32_t max_chunks,
        struct unwind_page *pages, uint32_t max_pages, struct unwind_rule *rules,
        uint32_t max_rules);
void table_store_release(struct table_store *store);
/* -ENOSPC: the maps are full (they are sized when a recording starts). */
int table_store_load(
        struct table_store *store, const struct unwind_table *table, struct loaded_table *out);
/* Loads what the process maps and fills the mappings of *out, in which all else is the caller's.
 * -ENOSPC: what fits is there, the rest has no table or is missing. */
int table_store_map(
        struct table_store *store, struct process *p, struct rprof_mappings *out, struct err *err);

#endif
