/* Unwind tables that several threads build, and where they stand in the maps of the kernel side. */
#include "record/unwind_maps.h"
#include "symbolizer/unwind_table.h"
#include "tests/unit/tap.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

enum { MAX_FILES = 16 };

/* The files that this program has mapped, by names that the loader gives. */
struct files {
	struct dso_cache *cache;
	struct dso *dsos[MAX_FILES];
	size_t nr;
};

static void files_add(struct files *f, const void *function)
{
	struct err err;
	Dl_info info;

	if (dladdr(function, &info) == 0 || f->nr == MAX_FILES ||
	        dso_cache_get_path(f->cache, info.dli_fname, &f->dsos[f->nr], &err) != 0)
		return;
	for (size_t i = 0; i < f->nr; i++)
		if (f->dsos[i] == f->dsos[f->nr])
			return;
	f->nr++;
}

static bool files_open(struct files *f)
{
	static const char *const functions[] = {"malloc_usable_size", "elf_begin",
	        "dwarf_begin_elf", "sqlite3_open", "inflate", "ZSTD_decompress",
	        "lzma_stream_decoder", "dladdr"};

	*f = (struct files){0};
	if (dso_cache_new(&f->cache) != 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		files_add(f, dlsym(RTLD_DEFAULT, functions[i]));
	return true;
}

static bool same_table(const struct unwind_table *a, const struct unwind_table *b)
{
	return a->nr_rows == b->nr_rows && a->nr_pages == b->nr_pages &&
	       a->nr_rules == b->nr_rules &&
	       memcmp(a->rows, b->rows, a->nr_rows * sizeof(*a->rows)) == 0 &&
	       memcmp(a->pages, b->pages, a->nr_pages * sizeof(*a->pages)) == 0 &&
	       memcmp(a->rules, b->rules, a->nr_rules * sizeof(*a->rules)) == 0;
}

TEST(threads_build_the_tables_that_one_builds)
{
	struct files together, alone;

	REQUIRE(files_open(&together) && files_open(&alone));
	REQUIRE(together.nr >= 4);
	REQUIRE(together.nr == alone.nr);
	tables_build(together.dsos, together.nr);
	for (size_t i = 0; i < alone.nr; i++) {
		const struct unwind_table *a = dso_unwind_table(together.dsos[i], NULL);
		const struct unwind_table *b = dso_unwind_table(alone.dsos[i], NULL);

		REQUIRE(a != NULL && b != NULL);
		CHECK(a != b && a->nr_rows > 0 && same_table(a, b));
	}
	dso_cache_free(together.cache);
	dso_cache_free(alone.cache);
}

/* Room for these tables and no more. */
struct room {
	uint32_t *rows;
	struct unwind_page *pages;
	struct unwind_rule *rules;
	uint32_t nr_chunks, nr_pages, nr_rules;
	struct table_store store;
};

static bool room_make(struct room *r, const struct files *f)
{
	uint64_t nr_rows = 0;

	*r = (struct room){0};
	for (size_t i = 0; i < f->nr; i++)
		table_size(
		        dso_unwind_table(f->dsos[i], NULL), &nr_rows, &r->nr_pages, &r->nr_rules);
	/* A page that does not fit leaves the rest of a chunk unused. */
	r->nr_chunks = (uint32_t)(nr_rows / UNWIND_CHUNK_ROWS * 2 + 2);
	r->rows = calloc((size_t)r->nr_chunks * UNWIND_CHUNK_ROWS, sizeof(*r->rows));
	r->pages = calloc(r->nr_pages, sizeof(*r->pages));
	r->rules = calloc(r->nr_rules, sizeof(*r->rules));
	return r->rows != NULL && r->pages != NULL && r->rules != NULL;
}

static void room_free(struct room *r)
{
	table_store_release(&r->store);
	free(r->rows);
	free(r->pages);
	free(r->rules);
}

/* What the kernel side finds of a page by its index is what the table has. */
static void check_loaded(
        const struct room *r, const struct unwind_table *t, const struct loaded_table *at)
{
	REQUIRE(at->nr_pages == t->nr_pages);
	REQUIRE(at->page0 + at->nr_pages <= r->nr_pages);
	REQUIRE(at->rule0 + t->nr_rules <= r->nr_rules);
	CHECK(memcmp(&r->rules[at->rule0], t->rules, t->nr_rules * sizeof(*t->rules)) == 0);
	for (size_t i = 0; i < t->nr_pages; i++) {
		const struct unwind_page *page = &r->pages[at->page0 + i];

		REQUIRE(page->chunk < r->nr_chunks);
		REQUIRE(page->first + page->nr <= UNWIND_CHUNK_ROWS);
		CHECK_EQ(page->nr, t->pages[i].nr);
		CHECK(memcmp(&r->rows[(size_t)page->chunk * UNWIND_CHUNK_ROWS + page->first],
		              &t->rows[t->pages[i].first], page->nr * sizeof(*t->rows)) == 0);
	}
}

TEST(each_table_is_loaded_once_and_whole)
{
	struct loaded_table first[MAX_FILES], again;
	struct files f;
	struct room r;

	REQUIRE(files_open(&f));
	REQUIRE(room_make(&r, &f));
	table_store_init(&r.store, r.rows, r.nr_chunks, r.pages, r.nr_pages, r.rules, r.nr_rules);
	for (size_t i = 0; i < f.nr; i++)
		CHECK_EQ(table_store_load(&r.store, dso_unwind_table(f.dsos[i], NULL), &first[i]),
		        0);
	/* Only now: what was loaded later has overwritten nothing. */
	for (size_t i = 0; i < f.nr; i++) {
		const struct unwind_table *t = dso_unwind_table(f.dsos[i], NULL);

		check_loaded(&r, t, &first[i]);
		CHECK_EQ(table_store_load(&r.store, t, &again), 0);
		CHECK(memcmp(&again, &first[i], sizeof(again)) == 0);
	}
	CHECK_EQ(r.store.nr_pages, r.nr_pages);
	CHECK_EQ(r.store.nr_rules, r.nr_rules);
	room_free(&r);
	dso_cache_free(f.cache);
}

/* One page, rule or chunk less than the last table needs: it is refused, the others stay. */
TEST(a_table_without_room_is_refused)
{
	struct loaded_table at[MAX_FILES];
	struct files f;
	struct room r;

	REQUIRE(files_open(&f));
	REQUIRE(f.nr >= 2);
	for (int lacks = 0; lacks < 3; lacks++) {
		REQUIRE(room_make(&r, &f));
		table_store_init(&r.store, r.rows, r.nr_chunks, r.pages, r.nr_pages - (lacks == 0),
		        r.rules, r.nr_rules - (lacks == 1));
		for (size_t i = 0; i + 1 < f.nr; i++)
			REQUIRE(table_store_load(
			                &r.store, dso_unwind_table(f.dsos[i], NULL), &at[i]) == 0);
		if (lacks == 2)
			r.store.max_chunks = r.store.chunk + (r.store.chunk_fill != 0) - 1;
		CHECK_EQ(table_store_load(
		                 &r.store, dso_unwind_table(f.dsos[f.nr - 1], NULL), &at[f.nr - 1]),
		        -ENOSPC);
		for (size_t i = 0; i + 1 < f.nr; i++)
			check_loaded(&r, dso_unwind_table(f.dsos[i], NULL), &at[i]);
		room_free(&r);
	}
	dso_cache_free(f.cache);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
