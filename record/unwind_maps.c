#include "record/unwind_maps.h"

#include "base/array.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BUILDERS = 8 };

/* Files whose tables are built; each is taken by one thread. */
struct build {
	struct dso *const *dsos;
	size_t nr, next;
};

static void *build_main(void *arg)
{
	struct build *b = arg;
	size_t i;

	while ((i = __atomic_fetch_add(&b->next, 1, __ATOMIC_RELAXED)) < b->nr)
		dso_unwind_table(b->dsos[i], NULL);
	return NULL;
}

void tables_build(struct dso *const *dsos, size_t nr)
{
	struct build b = {.dsos = dsos, .nr = nr};
	pthread_t helpers[MAX_BUILDERS - 1];
	size_t nr_helpers = 0, max;
	sigset_t all, old;
	cpu_set_t cpus;

	max = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (size_t)CPU_COUNT(&cpus) : 1;
	max = MIN(MIN(max, nr), MAX_BUILDERS);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	while (nr_helpers + 1 < max &&
	        pthread_create(&helpers[nr_helpers], NULL, build_main, &b) == 0)
		nr_helpers++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	build_main(&b);
	while (nr_helpers > 0)
		pthread_join(helpers[--nr_helpers], NULL);
}

void table_size(const struct unwind_table *t, uint64_t *rows, uint32_t *pages, uint32_t *rules)
{
	*rows += t->nr_rows;
	*pages += (uint32_t)t->nr_pages;
	*rules += (uint32_t)t->nr_rules;
}

void table_store_init(struct table_store *store, uint32_t *rows, uint32_t max_chunks,
        struct unwind_page *pages, uint32_t max_pages, struct unwind_rule *rules,
        uint32_t max_rules)
{
	*store = (struct table_store){
	        .rows = rows,
	        .pages = pages,
	        .rules = rules,
	        .max_chunks = max_chunks,
	        .max_pages = max_pages,
	        .max_rules = max_rules,
	};
	hash64_init(&store->loaded);
}

void table_store_release(struct table_store *store)
{
	hash64_release(&store->loaded);
	free(store->tables);
	*store = (struct table_store){0};
}

/* Copies the rows of one page to where they do not straddle a chunk. */
static int page_load(struct table_store *store, const struct unwind_table *table, size_t i)
{
	const struct unwind_table_page *page = &table->pages[i];

	if (page->nr > UNWIND_CHUNK_ROWS)
		return -E2BIG;
	if (store->chunk_fill + page->nr > UNWIND_CHUNK_ROWS) {
		store->chunk++;
		store->chunk_fill = 0;
	}
	if (store->chunk >= store->max_chunks)
		return -ENOSPC;
	memcpy(&store->rows[(size_t)store->chunk * UNWIND_CHUNK_ROWS + store->chunk_fill],
	        &table->rows[page->first], page->nr * sizeof(uint32_t));
	store->pages[store->nr_pages++] = (struct unwind_page){
	        .chunk = store->chunk,
	        .first = (uint16_t)store->chunk_fill,
	        .nr = (uint16_t)page->nr,
	};
	store->chunk_fill += page->nr;
	return 0;
}

int table_store_load(
        struct table_store *store, const struct unwind_table *table, struct loaded_table *out)
{
	uint64_t key = (uint64_t)(uintptr_t)table, *found = hash64_find(&store->loaded, key);
	struct loaded_table t;
	int rc;

	if (found != NULL) {
		*out = store->tables[*found];
		return 0;
	}
	if (table->nr_pages > store->max_pages - store->nr_pages ||
	        table->nr_rules > store->max_rules - store->nr_rules)
		return -ENOSPC;
	t = (struct loaded_table){
	        .page0 = store->nr_pages,
	        .nr_pages = (uint32_t)table->nr_pages,
	        .rule0 = store->nr_rules,
	};
	for (size_t i = 0; i < table->nr_pages; i++) {
		rc = page_load(store, table, i);
		if (rc != 0) {
			store->nr_pages = t.page0;
			return rc;
		}
	}
	memcpy(&store->rules[store->nr_rules], table->rules,
	        table->nr_rules * sizeof(*table->rules));
	store->nr_rules += (uint32_t)table->nr_rules;

	rc = ARRAY_RESERVE(
	        store->tables, store->cap_tables, store->nr_tables + 1, store->max_pages);
	if (rc != 0)
		return rc;
	rc = hash64_put(&store->loaded, key, store->nr_tables);
	if (rc != 0)
		return rc;
	store->tables[store->nr_tables++] = t;
	*out = t;
	return 0;
}

static int map_one(struct table_store *store, struct process *p, const struct mapping *m,
        struct rprof_mapping *out, struct err *err)
{
	const struct mapping_info *info = process_mapping(p, m);
	struct loaded_table t = {0};
	struct dso *dso = info->dso;
	uint64_t bias;
	int rc = 0;

	*out = (struct rprof_mapping){.start = m->start, .end = m->end, .kind = info->kind};
	if (out->kind != MAPPING_TABLE)
		return 0;
	if (!dso_load_bias(dso, m, &bias)) {
		out->kind = MAPPING_NO_TABLE;
		return 0;
	}
	rc = table_store_load(store, dso_unwind_table(dso, NULL), &t);
	if (rc != 0) {
		out->kind = MAPPING_NO_TABLE;
		return err_set(err, rc, "no room for the unwind table of %s", dso_path(dso));
	}
	out->bias = bias;
	out->page0 = t.page0;
	out->nr_pages = t.nr_pages;
	out->rule0 = t.rule0;
	return 0;
}

int table_store_map(
        struct table_store *store, struct process *p, struct rprof_mappings *out, struct err *err)
{
	int rc = 0, one;

	out->nr = 0;
	for (size_t i = 0; i < p->maps.nr; i++) {
		/* The kernel-side search compares addresses below 2^63: [vsyscall] is none of them.
		 */
		if (!(p->maps.v[i].prot & MAPS_PROT_EXEC) || p->maps.v[i].start >> 63 != 0)
			continue;
		if (out->nr == RPROF_MAX_MAPPINGS)
			return err_set(err, -ENOSPC,
			        "process %d has more than %d executable mappings",
			        (int)p->target.pid, RPROF_MAX_MAPPINGS);
		one = map_one(store, p, &p->maps.v[i], &out->m[out->nr++], err);
		if (one != 0)
			rc = one;
	}
	return rc;
}
