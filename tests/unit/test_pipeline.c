/* Records in, a recording out: what is held back, what is left out, and in which order; with a
 * runtime that is made up, in this very program. */
#include "record/pipeline.h"
#include "tests/unit/failing_alloc.h"
#include "tests/unit/record_fixture.h"
#include "tests/unit/recording_query.h"
#include "tests/unit/tap.h"

#include <sys/mman.h>

static struct runtime rt;
static struct process *process;
static struct pipeline *pipeline;

/* Code to look up. */
#define FUNCTION(name, n)                                                                          \
	int name(int x);                                                                           \
	__attribute__((noinline, used)) int name(int x)                                            \
	{                                                                                          \
		__asm__ volatile("" : "+r"(x));                                                    \
		return x * (n) + 1;                                                                \
	}
FUNCTION(outer_function, 3)
FUNCTION(calling_function, 5)
FUNCTION(c_function, 7)
FUNCTION(tail_function, 9)

/* complete: where the interpreter calls C functions is known from its code. */
static void start(bool complete)
{
	const struct trigger_options options = {.rate_hz = 100};

	query_start();
	rt = (struct runtime){.sites = {0x77}, .nr_sites = complete, .thread_name = "main"};
	process = process_made(&rt);
	process->id = query_process;
	if (pipeline_new(query_rec, NULL, &options, &pipeline, NULL) != 0 ||
	        pipeline_add_process(pipeline, process, NULL) != 0)
		abort();
}

static void end(void)
{
	pipeline_free(pipeline);
	process_made_free(process);
	query_end();
}

static uint64_t in_code(void)
{
	return (uint64_t)(uintptr_t)outer_function + 4;
}

static struct pipeline_stats stats(void)
{
	struct pipeline_stats out;

	pipeline_stats(pipeline, &out);
	return out;
}

static void add(const struct rprof_sample *s)
{
	pipeline_add(pipeline, s, s->record.size);
}

/* Two frames of code with which an activation begins and goes on, and its function. */
static struct rprof_sample *whole(void)
{
	uint64_t natives[] = {in_code() | NATIVE_INTERRUPTED};
	struct rprof_sample *s = sample_made(natives, 1, 2);

	rt.entry = in_code();
	sample_frame(s, 1)->flags = ENDS_RUN;
	return s;
}

TEST(a_sample_goes_from_its_record_into_the_recording)
{
	start(true);
	add(whole());
	CHECK_EQ(stats().stored.samples, 1);
	CHECK_EQ(stats().stored.outcome[STACK_EXACT], 1);
	CHECK_EQ(stats().bad_records, 0);
	CHECK_EQ(process->nr_samples, 1);
	query_close();
	CHECK_STR(query(QUERY_STACKS), "outer_function;o2;o1");
	CHECK_STR(query("SELECT tid, comm, runtime_name FROM thread"), "11 worker main");
	end();
}

TEST(the_collector_is_called_what_the_interpreter_says)
{
	struct rprof_sample *s;

	start(true);
	s = whole();
	s->flags = SAMPLE_F_IN_GC;
	s->gc_gen = 1;
	add(s);
	query_close();
	CHECK(strstr(query(QUERY_STACKS), "(toys are put away)") != NULL);
	end();
}

TEST(kernel_frames_are_there)
{
	struct rprof_sample *s;

	start(true);
	s = sample_made(NULL, 0, 0);
	s->nr_kernel = 1;
	((uint64_t *)record_kernel(s))[0] = 0xffffffff81000010;
	s->record.size += 8;
	add(s);
	query_close();
	CHECK_STR(query(QUERY_STACKS), "[kernel]+0xffffffff81000010");
	end();
}

/* ---- records that are none ------------------------------------------------------------------ */

TEST(records_that_cannot_be_are_counted)
{
	struct rprof_sample *s;

	start(true);
	s = whole();
	s->tgid++;
	add(s);
	CHECK_EQ(stats().bad_records, 1);
	s = whole();
	pipeline_add(pipeline, s, s->record.size - 1);
	CHECK_EQ(stats().bad_records, 2);
	s->nr_interp = RPROF_MAX_INTERP + 1;
	pipeline_add(pipeline, s, 1 << 30);
	CHECK_EQ(stats().bad_records, 3);
	CHECK_EQ(stats().stored.samples, 0);
	end();
}

TEST(captures_go_to_the_interpreter_that_they_are_of)
{
	struct rprof_capture capture = {.tgid = (uint32_t)getpid(), .tag = TAG};

	start(true);
	pipeline_capture(pipeline, &capture, sizeof(capture));
	CHECK_EQ(rt.nr_captured, 1);
	CHECK_EQ(stats().bad_records, 0);
	capture.tag++;
	pipeline_capture(pipeline, &capture, sizeof(capture));
	capture.tag = 0;
	pipeline_capture(pipeline, &capture, sizeof(capture));
	capture.tag = TAG;
	capture.tgid++;
	pipeline_capture(pipeline, &capture, sizeof(capture));
	CHECK_EQ(rt.nr_captured, 1);
	CHECK_EQ(stats().bad_records, 3);
	end();
}

TEST(there_are_so_many_processes_and_no_more)
{
	struct err err = {0};

	start(true);
	for (int i = 1; i < 256; i++)
		CHECK_EQ(pipeline_add_process(pipeline, process, &err), 0);
	CHECK_EQ(pipeline_add_process(pipeline, process, &err), -E2BIG);
	CHECK(err.msg[0] != '\0');
	end();
}

/* ---- what is held back -------------------------------------------------------------------------
 */

TEST(the_first_samples_wait_until_it_is_learnt_where_c_functions_are_called)
{
	start(false);
	for (int i = 0; i < 255; i++)
		add(whole());
	CHECK_EQ(stats().stored.samples, 0);
	add(whole());
	CHECK_EQ(stats().stored.samples, 256);
	add(whole());
	CHECK_EQ(stats().stored.samples, 257);
	query_close();
	CHECK_STR(query(QUERY_STACKS), "outer_function;o2;o1");
	end();
}

/* An entry, a function of the interpreter's that calls C functions, and one of those; leaf first.
 */
static struct rprof_sample *c_call(int (*shown)(int))
{
	uint64_t natives[] = {((uint64_t)(uintptr_t)shown + 2) | NATIVE_INTERRUPTED,
	        (uint64_t)(uintptr_t)calling_function + 4, in_code()};
	struct rprof_sample *s = sample_made(natives, 3, 2);

	rt.entry = in_code() - 1;
	sample_frame(s, 0)->flags = STITCH_C;
	sample_frame(s, 0)->method = (uint64_t)(uintptr_t)c_function;
	sample_frame(s, 1)->flags = ENDS_RUN;
	return s;
}

TEST(what_later_samples_teach_is_known_to_the_first)
{
	start(false);
	rt.dso = process_mapping(process, maps_find(&process->maps, in_code()))->dso;
	/* The C function has called another in its own place, so nothing shows where it stands. */
	add(c_call(tail_function));
	add(c_call(c_function));
	pipeline_flush(pipeline);
	CHECK_EQ(stats().stored.outcome[STACK_EXACT], 2);
	query_close();
	CHECK_STR(query(QUERY_STACKS), "outer_function;o2;calling_function;o1;tail_function|"
	                               "outer_function;o2;calling_function;o1;c_function");
	end();
}

TEST(what_waits_at_the_end_is_stored)
{
	struct rprof_sample *s;

	start(false);
	rt.late[1] = INTERP_UNVERIFIED;
	s = whole();
	s->flags = SAMPLE_F_UNSENT;
	add(s); /* waits for its names */
	s = whole();
	s->tid++;
	sample_frame(s, 0)->code = 3;
	add(s); /* waits to be learnt from */
	CHECK_EQ(stats().stored.samples, 0);
	pipeline_flush(pipeline);
	CHECK_EQ(stats().stored.samples, 2);
	CHECK_EQ(stats().stored.reason[REASON_LATE_NAME], 1);
	/* There is nothing more to learn: nothing waits any more. */
	add(s);
	CHECK_EQ(stats().stored.samples, 3);
	end();
}

TEST(a_process_without_an_interpreter_teaches_nothing)
{
	struct rprof_sample *s;

	start(false);
	process->ops = NULL;
	process->rt = NULL;
	s = sample_made(NULL, 0, 0);
	s->tag = 0;
	s->interp_outcome = WALK_NONE;
	add(s);
	CHECK_EQ(stats().stored.samples, 1);
	CHECK_EQ(stats().stored.outcome[STACK_NO_CONTEXT], 1);
	end();
}

/* ---- mappings that are not known ----------------------------------------------------------------
 */

static void *map_code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* A sample whose leaf lies in code that the process has just mapped. */
static struct rprof_sample *in_new_code(const void *page)
{
	uint64_t natives[] = {((uint64_t)(uintptr_t)page + 8) | NATIVE_INTERRUPTED, in_code() + 1};
	struct rprof_sample *s = sample_made(natives, 2, 0);

	s->tag = 0;
	s->interp_outcome = WALK_NONE;
	return s;
}

TEST(mappings_are_read_again_for_an_address_that_lies_in_none)
{
	void *page;

	start(true);
	page = map_code();
	REQUIRE(page != MAP_FAILED);
	add(in_new_code(page));
	CHECK_EQ(process->generation, 2);
	query_close();
	CHECK_STR(query(QUERY_STACKS), "outer_function;[jit]");
	end();
	munmap(page, 4096);
}

TEST(a_process_that_has_exited_has_no_mappings_to_read)
{
	void *page;

	start(true);
	page = map_code();
	REQUIRE(page != MAP_FAILED);
	process->exited = true;
	add(in_new_code(page));
	CHECK_EQ(process->generation, 1);
	query_close();
	CHECK_STR(query(QUERY_STACKS), "outer_function;[unknown]");
	end();
	munmap(page, 4096);
}

/* The outermost address of a stack that was walked to its root may be anything. */
TEST(the_root_need_not_lie_in_a_mapping)
{
	struct rprof_sample *s;
	uint64_t natives[2];
	void *page;

	start(true);
	page = map_code();
	REQUIRE(page != MAP_FAILED);
	natives[0] = in_code() | NATIVE_INTERRUPTED;
	natives[1] = (uint64_t)(uintptr_t)page + 8;
	s = sample_made(natives, 2, 0);
	add(s);
	CHECK_EQ(process->generation, 1);
	/* Of one that was cut it is where it was cut. */
	s->native_outcome = WALK_NO_MAPPING;
	add(s);
	CHECK_EQ(process->generation, 2);
	end();
	munmap(page, 4096);
}

/* In their order: what was sampled before is named by the mappings of before. */
TEST(samples_before_a_change_are_stored_before_it)
{
	void *page;

	start(false);
	page = map_code();
	REQUIRE(page != MAP_FAILED);
	add(whole());
	add(in_new_code(page));
	CHECK_EQ(process->generation, 1);
	pipeline_flush(pipeline);
	CHECK_EQ(process->generation, 2);
	CHECK_EQ(stats().stored.samples, 2);
	end();
	munmap(page, 4096);
}

/* ---- without memory
 * ------------------------------------------------------------------------------ */

static void add_six(void)
{
	for (uint32_t i = 0; i < 6; i++) {
		/* Two stacks by turns: what is left of one must not get into the next. */
		struct rprof_sample *s = i % 2 == 0 ? whole() : c_call(c_function);

		s->tid += i % 2;
		s->time_ns += i;
		rt.late[1] = i == 2 ? INTERP_UNVERIFIED : 0;
		if (i == 2)
			s->flags = SAMPLE_F_UNSENT;
		add(s);
	}
	pipeline_flush(pipeline);
}

/* Whatever allocation fails: a sample is stored as it is, or it is counted, or the recording itself
 * says that it has failed. */
static void fail_each_once(bool complete)
{
	bool failed = true;
	size_t nr_bad = 0;

	/* What there is to read of the files is read now: libdw ends a program without memory. */
	start(complete);
	add_six();
	end();
	for (size_t nth = 1; failed && nth < 100000; nth++) {
		struct pipeline_stats now;
		const char *stacks;
		int rc;

		start(complete);
		alloc_fail(nth);
		add_six();
		failed = alloc_failed();
		now = stats();
		rc = query_close();
		nr_bad += now.bad_records;
		CHECK_EQ(now.stored.samples + now.bad_records, 6);
		CHECK(failed || now.bad_records == 0);
		if (rc != 0) {
			end();
			continue;
		}
		stacks = query("SELECT DISTINCT time_ns % 2, stack FROM sample ORDER BY 1");
		/* A sample that could not wait for its names is marked. */
		if (now.stored.reason[REASON_LATE_NAME] == 0)
			CHECK(strlen(stacks) <= strlen("0 3|1 8"));
		CHECK(now.stored.reason[REASON_LATE_NAME] <= 1);
		stacks = query("SELECT count(*) FROM function "
		               "WHERE name LIKE '[%' OR name LIKE '%+0x%'");
		CHECK_STR(stacks, "0");
		CHECK_EQ(strtoull(query("SELECT count(*) FROM sample"), NULL, 10),
		        now.stored.samples);
		end();
	}
	CHECK(nr_bad > 5);
}

TEST(each_allocation_fails_once_while_samples_wait)
{
	fail_each_once(false);
}

TEST(each_allocation_fails_once_where_none_waits)
{
	fail_each_once(true);
}

TEST(a_pipeline_without_memory_is_none)
{
	const struct trigger_options options = {.rate_hz = 0};

	for (size_t nth = 1; nth < 1000; nth++) {
		struct pipeline *pl = NULL;
		struct err err = {0};
		bool failed;
		int rc;

		query_start();
		alloc_fail(nth);
		rc = pipeline_new(query_rec, NULL, &options, &pl, &err);
		failed = alloc_failed();
		CHECK_EQ(rc, failed ? -ENOMEM : 0);
		CHECK((rc != 0) == (err.msg[0] != '\0'));
		pipeline_free(pl);
		query_end();
		if (!failed)
			break;
	}
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
