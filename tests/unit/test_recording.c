#include "tests/unit/profile_fixture.h"
#include "tests/unit/tap.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct totals {
	uint64_t stacks, samples, weight;
	struct frame last; /* leaf of the last stack */
	size_t nr_frames;
	uint8_t outcome, reason;
};

static int sum_up(const struct reader_stack *s, void *ctx)
{
	struct totals *t = ctx;

	t->stacks++;
	t->samples += s->nr_samples;
	t->weight += s->weight;
	t->nr_frames = s->nr_frames;
	t->outcome = s->outcome;
	t->reason = s->reason;
	t->last = s->nr_frames != 0 ? s->frames[s->nr_frames - 1] : (struct frame){0};
	return 0;
}

static off_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_size : -1;
}

static bool beside(const char *path, const char *suffix)
{
	char name[300];

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	return access(name, F_OK) == 0;
}

static void write_small(const char *path, int nr_samples)
{
	struct frame frames[2] = {ruby_frame("<main>", 1), ruby_frame("Foo#bar", 7)};
	struct fixture f;

	fixture_create(&f, path);
	for (int i = 0; i < nr_samples; i++) {
		frames[1].line = (uint32_t)(i % 50 + 1);
		fixture_sample(&f, f.thread, f.cpu, 10, frames, 2);
	}
	recording_close(f.rec, NULL);
}

TEST(what_was_written_is_read_back)
{
	const char *path = fixture_path("round.rprof");
	struct frame leaf = {.kind = FRAME_KERNEL,
	        .role = ROLE_SYSCALL,
	        .flags = FRAME_F_INLINED,
	        .line = 4000000000u,
	        .name = "a;b\"c\n\xff",
	        .owner = "",
	        .method = "Foo#\x01",
	        .path = "/p",
	        .first_line = 4294967295u,
	        .library = "[kernel]",
	        .build_id = "ab12",
	        .file_off = 0x10,
	        .addr = 0xffffffff81000010,
	        .func_addr = 0xffffffff81000000};
	struct frame frames[3] = {
	        ruby_frame("<main>", 3), native_frame(ROLE_VM, "vm_exec", "/lib/libruby.so"), leaf};
	const struct reader_thread *threads;
	const struct reader_loss *losses;
	struct recording_sample s = {
	        .time_ns = 99, .weight = 5, .outcome = STACK_TRUNCATED, .reason = REASON_NO_CFI};
	struct totals t = {0};
	struct reader *r;
	struct fixture f;
	uint32_t ids[3], thread, again;
	size_t nr;

	fixture_create(&f, path);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(recording_intern_frame(f.rec, &frames[i], &ids[i]), 0);
	CHECK_EQ(recording_intern_frame(f.rec, &frames[1], &again), 0);
	CHECK_EQ(again, ids[1]);
	CHECK_EQ(recording_intern_stack(f.rec, ids, 3, &s.stack), 0);
	CHECK_EQ(recording_add_thread(f.rec, f.process, 43, "renamed", "worker 1", &thread), 0);
	CHECK_EQ(thread, f.thread);
	s.thread = thread;
	s.trigger = f.cpu;
	CHECK_EQ(recording_add_sample(f.rec, &s), 0);
	CHECK_EQ(recording_add_sample(f.rec, &s), 0);
	CHECK_EQ(recording_set_meta(f.rec, "rate_hz", "1"), 0);
	CHECK_EQ(recording_set_meta(f.rec, "rate_hz", "99"), 0);
	CHECK_EQ(recording_set_loss(f.rec, "ring-buffer-full", 3), 0);
	CHECK_EQ(recording_set_loss(f.rec, "ring-buffer-full", 17), 0);
	CHECK_EQ(recording_close(f.rec, NULL), 0);
	CHECK(!beside(path, "-wal") && !beside(path, "-shm") && !beside(path, "-journal"));

	REQUIRE((r = fixture_open(path)) != NULL);
	const struct reader_meta *metas = reader_metas(r, &nr);
	REQUIRE(nr == 1);
	CHECK_STR(metas[0].key, "rate_hz");
	CHECK_STR(metas[0].value, "99");
	threads = reader_threads(r, &nr);
	CHECK_EQ(nr, 1);
	CHECK_STR(threads[0].comm, "renamed");
	CHECK_STR(threads[0].runtime_name, "worker 1");
	CHECK_EQ(threads[0].process->pid, 42);
	CHECK_EQ(threads[0].process->start_time, 4711);
	CHECK_STR(threads[0].process->command_line, "ruby app.rb");
	losses = reader_losses(r, &nr);
	CHECK(nr == 1 && losses[0].count == 17);
	CHECK_EQ(reader_each_stack(r, NULL, sum_up, &t, NULL), 0);
	CHECK_EQ(t.stacks, 1);
	CHECK_EQ(t.samples, 2);
	CHECK_EQ(t.weight, 10);
	CHECK_EQ(t.nr_frames, 3);
	CHECK_EQ(t.outcome, STACK_TRUNCATED);
	CHECK_EQ(t.reason, REASON_NO_CFI);
	CHECK_STR(t.last.name, leaf.name);
	CHECK_STR(t.last.owner, "");
	CHECK_STR(t.last.method, leaf.method);
	CHECK_EQ(t.last.first_line, leaf.first_line);
	CHECK_STR(t.last.library, leaf.library);
	CHECK_STR(t.last.build_id, leaf.build_id);
	CHECK_EQ(t.last.kind, leaf.kind);
	CHECK_EQ(t.last.role, leaf.role);
	CHECK_EQ(t.last.flags, leaf.flags);
	CHECK_EQ(t.last.line, leaf.line);
	CHECK_EQ(t.last.addr, leaf.addr);
	CHECK_EQ(t.last.func_addr, leaf.func_addr);
	CHECK_EQ(t.last.file_off, leaf.file_off);
	reader_free(r);
}

TEST(functions_of_one_name_are_told_apart_by_first_line_and_by_method)
{
	const char *path = fixture_path("functions.rprof");
	struct frame frames[6] = {ruby_frame("block in <main>", 5),
	        ruby_frame("block in <main>", 6), ruby_frame("block in <main>", 9),
	        ruby_frame("block in <main>", 9), ruby_frame("block in <main>", 9),
	        ruby_frame("block in <main>", 9)};
	struct reader *r;
	struct fixture f;

	frames[0].first_line = frames[1].first_line = 4; /* one function at two lines */
	frames[2].first_line = frames[3].first_line = frames[4].first_line = 8;
	frames[3].method = "A#b";
	frames[4].method = "A#c";
	fixture_create(&f, path);
	fixture_sample(&f, f.thread, f.cpu, 1, frames, 6);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	REQUIRE(reader_nr_functions(r) == 5);
	for (uint32_t id = 1; id <= 5; id++) {
		struct frame function = reader_function(r, id);

		CHECK_EQ(function.first_line, frames[id].first_line);
		CHECK_STR(function.method, frames[id].method);
		CHECK_EQ(function.line, 0);
	}
	reader_free(r);
}

TEST(a_recording_of_before_there_were_first_lines_is_read)
{
	const char *path = fixture_path("before.rprof");
	struct totals t = {0};
	struct reader *r;
	sqlite3 *db;

	write_small(path, 3);
	REQUIRE(sqlite3_open(path, &db) == SQLITE_OK);
	CHECK_EQ(sqlite3_exec(db,
	                 "DROP VIEW named_frame; ALTER TABLE function DROP COLUMN first_line;"
	                 "ALTER TABLE function DROP COLUMN method",
	                 NULL, NULL, NULL),
	        SQLITE_OK);
	sqlite3_close(db);
	REQUIRE((r = fixture_open(path)) != NULL);
	CHECK_EQ(reader_each_stack(r, NULL, sum_up, &t, NULL), 0);
	CHECK_EQ(t.samples, 3);
	CHECK_STR(t.last.name, "Foo#bar");
	CHECK_EQ(t.last.first_line, 0);
	CHECK(t.last.method == NULL);
	reader_free(r);
}

TEST(the_views_have_first_line_and_method)
{
	const char *path = fixture_path("view.rprof");
	struct frame frame = ruby_frame("block in <main>", 9);
	sqlite3_stmt *stmt = NULL;
	struct fixture f;
	sqlite3 *db;

	frame.first_line = 8;
	frame.method = "A#b";
	fixture_create(&f, path);
	fixture_sample(&f, f.thread, f.cpu, 1, &frame, 1);
	recording_close(f.rec, NULL);
	REQUIRE(sqlite3_open(path, &db) == SQLITE_OK);
	REQUIRE(sqlite3_prepare_v2(db, "SELECT first_line, method FROM named_frame", -1, &stmt,
	                NULL) == SQLITE_OK);
	CHECK_EQ(sqlite3_step(stmt), SQLITE_ROW);
	CHECK_EQ(sqlite3_column_int(stmt, 0), 8);
	CHECK_STR((const char *)sqlite3_column_text(stmt, 1), "A#b");
	sqlite3_finalize(stmt);
	sqlite3_close(db);
}

TEST(a_closed_recording_is_no_longer_in_wal_mode)
{
	const char *path = fixture_path("plain.rprof");
	struct buf b;

	write_small(path, 3);
	buf_init(&b, 1 << 24);
	REQUIRE(buf_read_file(&b, path) == 0);
	/* https://sqlite.org/fileformat.html §1.3: write and read version, 1 rollback journal, 2
	 * WAL. */
	CHECK_EQ(b.data[18], 1);
	CHECK_EQ(b.data[19], 1);
	buf_release(&b);
}

TEST(the_empty_stack_is_a_stack)
{
	const char *path = fixture_path("empty-stack.rprof");
	struct totals t = {.nr_frames = 9};
	struct reader *r;
	struct fixture f;

	fixture_create(&f, path);
	CHECK_EQ(fixture_sample(&f, f.thread, f.cpu, 1, NULL, 0), 0);
	CHECK_EQ(recording_close(f.rec, NULL), 0);
	REQUIRE((r = fixture_open(path)) != NULL);
	CHECK_EQ(reader_each_stack(r, NULL, sum_up, &t, NULL), 0);
	CHECK(t.stacks == 1 && t.nr_frames == 0);
	reader_free(r);
}

static int check_names(const struct reader_stack *s, void *ctx)
{
	const char *const **want = ctx;

	for (size_t i = 0; i < s->nr_frames; i++)
		CHECK_STR(s->frames[i].name, (*want)[i]);
	CHECK((*want)[s->nr_frames] == NULL);
	(*want) += s->nr_frames + 1;
	return 0;
}

TEST(a_stack_is_read_whole_whatever_came_before)
{
	const char *path = fixture_path("order.rprof");
	static const char *const names[] = {"a", "b", "c", "d", NULL, "x", "y", NULL, "a", "b", "c",
	        "d", NULL, "x", NULL, NULL, "x", "y", NULL, "a", "b", "c", NULL, "a", "b", "c", "d",
	        "e", NULL};
	const char *const *want = names;
	struct frame frames[8];
	struct reader *reader;
	struct fixture f;
	size_t nr = 0;

	fixture_create(&f, path);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (names[i] != NULL) {
			frames[nr++] = ruby_frame(names[i], 1);
		} else {
			fixture_sample(&f, f.thread, f.cpu, 10, frames, nr);
			nr = 0;
		}
	}
	recording_close(f.rec, NULL);
	REQUIRE(reader_open(path, &reader, NULL) == 0);
	CHECK_EQ(reader_each_sample(reader, NULL, check_names, &want, NULL), 0);
	CHECK(want == names + ARRAY_SIZE(names));
	reader_free(reader);
}

/* What a short recording consists of: parts of pages. */
TEST(a_recording_of_little_takes_little)
{
	const char *path = fixture_path("little.rprof");

	write_small(path, 100);
	CHECK(size_of(path) > 0 && size_of(path) <= 40 * 1024);
}

TEST(a_sample_costs_at_most_40_bytes)
{
	const char *path = fixture_path("size.rprof");
	struct frame frame = ruby_frame("<main>", 1);
	off_t before, after;
	struct fixture f;

	write_small(path, 1);
	before = size_of(path);
	fixture_create(&f, path);
	f.time_ns = 1ull << 46;
	for (int i = 0; i < 20000; i++, f.time_ns += 10101010)
		fixture_sample(&f, f.thread, f.cpu, 10101010, &frame, 1);
	recording_close(f.rec, NULL);
	after = size_of(path);
	CHECK(after - before <= 40 * 20000);
}

/* Ends the child by SIGKILL between a commit and the next; it says through the pipe when it is
 * there. */
static void killed_recorder(const char *path)
{
	struct frame frames[2] = {ruby_frame("<main>", 1), ruby_frame("work", 2)};
	struct fixture f;
	char byte;
	int fds[2];
	pid_t child;

	if (pipe(fds) != 0)
		abort();
	child = fork();
	if (child == 0) {
		fixture_create(&f, path);
		for (int i = 0; i < 1000; i++)
			fixture_sample(&f, f.thread, f.cpu, 1, frames, 2);
		recording_commit(f.rec, NULL);
		for (int i = 0; i < 500; i++)
			fixture_sample(&f, f.thread, f.cpu, 1, frames, 1);
		if (write(fds[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(fds[1]);
	if (read(fds[0], &byte, 1) != 1)
		printf("# the child failed\n");
	close(fds[0]);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

TEST(a_killed_recorder_leaves_all_that_it_committed)
{
	const char *path = fixture_path("killed.rprof");
	struct totals t = {0};
	struct reader *r;

	killed_recorder(path);
	REQUIRE((r = fixture_open(path)) != NULL);
	CHECK_EQ(reader_each_stack(r, NULL, sum_up, &t, NULL), 0);
	CHECK_EQ(t.samples, 1000);
	reader_free(r);
}

TEST(a_killed_recording_is_read_where_nothing_may_be_written)
{
	const char *path = fixture_path("ro/killed.rprof");
	char name[300], dir[300];
	pid_t child;
	int status = 1;

	snprintf(dir, sizeof(dir), "%s", fixture_path("ro"));
	REQUIRE(mkdir(dir, 0755) == 0);
	killed_recorder(path);
	/* As copied without its index: SQLite would have to make it. */
	snprintf(name, sizeof(name), "%s-shm", path);
	unlink(name);
	snprintf(name, sizeof(name), "%s-wal", path);
	chmod(name, 0444);
	chmod(path, 0444);
	chmod(dir, 0555);
	chmod(fixture_dir, 0755);
	child = fork();
	if (child == 0) {
		struct totals t = {0};
		struct reader *r;

		if (getuid() == 0 && setuid(65534) != 0)
			_exit(2);
		r = fixture_open(path);
		if (r == NULL || reader_each_stack(r, NULL, sum_up, &t, NULL) != 0)
			_exit(3);
		reader_free(r);
		_exit(t.samples == 1000 ? 0 : 4);
	}
	waitpid(child, &status, 0);
	chmod(dir, 0755);
	CHECK_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : 99, 0);
}

TEST(a_recording_is_read_while_it_is_written)
{
	const char *path = fixture_path("live.rprof");
	struct frame frame = ruby_frame("<main>", 1);
	struct totals t = {0};
	struct reader *r;
	struct fixture f;

	fixture_create(&f, path);
	fixture_sample(&f, f.thread, f.cpu, 1, &frame, 1);
	CHECK_EQ(recording_commit(f.rec, NULL), 0);
	fixture_sample(&f, f.thread, f.cpu, 1, &frame, 1);
	/* Through another process, as in life: this one's locks do not stand against itself. */
	fflush(stdout);
	pid_t child = fork();

	if (child == 0) {
		r = fixture_open(path);
		_exit(r == NULL || reader_each_stack(r, NULL, sum_up, &t, NULL) != 0 ||
		        t.samples != 1);
	}
	int status = 1;

	waitpid(child, &status, 0);
	CHECK_EQ(status, 0);
	CHECK_EQ(recording_close(f.rec, NULL), 0);
}

TEST(a_second_recorder_is_kept_off)
{
	const char *path = fixture_path("twice.rprof");
	struct recording *second = NULL;
	struct err err = {0};
	struct fixture f;

	fixture_create(&f, path);
	CHECK_EQ(-recording_create(path, &second, &err), EBUSY);
	CHECK(strstr(err.msg, "another rprof") != NULL);
	CHECK(second == NULL);
	recording_close(f.rec, NULL);
}

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	fputs(text, file);
	fclose(file);
}

TEST(creation_that_fails_leaves_nothing_new_and_says_why)
{
	const char *text = fixture_path("notes.txt"), *missing = fixture_path("no/such/x.rprof");
	struct recording *rec = NULL;
	struct err err = {0};

	write_text(text, "my notes, which are longer than nothing\n");
	CHECK_EQ(-recording_create(text, &rec, &err), EEXIST);
	CHECK(strstr(err.msg, "is no recording") != NULL);
	CHECK_EQ(size_of(text), 40);
	CHECK_EQ(-recording_create(missing, &rec, &err), ENOENT);
	CHECK(strstr(err.msg, "directory") != NULL);
	CHECK_EQ(-recording_create(fixture_dir, &rec, &err), EISDIR);
	CHECK_EQ(-recording_create("/dev/null", &rec, &err), EEXIST);
	CHECK_EQ(-recording_create("", &rec, &err), ENOENT);
	CHECK(rec == NULL);
}

TEST(a_recording_replaces_an_older_one_and_its_log)
{
	const char *path = fixture_path("again.rprof");
	struct totals t = {0};
	struct reader *r;

	killed_recorder(path);
	CHECK(beside(path, "-wal"));
	write_small(path, 3);
	REQUIRE((r = fixture_open(path)) != NULL);
	CHECK_EQ(reader_each_stack(r, NULL, sum_up, &t, NULL), 0);
	CHECK_EQ(t.samples, 3);
	reader_free(r);
}

/* In a child: the limit holds for all that a process writes. */
static int fill_the_disk(const char *path, bool while_creating)
{
	struct rlimit limit = {while_creating ? 8192 : 400000, while_creating ? 8192 : 400000};
	struct frame frame = ruby_frame("<main>", 1);
	struct err err = {0};
	struct recording *rec;
	struct fixture f;
	uint64_t safe = 0, added = 0;
	struct totals t = {0};
	struct reader *r;
	int rc = 0;

	signal(SIGXFSZ, SIG_IGN);
	if (while_creating) {
		setrlimit(RLIMIT_FSIZE, &limit);
		rc = recording_create(path, &rec, &err);
		return rc == -ENOSPC && access(path, F_OK) != 0 && strstr(err.msg, "full") != NULL
		               ? 0
		               : 1;
	}
	fixture_create(&f, path);
	setrlimit(RLIMIT_FSIZE, &limit);
	for (int i = 0; rc == 0 && i < 1000; i++) {
		for (int k = 0; k < 200; k++)
			added += fixture_sample(&f, f.thread, f.cpu, 1, &frame, 1) == 0;
		rc = recording_commit(f.rec, &err);
		if (rc == 0)
			safe = added;
	}
	if (rc != -ENOSPC || strstr(err.msg, "full") == NULL)
		return 2;
	if (recording_add_trigger(f.rec, "late", "calls", &f.cpu) != -ENOSPC)
		return 3;
	err = (struct err){0};
	if (recording_close(f.rec, &err) != -ENOSPC || strstr(err.msg, "full") == NULL)
		return 4;
	r = fixture_open(path);
	if (r == NULL || reader_each_stack(r, NULL, sum_up, &t, NULL) != 0)
		return 5;
	reader_free(r);
	printf("# %d samples were safe when the disk was full\n", (int)safe);
	fflush(stdout);
	return safe > 1000 && t.samples == safe ? 0 : 6;
}

static int in_child(int (*fn)(const char *, bool), const char *path, bool flag)
{
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(fn(path, flag));
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

TEST(a_full_disk_keeps_what_was_committed)
{
	CHECK_EQ(in_child(fill_the_disk, fixture_path("full.rprof"), false), 0);
}

TEST(a_full_disk_at_creation_leaves_no_file)
{
	CHECK_EQ(in_child(fill_the_disk, fixture_path("full-new.rprof"), true), 0);
}

/* Reads all there is of a file that may be broken; the sentence must be there when it fails. */
static bool survives(const char *path, bool *failed)
{
	struct totals t = {0};
	struct reader *r = NULL;
	struct err err = {0};
	int rc = reader_open(path, &r, &err);

	if (rc == 0)
		rc = reader_each_stack(r, NULL, sum_up, &t, &err);
	reader_free(r);
	*failed = rc != 0;
	return rc == 0 || (rc < 0 && err.code == rc && strlen(err.msg) > 10);
}

TEST(a_truncated_file_is_refused_at_every_length)
{
	const char *path = fixture_path("whole.rprof"), *cut = fixture_path("cut.rprof");
	struct buf b;
	bool failed;

	write_small(path, 3000);
	buf_init(&b, 1 << 24);
	REQUIRE(buf_read_file(&b, path) == 0);
	for (size_t len = 0; len < b.len; len += len < 300 ? 7 : 997) {
		FILE *file = fopen(cut, "w");

		fwrite(b.data, 1, len, file);
		fclose(file);
		if (!survives(cut, &failed) || !failed)
			TAP_FAIL("cut to %zu bytes: %s", len, failed ? "no sentence" : "accepted");
	}
	buf_release(&b);
}

TEST(damage_anywhere_never_crashes)
{
	const char *path = fixture_path("sound.rprof"), *broken = fixture_path("broken.rprof");
	size_t nr_refused = 0, nr = 0;
	struct buf b;
	bool failed;

	write_small(path, 300);
	buf_init(&b, 1 << 24);
	REQUIRE(buf_read_file(&b, path) == 0);
	for (size_t at = 0; at < b.len; at += 61, nr++) {
		FILE *file = fopen(broken, "w");
		char keep[4];

		memcpy(keep, b.data + at, MIN(sizeof(keep), b.len - at));
		memset(b.data + at, at % 2 == 0 ? 0xff : 0x7f, MIN(sizeof(keep), b.len - at));
		fwrite(b.data, 1, b.len, file);
		fclose(file);
		memcpy(b.data + at, keep, MIN(sizeof(keep), b.len - at));
		if (!survives(broken, &failed))
			TAP_FAIL("damaged at %zu: no sentence", at);
		nr_refused += failed;
	}
	printf("# %zu of %zu damaged files refused\n", nr_refused, nr);
	CHECK(nr_refused > 0);
	buf_release(&b);
}

/* A sound database with wrong content. */
static int refused_after(const char *sql, const char *want)
{
	const char *path = fixture_path("content.rprof");
	struct totals t = {0};
	struct reader *r = NULL;
	struct err err = {0};
	sqlite3 *db;
	int rc;

	write_small(path, 3);
	sqlite3_open(path, &db);
	rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
	sqlite3_close(db);
	if (rc != SQLITE_OK)
		return 0;
	rc = reader_open(path, &r, &err);
	if (rc == 0)
		rc = reader_each_stack(r, NULL, sum_up, &t, &err);
	reader_free(r);
	if (rc == 0 || strstr(err.msg, want) == NULL) {
		printf("# %s: %d %s\n", sql, rc, err.msg);
		return 0;
	}
	return rc;
}

TEST(content_that_makes_no_sense_is_refused)
{
	CHECK_EQ(refused_after("UPDATE stack SET parent = id", "damaged"), -EBADMSG);
	CHECK_EQ(refused_after("UPDATE stack SET frame = 4000000000", "damaged"), -EBADMSG);
	CHECK_EQ(refused_after("UPDATE frame SET function = -1", "damaged"), -EBADMSG);
	CHECK_EQ(refused_after("UPDATE function SET first_line = -1", "damaged"), -EBADMSG);
	CHECK_EQ(refused_after("UPDATE function SET first_line = 1 << 32", "damaged"), -EBADMSG);
	CHECK_EQ(refused_after("UPDATE sample SET thread = 99", "damaged"), -EBADMSG);
	CHECK_EQ(refused_after("UPDATE sample SET weight = -1", "damaged"), -EBADMSG);
	CHECK_EQ(refused_after("UPDATE function SET id = 1 << 60 WHERE id = 1", "damaged"),
	        -EBADMSG);
	CHECK_EQ(refused_after("DROP VIEW named_sample; DROP VIEW named_frame; DROP TABLE loss",
	                 "no table"),
	        -EBADMSG);
	CHECK_EQ(
	        refused_after("DROP TABLE loss; CREATE VIEW loss AS SELECT 'a' AS what, 1 AS count",
	                "no table"),
	        -EBADMSG);
	CHECK_EQ(refused_after("ALTER TABLE sample RENAME COLUMN weight TO wait", "damaged"),
	        -EBADMSG);
	CHECK_EQ(refused_after("PRAGMA user_version = 2", "newer"), -EPROTONOSUPPORT);
	CHECK_EQ(refused_after("PRAGMA application_id = 1", "no recording"), -EBADMSG);
}

TEST(what_is_no_recording_is_named)
{
	const char *text = fixture_path("text.rprof"), *empty = fixture_path("empty.rprof");
	struct reader *r = NULL;
	struct err err = {0};

	write_text(text, "hello\n");
	write_text(empty, "");
	CHECK_EQ(-reader_open(text, &r, &err), EBADMSG);
	CHECK(strstr(err.msg, "is no recording") != NULL);
	CHECK_EQ(-reader_open(empty, &r, &err), EBADMSG);
	CHECK(strstr(err.msg, "empty") != NULL);
	CHECK_EQ(-reader_open(fixture_path("absent"), &r, &err), ENOENT);
	CHECK_EQ(-reader_open(fixture_dir, &r, &err), EISDIR);
	CHECK(r == NULL);
}

TEST(ids_that_were_never_given_are_refused)
{
	struct recording_sample s = {.thread = 9, .trigger = 1, .outcome = STACK_EXACT};
	struct fixture f;

	fixture_create(&f, fixture_path("ids.rprof"));
	CHECK_EQ(-recording_add_sample(f.rec, &s), EINVAL);
	CHECK_EQ(-recording_close(f.rec, NULL), EINVAL);
}

TEST(filters_take_what_they_name)
{
	const char *path = fixture_path("filter.rprof");
	struct frame frame = ruby_frame("<main>", 1);
	struct reader_filter filter = {0};
	struct totals t = {0};
	uint32_t thread, opens;
	struct reader *r;
	struct fixture f;

	fixture_create(&f, path);
	recording_add_thread(f.rec, f.process, 44, "other", NULL, &thread);
	recording_add_trigger(f.rec, "syscall:openat", "calls", &opens);
	fixture_sample(&f, f.thread, f.cpu, 100, &frame, 1);
	fixture_sample(&f, thread, f.cpu, 10, &frame, 1);
	fixture_sample(&f, thread, opens, 1, &frame, 1);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	filter.tid = 44;
	CHECK_EQ(reader_each_stack(r, &filter, sum_up, &t, NULL), 0);
	CHECK_EQ(t.weight, 11);
	filter.trigger = "syscall:openat";
	t = (struct totals){0};
	CHECK_EQ(reader_each_sample(r, &filter, sum_up, &t, NULL), 0);
	CHECK_EQ(t.weight, 1);
	filter = (struct reader_filter){.pid = 41};
	t = (struct totals){0};
	CHECK_EQ(reader_each_sample(r, &filter, sum_up, &t, NULL), 0);
	CHECK_EQ(t.samples, 0);
	reader_free(r);
}

/* A reason is that of stacks in which no frame is missing, or of those that are cut. */
TEST(each_reason_is_of_one_outcome)
{
	static const enum stack_reason transient[] = {REASON_PUSHING, REASON_POPPING,
	        REASON_FIBER_SWITCH, REASON_MISPAIRED, REASON_UNPLACED, REASON_LATE_NAME,
	        REASON_LINE, REASON_SIGNAL_STACK, REASON_GC_PLACE};

	for (int reason = 0; reason < STACK_NR_REASONS; reason++) {
		bool want = false;

		for (size_t i = 0; i < ARRAY_SIZE(transient); i++)
			want |= transient[i] == (enum stack_reason)reason;
		if (stack_reason_is_transient((enum stack_reason)reason) != want)
			TAP_FAIL("reason %d", reason);
	}
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
