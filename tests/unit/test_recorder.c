/*
 * The recorder without a kernel side: this file has the functions of record/kernel.h, whose buffer
 * holds what a test puts there, and one runtime, which knows a process that sleeps. Time is real,
 * but nothing is said of how long anything takes.
 *
 * The linker leads malloc and its kin here (Makefile), so that each allocation can fail once.
 */
#include "base/base.h"
#include "record/kept_walk.h"
#include "record/recorder.h"
#include "runtimes/runtime.h"
#include "tests/unit/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t nr_allocations, failing; /* the one with this number fails; 0: none */

static bool fails(void)
{
	bool yes = ++nr_allocations == failing;

	if (yes)
		errno = ENOMEM;
	return yes;
}

void *__real_malloc(size_t sz);
void *__real_calloc(size_t nr, size_t sz);
void *__real_realloc(void *p, size_t sz);
void *__real_reallocarray(void *p, size_t nr, size_t sz);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t sz);
void *__wrap_calloc(size_t nr, size_t sz);
void *__wrap_realloc(void *p, size_t sz);
void *__wrap_reallocarray(void *p, size_t nr, size_t sz);
char *__wrap_strdup(const char *s);
int __wrap_asprintf(char **out, const char *fmt, ...) PRINTF_LIKE(2, 3);

void *__wrap_malloc(size_t sz)
{
	return fails() ? NULL : __real_malloc(sz);
}

void *__wrap_calloc(size_t nr, size_t sz)
{
	return fails() ? NULL : __real_calloc(nr, sz);
}

void *__wrap_realloc(void *p, size_t sz)
{
	return fails() ? NULL : __real_realloc(p, sz);
}

void *__wrap_reallocarray(void *p, size_t nr, size_t sz)
{
	return fails() ? NULL : __real_reallocarray(p, nr, sz);
}

char *__wrap_strdup(const char *s)
{
	return fails() ? NULL : __real_strdup(s);
}

int __wrap_asprintf(char **out, const char *fmt, ...)
{
	va_list args;
	int rc;

	if (fails())
		return -1;
	va_start(args, fmt);
	rc = vasprintf(out, fmt, args);
	va_end(args);
	return rc;
}

/* ---- the process ----------------------------------------------------------------------------- */

static pid_t sleeper;

/* A process of a small program, that runs nothing of ours any more when this returns. */
static void sleeper_start(void)
{
	int fds[2];
	char c;

	if (pipe2(fds, O_CLOEXEC) != 0)
		abort();
	sleeper = fork();
	if (sleeper == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sleep", "sleep", "1000", NULL);
		_exit(1);
	}
	close(fds[1]);
	while (read(fds[0], &c, 1) < 0)
		;
	close(fds[0]);
}

static void sleeper_kill(void)
{
	if (sleeper > 0) {
		kill(sleeper, SIGKILL);
		waitpid(sleeper, NULL, 0);
	}
	sleeper = 0;
}

/* ---- its runtime ----------------------------------------------------------------------------- */

struct runtime {
	struct dso *dso;
	uint64_t nr_captured;
};

static uint64_t code_addr; /* in the program's own code */
static int attach_rc;

static int made_up_attach(const struct target *target, const struct maps *maps,
        struct dso_cache *dsos, struct runtime **out, struct err *err)
{
	if (attach_rc != 0)
		return attach_rc;
	for (size_t i = 0; i < maps->nr; i++) {
		const struct mapping *m = &maps->v[i];
		struct dso *dso;
		int rc;

		if (!(m->prot & MAPS_PROT_EXEC) || strstr(m->path, "/sleep") == NULL)
			continue;
		rc = dso_cache_get(dsos, target, m, &dso, err);
		if (rc != 0)
			return rc;
		*out = calloc(1, sizeof(**out));
		if (*out == NULL)
			return err_set(err, -ENOMEM, "out of memory");
		(*out)->dso = dso;
		code_addr = m->start + 0x1000;
		return 0;
	}
	return -ENOENT;
}

static void made_up_free(struct runtime *rt)
{
	free(rt);
}

static void made_up_config(const struct runtime *rt, void *out)
{
}

static void made_up_class(
        const struct runtime *rt, const struct interp_frame *f, struct interp_desc *out)
{
	*out = (struct interp_desc){.class = STITCH_CODE, .ends_run = true};
}

static void made_up_captured(struct runtime *rt, const struct rprof_capture *capture, size_t size)
{
	rt->nr_captured++;
}

static void made_up_resolve(struct runtime *rt, const struct interp_frame *f, bool leaf,
        const struct interp_moment *when, struct interp_info *out)
{
	out->frame = (struct frame){
	        .kind = FRAME_INTERP, .name = "made_up", .path = "/made/up", .line = 1};
	out->flags = INTERP_RESOLVED;
}

static enum stitch_native_role made_up_role(const struct runtime *rt, uint64_t pc)
{
	return pc >= code_addr && pc < code_addr + 64 ? STITCH_ENTRY : STITCH_PLAIN;
}

static const struct dso *made_up_dso(const struct runtime *rt)
{
	return rt->dso;
}

static void made_up_thread_name(struct runtime *rt, uint64_t context, char *out, size_t n)
{
	snprintf(out, n, "sleeper");
}

static const char *made_up_description(const struct runtime *rt)
{
	return "made-up 1.0";
}

static const struct runtime_ops made_up = {
        .name = "madeup",
        .id = 1,
        .attach = made_up_attach,
        .free = made_up_free,
        .walker_config = made_up_config,
        .frame_class = made_up_class,
        .captured = made_up_captured,
        .resolve = made_up_resolve,
        .native_role = made_up_role,
        .dso = made_up_dso,
        .thread_name = made_up_thread_name,
        .description = made_up_description,
};
const struct runtime_ops *const runtimes[] = {&made_up, NULL};

/* ---- the kernel side ------------------------------------------------------------------------- */

struct kernel {
	struct process *const *processes;
	size_t nr_processes;
};

/* What a test makes the kernel side do, and what the recorder did to it. */
static struct {
	int new_rc, start_rc;
	unsigned nr_records; /* in the buffer now */
	bool endless;        /* there is always one more */
	bool captures;       /* each has a capture before it */
	uint32_t trigger;    /* of the records */
	void (*round)(void); /* called when the buffer is asked for, before stop */
	uint64_t end_ns;     /* as it was told */
	unsigned nr_rounds, nr_updates, nr_removed;
	uint64_t nr_sent;
	bool started, stopped;
	bool map_note; /* there is a note of new mappings */
	int ring_fd;
	struct kernel_stats stats;
} side;

int kernel_new(const struct trigger_options *options, struct process *const *processes,
        size_t nr_processes, struct kernel **out, struct err *err)
{
	struct kernel *s;

	if (side.new_rc != 0)
		return err_set(err, side.new_rc, "made-up trouble");
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	*s = (struct kernel){processes, nr_processes};
	for (size_t i = 0; i < nr_processes; i++)
		kernel_update_process(s, processes[i], err);
	side.ring_fd = eventfd(0, EFD_CLOEXEC);
	*out = s;
	return 0;
}

void kernel_free(struct kernel *s)
{
	if (s == NULL)
		return;
	close(side.ring_fd);
	free(s);
}

int kernel_update_process(struct kernel *s, struct process *p, struct err *err)
{
	p->told_generation = p->generation;
	p->rt_tag = 1;
	side.nr_updates++;
	return 0;
}

void kernel_remove_process(struct kernel *s, struct process *p)
{
	side.nr_removed++;
}

int kernel_start(struct kernel *s, uint64_t end_ns, struct err *err)
{
	side.end_ns = end_ns;
	if (side.start_rc != 0)
		return err_set(err, side.start_rc, "made-up trouble");
	side.started = true;
	return 0;
}

void kernel_stop(struct kernel *s)
{
	side.stopped = true;
	side.endless = false;
}

int kernel_ring_fd(const struct kernel *s)
{
	return side.ring_fd;
}

int kernel_sideband_fd(const struct kernel *s)
{
	return -1;
}

/* An activation of the interpreter that runs one frame. */
static void send_one(struct kernel *s, const struct kernel_sink *sink)
{
	struct {
		struct rprof_sample s;
		uint64_t native[2];
		struct interp_frame interp[1];
	} record = {
	        .s = {.record = {RECORD_SAMPLE, sizeof(record)},
	                .time_ns = 1000 + side.nr_sent,
	                .tgid = (uint32_t)s->processes[0]->target.pid,
	                .tid = (uint32_t)s->processes[0]->target.pid,
	                .trigger = (uint16_t)side.trigger,
	                .nr_native = 2,
	                .nr_interp = 1,
	                .native_outcome = WALK_ROOT,
	                .interp_outcome = WALK_ROOT,
	                .context = 1,
	                .comm = "sleep",
	                .tag = 1},
	        .native = {code_addr + 10, code_addr + 100},
	};
	struct rprof_capture capture = {
	        .record = {RECORD_CAPTURE, sizeof(capture)}, .tgid = record.s.tgid, .tag = 1};

	if (side.captures)
		sink->capture(sink->ctx, &capture, sizeof(capture));
	sink->sample(sink->ctx, &record.s, sizeof(record));
	side.nr_sent++;
}

bool kernel_drain(struct kernel *s, const struct kernel_sink *sink)
{
	side.nr_rounds++;
	if (side.round != NULL && !side.stopped)
		side.round();
	while (side.endless || side.nr_records != 0) {
		side.nr_records -= !side.endless;
		send_one(s, sink);
		if (!sink->more(sink->ctx))
			return false;
	}
	return true;
}

bool kernel_mapped(struct kernel *s, void (*fn)(void *ctx, int pid), void *ctx)
{
	bool any = side.map_note;

	side.map_note = false;
	if (any)
		fn(ctx, 0);
	return any;
}

void kernel_stats(const struct kernel *s, struct kernel_stats *out)
{
	*out = side.stats;
	out->samples = side.nr_sent;
}

/* ---- a recording ----------------------------------------------------------------------------- */

static volatile sig_atomic_t stop;
static char path[64];
static struct recorder *recorder;
static enum recorder_step step;
static struct err err;

static const struct recorder_options plain = {
        .pids = &sleeper,
        .nr_pids = 1,
        .triggers = {.rate_hz = 100},
        .path = path,
        .command = "rprof record of a test",
        .stop = &stop,
};

static void prepare(void)
{
	memset(&side, 0, sizeof(side));
	side.trigger = TRIGGER_CPU;
	side.ring_fd = -1;
	err = (struct err){0};
	step = (enum recorder_step)0;
	stop = 0;
	attach_rc = 0;
	/* Where a file costs no wait for a disk. */
	snprintf(path, sizeof(path), "%s/rprof-recorder-%d.rprof",
	        access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
	unlink(path);
	if (sleeper == 0)
		sleeper_start();
}

static void end(void)
{
	recorder_free(recorder);
	recorder = NULL;
	unlink(path);
}

/* The answer to a question that has one number; UINT64_MAX: none. */
static uint64_t ask(const char *sql)
{
	uint64_t answer = UINT64_MAX;
	sqlite3_stmt *stmt = NULL;
	sqlite3 *db = NULL;

	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
	        sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
	        sqlite3_step(stmt) == SQLITE_ROW)
		answer = (uint64_t)sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return answer;
}

/* Three records come, then the recorder is stopped. */
static void three_and_stop(void)
{
	side.nr_records = 3;
	stop = 1;
}

TEST(samples_go_into_the_recording)
{
	struct recorder_facts f;

	prepare();
	side.round = three_and_stop;
	side.captures = true;
	side.stats.lost = 5;
	side.stats.missed = 2;
	REQUIRE(recorder_new(&plain, &recorder, &step, &err) == 0);
	CHECK(!side.started);
	CHECK_EQ(recorder_run(recorder, &step, &err), 0);
	CHECK(side.started && side.stopped);
	CHECK_EQ(side.end_ns, 0);
	recorder_facts(recorder, &f);
	CHECK_EQ(f.pipeline.stored.samples, 3);
	CHECK_EQ(f.pipeline.stored.outcome[STACK_EXACT], 3);
	CHECK_EQ(f.pipeline.stored.threads, 1);
	CHECK_EQ(f.pipeline.bad_records, 0);
	CHECK_EQ(f.lost, 7);
	CHECK(!f.all_exited);
	CHECK_STR(f.path, path);
	CHECK_EQ(recorder_unsampled(recorder, &err), 0);
	end();
}

TEST(the_recording_says_what_it_is_of)
{
	prepare();
	side.round = three_and_stop;
	side.stats.lost = 5;
	REQUIRE(recorder_new(&plain, &recorder, &step, &err) == 0);
	REQUIRE(recorder_run(recorder, &step, &err) == 0);
	CHECK_EQ(ask("SELECT count(*) FROM sample"), 3);
	CHECK_EQ(ask("SELECT sum(weight) FROM sample"), 30000000);
	CHECK_EQ(ask("SELECT count(*) FROM named_frame WHERE kind = 'madeup' AND name = 'made_up'"),
	        1);
	CHECK_EQ(ask("SELECT pid FROM process"), sleeper);
	CHECK_EQ(ask("SELECT count(*) FROM process WHERE runtime_description = 'made-up 1.0'"), 1);
	CHECK_EQ(ask("SELECT count(*) FROM thread WHERE runtime_name = 'sleeper'"), 1);
	CHECK_EQ(ask("SELECT count FROM loss WHERE what = 'ring-buffer-full'"), 5);
	CHECK_EQ(ask("SELECT value FROM meta WHERE key = 'rate_hz'"), 100);
	CHECK_EQ(
	        ask("SELECT count(*) FROM meta WHERE key IN ('command', 'start_ns', 'duration_ns', "
	            "'started_at', 'kernel', 'recorder_cpu_ns', 'bpf_runs')"),
	        7);
	end();
}

TEST(a_record_of_no_known_trigger_is_a_bad_one)
{
	struct recorder_facts f;

	prepare();
	side.round = three_and_stop;
	side.trigger = 99;
	REQUIRE(recorder_new(&plain, &recorder, &step, &err) == 0);
	CHECK_EQ(recorder_run(recorder, &step, &err), 0);
	recorder_facts(recorder, &f);
	CHECK_EQ(f.pipeline.stored.samples, 0);
	CHECK_EQ(f.pipeline.bad_records, 3);
	end();
}

/* However many records there are: the buffer is never empty. */
TEST(a_duration_ends_a_recording)
{
	struct recorder_options options = plain;
	struct recorder_facts f;

	prepare();
	side.endless = true;
	options.duration_ns = 100000000;
	REQUIRE(recorder_new(&options, &recorder, &step, &err) == 0);
	CHECK_EQ(recorder_run(recorder, &step, &err), 0);
	recorder_facts(recorder, &f);
	CHECK_EQ(f.duration_ns, options.duration_ns);
	CHECK_EQ(side.end_ns - ask("SELECT value FROM meta WHERE key = 'start_ns'"),
	        options.duration_ns);
	CHECK_EQ(f.pipeline.stored.samples, side.nr_sent);
	end();
}

static unsigned nr_until_stop;

static void stop_later(void)
{
	side.endless = true;
	if (nr_until_stop != 0 && --nr_until_stop == 0)
		stop = 1;
}

TEST(a_stop_ends_an_endless_stream)
{
	struct recorder_facts f;

	prepare();
	nr_until_stop = 3;
	side.round = stop_later;
	REQUIRE(recorder_new(&plain, &recorder, &step, &err) == 0);
	CHECK_EQ(recorder_run(recorder, &step, &err), 0);
	recorder_facts(recorder, &f);
	CHECK_EQ(f.pipeline.stored.samples, side.nr_sent);
	CHECK_EQ(f.unread, 0);
	end();
}

static void kill_it(void)
{
	sleeper_kill();
}

TEST(the_exit_of_the_last_process_ends_a_recording)
{
	struct recorder_facts f;
	pid_t pid;
	struct recorder_options options = plain;

	prepare();
	pid = sleeper;
	options.pids = &pid;
	side.round = kill_it;
	side.nr_records = 2;
	REQUIRE(recorder_new(&options, &recorder, &step, &err) == 0);
	CHECK_EQ(recorder_run(recorder, &step, &err), 0);
	recorder_facts(recorder, &f);
	CHECK(f.all_exited);
	CHECK_EQ(side.nr_removed, 1);
	CHECK_EQ(f.pipeline.stored.samples, 2);
	end();
}

static uint64_t seen_in_file;

/* Reads the file as another program would, until the recorder has committed. */
static void stop_when_committed(void)
{
	side.nr_records = 1;
	seen_in_file = ask("SELECT count(*) FROM sample");
	if (seen_in_file != UINT64_MAX && seen_in_file != 0)
		stop = 1;
}

TEST(samples_are_committed_while_it_goes_on)
{
	prepare();
	side.round = stop_when_committed;
	REQUIRE(recorder_new(&plain, &recorder, &step, &err) == 0);
	CHECK_EQ(recorder_run(recorder, &step, &err), 0);
	CHECK(seen_in_file != 0 && seen_in_file != UINT64_MAX);
	end();
}

/* The table is gone: what is written into it cannot be. */
static void spoil(void)
{
	sqlite3 *db = NULL;

	side.nr_records = 1;
	if (ask("SELECT count(*) FROM sqlite_master WHERE name = 'sample'") == 0)
		return;
	if (sqlite3_open(path, &db) == SQLITE_OK)
		sqlite3_exec(db,
		        "PRAGMA foreign_keys=OFF; DROP VIEW named_sample; DROP TABLE sample", NULL,
		        NULL, NULL);
	sqlite3_close(db);
}

TEST(a_commit_that_fails_ends_a_recording_with_its_sentence)
{
	prepare();
	side.round = spoil;
	REQUIRE(recorder_new(&plain, &recorder, &step, &err) == 0);
	CHECK(recorder_run(recorder, &step, &err) != 0);
	CHECK_EQ(step, RECORDER_OUTPUT);
	CHECK(strstr(err.msg, path) != NULL);
	CHECK(side.stopped);
	end();
}

static unsigned nr_progress;

static void count_progress(void *ctx, const struct recorder *r)
{
	struct recorder_facts f;

	recorder_facts(r, &f);
	nr_progress++;
	*(uint64_t *)ctx = f.pipeline.stored.samples;
}

TEST(progress_is_told_while_events_fire)
{
	struct recorder_options options = plain;
	uint64_t samples = 0;

	prepare();
	side.round = three_and_stop;
	nr_progress = 0;
	options.progress = count_progress;
	options.ctx = &samples;
	REQUIRE(recorder_new(&options, &recorder, &step, &err) == 0);
	CHECK_EQ(nr_progress, 0);
	CHECK_EQ(recorder_run(recorder, &step, &err), 0);
	CHECK(nr_progress != 0);
	end();
}

/* A mapping that is there now and was not before: nothing changes here, so nothing is told. */
TEST(mappings_that_are_the_same_are_not_told_again)
{
	prepare();
	side.round = three_and_stop;
	side.map_note = true;
	REQUIRE(recorder_new(&plain, &recorder, &step, &err) == 0);
	CHECK_EQ(recorder_run(recorder, &step, &err), 0);
	CHECK(!side.map_note);
	CHECK_EQ(side.nr_updates, 1);
	end();
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void refused(int want_rc, enum recorder_step want_step)
{
	CHECK_EQ(-recorder_new(&plain, &recorder, &step, &err), -want_rc);
	CHECK_EQ(step, want_step);
	CHECK(err.msg[0] != '\0');
	CHECK(access(path, F_OK) != 0);
	unlink(path);
}

TEST(a_process_that_is_not_there_is_told_apart)
{
	pid_t gone = fork();
	struct recorder_options options = plain;

	if (gone == 0)
		_exit(0);
	waitpid(gone, NULL, 0);
	prepare();
	options.pids = &gone;
	CHECK_EQ(-recorder_new(&options, &recorder, &step, &err), ESRCH);
	CHECK_EQ(step, RECORDER_ATTACH);
	CHECK(access(path, F_OK) != 0);
}

TEST(a_process_without_interpreter_is_told_apart)
{
	prepare();
	attach_rc = -ENOENT;
	refused(-ENOENT, RECORDER_ATTACH);
}

TEST(a_kernel_side_that_does_not_load_leaves_no_file)
{
	prepare();
	side.new_rc = -EPERM;
	refused(-EPERM, RECORDER_LOAD);
	CHECK_STR(err.msg, "made-up trouble");
}

TEST(a_kernel_side_that_does_not_start_leaves_no_file)
{
	prepare();
	side.start_rc = -EACCES;
	REQUIRE(recorder_new(&plain, &recorder, &step, &err) == 0);
	CHECK_EQ(-recorder_run(recorder, &step, &err), EACCES);
	CHECK_EQ(step, RECORDER_START);
	recorder_free(recorder);
	recorder = NULL;
	CHECK(access(path, F_OK) != 0);
}

TEST(a_file_that_is_no_recording_stays)
{
	FILE *f;

	prepare();
	f = fopen(path, "w");
	REQUIRE(f != NULL);
	fputs("precious", f);
	fclose(f);
	CHECK(recorder_new(&plain, &recorder, &step, &err) != 0);
	CHECK_EQ(step, RECORDER_OUTPUT);
	CHECK(access(path, F_OK) == 0);
	unlink(path);
}

TEST(a_stop_before_the_start_opens_nothing)
{
	prepare();
	stop = 1;
	refused(-EINTR, RECORDER_ATTACH);
}

/* ---- no memory ------------------------------------------------------------------------------- */

/* A whole recording. False: it went wrong, which was told. */
static bool record_three(void)
{
	struct recorder_facts f;
	int rc = recorder_new(&plain, &recorder, &step, &err);

	if (rc == 0)
		rc = recorder_run(recorder, &step, &err);
	if (rc != 0) {
		CHECK(err.msg[0] != '\0');
		end();
		return false;
	}
	recorder_facts(recorder, &f);
	/* Each of the three is in the file, or counted as one that is not. */
	CHECK_EQ(f.pipeline.stored.samples + f.pipeline.bad_records, 3);
	CHECK_EQ(ask("SELECT count(*) FROM sample"), f.pipeline.stored.samples);
	end();
	return f.pipeline.bad_records == 0;
}

TEST(each_allocation_may_fail)
{
	uint64_t n, nr_told = 0;

	for (n = 1;; n++) {
		prepare();
		side.round = three_and_stop;
		side.captures = true;
		nr_allocations = 0;
		failing = n;
		nr_told += !record_three();
		failing = 0;
		if (nr_allocations < n)
			break;
		if (tap_failed) {
			printf("# allocation %" PRIu64 "\n", n);
			return;
		}
	}
	printf("# %" PRIu64 " allocations, of which %" PRIu64 " were missed\n", n - 1, nr_told);
	CHECK(n > 50);
	CHECK(nr_told > 20);
	sleeper_kill();
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
