/* Frames of another interpreter's language than Ruby, in all that is made of a recording. */
#include "profile/aggregate.h"
#include "profile/export.h"
#include "profile/flame_tree.h"
#include "profile/flamegraph.h"
#include "profile/report.h"
#include "tests/unit/profile_fixture.h"
#include "tests/unit/tap.h"

#include <sqlite3.h>

static void write_languages(const char *path)
{
	struct frame frames[4];
	struct fixture f;

	fixture_languages(frames);
	fixture_create(&f, path);
	fixture_sample(&f, f.thread, f.cpu, 1000, frames, 4);
	recording_close(f.rec, NULL);
}

/* One value of the recording, as SQL gives it. */
static const char *query(const char *path, const char *sql)
{
	static char out[256];
	sqlite3_stmt *stmt = NULL;
	sqlite3 *db = NULL;

	strcpy(out, "no row");
	if (sqlite3_open(path, &db) == SQLITE_OK &&
	        sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
	        sqlite3_step(stmt) == SQLITE_ROW)
		snprintf(out, sizeof(out), "%s",
		        sqlite3_column_type(stmt, 0) == SQLITE_NULL
		                ? "NULL"
		                : (const char *)sqlite3_column_text(stmt, 0));
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return out;
}

TEST(a_name_of_a_language_is_never_one_of_a_kind)
{
	static const char *const good[] = {"ruby", "toy", "x", "python3", "a_name_of_15_ab"},
	                         *const bad[] = {"", "Toy", "to y", "jit", "cfunc", "native",
	                                 "kernel", "gc", "unknown", "a_name_of_16_abc", "t\x1b",
	                                 "t\"", "t\xc3\xa9"};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK(frame_language_is_valid(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(!frame_language_is_valid(bad[i]));
}

TEST(a_frame_keeps_its_language_and_ruby_is_the_one_that_needs_no_name)
{
	const char *path = fixture_path("kept.rprof");
	static const char *const languages[] = {NULL, "toy", "toy", "toy"}, *const shown[] = {
	                                                                            "ruby", "toy",
	                                                                            "cfunc", "jit"};
	struct reader *r;

	write_languages(path);
	REQUIRE((r = fixture_open(path)) != NULL);
	REQUIRE(reader_nr_functions(r) == 4);
	for (uint32_t i = 0; i < 4; i++) {
		struct frame f = reader_function(r, i + 1);

		CHECK_STR(f.language, languages[i]);
		CHECK_STR(frame_shown_kind(&f), shown[i]);
		CHECK(frame_is_interp(&f));
	}
	reader_free(r);
	CHECK_STR(query(path, "SELECT group_concat(ifnull(language, '-')) FROM function"),
	        "-,toy,toy,toy");
	CHECK_STR(query(path, "SELECT group_concat(kind) FROM named_frame"), "ruby,toy,cfunc,jit");
	CHECK_STR(query(path, "SELECT group_concat(kind) FROM function"), "1,1,3,2");
}

TEST(a_recording_of_before_there_were_languages_is_rubys)
{
	const char *path = fixture_path("before.rprof");
	struct reader *r;
	struct frame f;
	sqlite3 *db;

	write_languages(path);
	REQUIRE(sqlite3_open(path, &db) == SQLITE_OK);
	CHECK_EQ(
	        sqlite3_exec(db, "DROP VIEW named_frame; ALTER TABLE function DROP COLUMN language",
	                NULL, NULL, NULL),
	        SQLITE_OK);
	sqlite3_close(db);
	REQUIRE((r = fixture_open(path)) != NULL);
	f = reader_function(r, 2);
	CHECK(f.language == NULL);
	CHECK_STR(frame_shown_kind(&f), "ruby");
	reader_free(r);
}

TEST(a_language_that_nobody_may_write_is_not_read)
{
	static const char *const values[] = {
	        "'kernel'", "''", "'a\x1b'", "printf('%016d', 0)", "x'ff'"};
	char sql[128];

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		const char *path = fixture_path("hostile.rprof");
		struct reader *r = NULL;
		struct err err = {0};
		sqlite3 *db;

		write_languages(path);
		REQUIRE(sqlite3_open(path, &db) == SQLITE_OK);
		snprintf(sql, sizeof(sql), "UPDATE function SET language = %s WHERE id = 2",
		        values[i]);
		CHECK_EQ(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
		sqlite3_close(db);
		CHECK_EQ(reader_open(path, &r, &err), -EBADMSG);
		CHECK(strstr(err.msg, "damaged") != NULL);
	}
}

TEST(a_language_that_cannot_be_called_so_is_not_written)
{
	struct frame frame = ruby_frame("f", 1);
	struct fixture f;
	struct err err;
	uint32_t id;

	frame.language = "gc";
	fixture_create(&f, fixture_path("unwritten.rprof"));
	CHECK_EQ(recording_intern_frame(f.rec, &frame, &id), -EINVAL);
	CHECK_EQ(recording_close(f.rec, &err), -EINVAL);
}

TEST(exports_say_the_language_as_the_kind_and_of_all_frames_that_are_not_rubys)
{
	const char *path = fixture_path("export.rprof");
	const struct reader_filter filter = {.trigger = "cpu"};
	const struct view view = {.mode = VIEW_RUBY};
	static const char *const want[] = {"{\"kind\":\"ruby\",", "{\"kind\":\"toy\",",
	        "{\"kind\":\"cfunc\",", "{\"kind\":\"jit\","},
	                         *const end[] = {"\"approximate\":false}",
	                                 "\"approximate\":false,\"language\":\"toy\"}",
	                                 "\"approximate\":false,\"language\":\"toy\"}",
	                                 "\"approximate\":false,\"language\":\"toy\"}"};
	struct reader *r;
	struct buf b;

	write_languages(path);
	REQUIRE((r = fixture_open(path)) != NULL);
	buf_init(&b, 1 << 20);
	CHECK_EQ(export_jsonl(r, NULL, false, fixture_collect, &b, NULL), 0);
	const char *at = strstr(b.data, "\"frames\":[");
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		REQUIRE(at != NULL);
		at = strchr(at, '{');
		CHECK(at != NULL && strncmp(at, want[i], strlen(want[i])) == 0);
		at = strstr(at, "\"approximate\"");
		CHECK(at != NULL && strncmp(at, end[i], strlen(end[i])) == 0);
	}
	buf_reset(&b);
	CHECK_EQ(export_folded(r, &filter, &view, false, fixture_collect, &b, NULL), 0);
	CHECK_STR(b.data, "<main>;<main>;<main>;<main>_[j] 1\n");
	buf_release(&b);
	reader_free(r);
}

TEST(a_report_says_the_language)
{
	const struct report_options o = {.top = 20, .stacks = 5};
	const char *path = fixture_path("report.rprof");
	const struct view view = {.mode = VIEW_DEFAULT};
	struct aggregate a;
	struct reader *r;
	struct buf b;

	write_languages(path);
	REQUIRE((r = fixture_open(path)) != NULL);
	REQUIRE(aggregate_init(&a, r, NULL, &view, 5, NULL) == 0);
	CHECK_EQ(a.triggers[0].nr_frames, 4);
	buf_init(&b, 1 << 20);
	report_text(&b, r, &a, &o);
	const char *stacks = strstr(b.data, "Hottest stacks");
	REQUIRE(stacks != NULL);
	CHECK(strstr(stacks, "jit     <main>  /app.rb\n           cfunc   <main>  /app.rb\n"
	                     "           toy     <main>  /app.rb\n"
	                     "           ruby    <main>  /app.rb\n") != NULL);
	buf_reset(&b);
	report_json(&b, r, &a, &o);
	CHECK(strstr(b.data, "{\"kind\":\"toy\",\"role\":null,\"name\":\"<main>\"") != NULL);
	CHECK(strstr(b.data, "\"library\":null,\"language\":\"toy\",\"self\":") != NULL);
	CHECK(strstr(b.data, "\"library\":null,\"self\":") != NULL);
	buf_release(&b);
	aggregate_release(&a);
	reader_free(r);
}

/* The page's data, up to the end of its functions. */
static char *graph_data(const char *path)
{
	const struct flamegraph_options options = {0};
	struct flamegraph *fg = NULL;
	char *page = NULL, *functions;
	size_t page_sz;
	struct reader *r = fixture_open(path);
	FILE *out = open_memstream(&page, &page_sz);

	if (r != NULL && flamegraph_new(r, &options, &fg, NULL) == 0)
		flamegraph_write(fg, out, NULL);
	fclose(out);
	flamegraph_free(fg);
	reader_free(r);
	functions = strstr(page, "\"functions\":{");
	if (functions != NULL && strchr(functions, '}') != NULL)
		memmove(page, functions, (size_t)(strchr(functions, '}') + 1 - functions) + 1);
	*strchr(page, '}') = '\0';
	return page;
}

TEST(a_flame_graph_has_the_language_of_each_function_and_none_if_all_are_rubys)
{
	const char *path = fixture_path("graph.rprof");
	struct frame frame = ruby_frame("<main>", 1);
	struct flame_tree tree;
	struct reader *r;
	struct fixture f;
	char *data;

	write_languages(path);
	REQUIRE((r = fixture_open(path)) != NULL);
	REQUIRE(flame_tree_init(&tree, r, NULL) == 0);
	REQUIRE(tree.nr_functions == 4);
	for (size_t i = 0; i < 4; i++)
		CHECK_STR(tree.strings[tree.functions[i].language], i == 0 ? "" : "toy");
	CHECK_EQ(tree.functions[1].kind, FLAME_RUBY);
	flame_tree_release(&tree);
	reader_free(r);
	data = graph_data(path);
	CHECK(strstr(data, "\"language\":[0,") != NULL);
	free(data);

	frame.language = "ruby";
	fixture_create(&f, path);
	fixture_sample(&f, f.thread, f.cpu, 1, &frame, 1);
	recording_close(f.rec, NULL);
	data = graph_data(path);
	CHECK(strstr(data, "\"library\":[0]") != NULL);
	CHECK(strstr(data, "language") == NULL);
	free(data);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
