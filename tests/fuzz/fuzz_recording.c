/*
 * Recordings of any content, and all that is made of them. An input that begins as an SQLite
 * database is one. Any other is rows for a database with the tables of a recording, whose columns
 * take any value: so what SQLite hands out is fuzzed, rather than SQLite.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/rows.h"
#include "tests/fuzz/text_check.h"

#include "profile/aggregate.h"
#include "profile/export.h"
#include "profile/flamegraph.h"
#include "profile/report.h"

#include <unistd.h>

enum { TEXT_MAX = 64 << 20 };

static char path[64];

static void put_file(const void *data, size_t size)
{
	FILE *out;

	if (path[0] == '\0') {
		snprintf(path, sizeof(path), "%s/rprof-fuzz-%d",
		        access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
	}
	out = fopen(path, "w");
	MUST(out != NULL && fwrite(data, 1, size, out) == size && fclose(out) == 0);
}

static int collect(const char *data, size_t len, void *ctx)
{
	return buf_append(ctx, data, len);
}

static void check_report(struct reader *r, struct view *view)
{
	static const struct report_options options = {.top = 5, .stacks = 2};
	struct aggregate a = {0};
	struct buf b;

	if (aggregate_init(&a, r, NULL, view, 4, NULL) != 0)
		return;
	buf_init(&b, TEXT_MAX);
	report_text(&b, r, &a, &options);
	if (!b.failed && b.len > 0)
		lines_check(b.data, b.len);
	buf_reset(&b);
	report_json(&b, r, &a, &options);
	if (!b.failed && b.len > 0)
		json_lines_check(b.data, b.len);
	buf_release(&b);
	aggregate_release(&a);
}

static void check_exports(struct reader *r, const struct view *view)
{
	struct reader_filter filter = {.trigger = export_default_trigger(r)};
	struct buf b;

	buf_init(&b, TEXT_MAX);
	if (filter.trigger != NULL &&
	        export_folded(r, &filter, view, true, collect, &b, NULL) == 0 && b.len > 0) {
		lines_check(b.data, b.len);
		MUST(b.data[b.len - 1] == '\n');
	}
	buf_reset(&b);
	if (export_jsonl(r, NULL, true, collect, &b, NULL) == 0 && b.len > 0)
		json_lines_check(b.data, b.len);
	buf_release(&b);
}

static size_t count(const char *text, const char *what)
{
	size_t nr = 0;

	for (; (text = strcasestr(text, what)) != NULL; text++)
		nr++;
	return nr;
}

/* What a name says stays data: a page has as many scripts as one of a plain recording. */
static void check_page(struct reader *r)
{
	static const struct flamegraph_options options;
	static size_t scripts, ends;
	struct flamegraph *fg = NULL;
	char *page = NULL;
	size_t len;
	FILE *out;

	if (flamegraph_new(r, &options, &fg, NULL) != 0)
		return;
	out = open_memstream(&page, &len);
	MUST(flamegraph_write(fg, out, NULL) == 0 && fclose(out) == 0);
	MUST(strlen(page) == len);
	if (scripts == 0) {
		scripts = count(page, "<script");
		ends = count(page, "</script");
	}
	MUST(count(page, "<script") == scripts && count(page, "</script") == ends);
	free(page);
	flamegraph_free(fg);
}

static void check_recording(void)
{
	struct reader *r = NULL;
	struct err err = {0};
	struct view view;

	if (reader_open(path, &r, &err) != 0) {
		MUST(err.msg[0] != '\0' && r == NULL);
		return;
	}
	for (int mode = VIEW_DEFAULT; mode <= VIEW_ALL; mode++) {
		view = (struct view){.mode = (enum view_mode)mode};
		check_report(r, &view);
	}
	check_exports(r, &view);
	check_page(r);
	reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool has_plain;
	unsigned char *db;
	size_t db_sz;

	if (!has_plain) {
		db = rows_plain(&db_sz);
		put_file(db, db_sz);
		sqlite3_free(db);
		check_recording();
		has_plain = true;
	}
	if (size >= 16 && memcmp(data, "SQLite format 3", 16) == 0) {
		put_file(data, size);
	} else {
		db = rows_database((struct feed){data, size}, &db_sz);
		put_file(db, db_sz);
		sqlite3_free(db);
	}
	check_recording();
	unlink(path);
	return 0;
}
