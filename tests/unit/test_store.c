/* Stacks into a recording, which is then read with SQLite. */
#include "record/store.h"
#include "tests/unit/recording_query.h"
#include "tests/unit/tap.h"

#include <errno.h>

static struct store *store;

/* A stack of frames that are made up: native ones have room for their id. */
static struct address_frame native = {
        .frame = {.kind = FRAME_NATIVE, .name = "main", .library = "/bin/toy"}};
static struct frame code = {.kind = FRAME_INTERP, .name = "Foo#bar", .path = "foo.toy", .line = 3};
static struct stack_frame frames[2];
static struct stack stack;
static struct rprof_sample sample;
static struct store_thread thread;

static void start(uint32_t rate_hz)
{
	const struct trigger_options options = {.rate_hz = rate_hz};

	query_start();
	if (store_new(query_rec, &options, &store, NULL) != 0)
		abort();
	native.id = 0;
	frames[0] = (struct stack_frame){&native.frame, &native.id};
	frames[1] = (struct stack_frame){&code, NULL};
	stack = (struct stack){.frames = frames, .nr_frames = 2, .outcome = STACK_EXACT};
	sample = (struct rprof_sample){
	        .time_ns = 5, .tgid = 10, .tid = 11, .trigger = TRIGGER_CPU, .comm = "worker"};
	thread = (struct store_thread){.process = query_process, .runtime_name = "main"};
}

static int add(void)
{
	return store_add(store, &sample, &thread, &stack);
}

static void end(void)
{
	store_free(store);
	query_end();
}

TEST(a_sample_is_stored_with_all_that_is_known_of_it)
{
	start(100);
	stack.outcome = STACK_TRANSIENT;
	stack.reason = REASON_PUSHING;
	CHECK_EQ(add(), 0);
	query_close();
	CHECK_STR(query("SELECT time_ns, weight, outcome, reason FROM sample"), "5 10000000 2 1");
	CHECK_STR(query("SELECT name, unit FROM trigger"), "cpu ns");
	CHECK_STR(query("SELECT tid, comm, runtime_name FROM thread"), "11 worker main");
	CHECK_STR(query(QUERY_STACKS), "main;Foo#bar");
	end();
}

TEST(a_full_name_of_16_bytes_has_its_end)
{
	start(100);
	memcpy(sample.comm, "0123456789abcdef", 16);
	CHECK_EQ(add(), 0);
	query_close();
	CHECK_STR(query("SELECT comm FROM thread"), "0123456789abcdef");
	end();
}

TEST(a_frame_has_one_id)
{
	struct frame same = code, other = code;

	start(100);
	other.line = 4;
	CHECK_EQ(add(), 0);
	CHECK(native.id != 0);
	frames[1].frame = &same;
	CHECK_EQ(add(), 0);
	frames[1].frame = &other;
	CHECK_EQ(add(), 0);
	query_close();
	CHECK_STR(query("SELECT count(*) FROM frame"), "3");
	CHECK_STR(query("SELECT count(*) FROM stack"), "3");
	CHECK_STR(query("SELECT count(DISTINCT stack), count(*) FROM sample"), "2 3");
	end();
}

/* Whoever keeps an id is believed: the frame is not asked for again. */
TEST(an_id_that_is_kept_is_used)
{
	uint32_t id;

	start(100);
	CHECK_EQ(add(), 0);
	id = native.id;
	native.frame.name = "not looked at";
	CHECK_EQ(add(), 0);
	CHECK_EQ(native.id, id);
	native.frame.name = "main";
	query_close();
	CHECK_STR(query("SELECT count(DISTINCT stack) FROM sample"), "1");
	end();
}

TEST(an_empty_stack_is_one)
{
	start(100);
	stack.nr_frames = 0;
	CHECK_EQ(add(), 0);
	query_close();
	CHECK_STR(query("SELECT count(*) FROM sample WHERE stack IS NULL"), "1");
	end();
}

TEST(a_system_call_is_the_innermost_frame_and_a_trigger)
{
	start(0);
	sample.trigger = TRIGGER_SYSCALL;
	sample.syscall = 257;
	CHECK_EQ(add(), 0);
	CHECK_EQ(add(), 0);
	sample.syscall = 9999;
	CHECK_EQ(add(), 0);
	query_close();
	CHECK_STR(
	        query("SELECT name, unit FROM trigger"), "syscall:openat calls|syscall:9999 calls");
	CHECK_STR(query("SELECT weight, trigger FROM sample"), "1 1|1 1|1 2");
	CHECK_STR(query(QUERY_STACKS), "main;Foo#bar;openat|main;Foo#bar;syscall_9999");
	CHECK_STR(query("SELECT fu.name, k.name, r.name, fu.library FROM frame f "
	                "JOIN function fu ON fu.id = f.function "
	                "JOIN frame_kind k ON k.id = fu.kind JOIN frame_role r ON r.id = fu.role "
	                "WHERE fu.name LIKE 'open%'"),
	        "openat kernel syscall [kernel]");
	end();
}

TEST(a_clock_that_never_fired_was_on)
{
	start(100);
	query_close();
	CHECK_STR(query("SELECT name, unit FROM trigger"), "cpu ns");
	end();
}

TEST(both_triggers_have_their_own_unit)
{
	start(1000);
	CHECK_EQ(add(), 0);
	sample.trigger = TRIGGER_SYSCALL;
	sample.syscall = 0;
	CHECK_EQ(add(), 0);
	query_close();
	CHECK_STR(query("SELECT t.name, s.weight FROM sample s JOIN trigger t ON t.id = s.trigger"),
	        "cpu 1000000|syscall:read 1");
	end();
}

TEST(a_thread_is_renamed_when_its_name_was_asked_for)
{
	start(100);
	CHECK_EQ(add(), 0);
	thread.runtime_name = NULL;
	memcpy(sample.comm, "other", 6);
	CHECK_EQ(add(), 0);
	query_close();
	CHECK_STR(query("SELECT comm, runtime_name FROM thread"), "worker main");
	end();
	start(100);
	CHECK_EQ(add(), 0);
	thread.runtime_name = "renamed";
	CHECK_EQ(add(), 0);
	CHECK_EQ(store_stats(store)->threads, 1);
	query_close();
	CHECK_STR(query("SELECT comm, runtime_name FROM thread"), "worker renamed");
	end();
}

TEST(threads_of_two_processes_are_two)
{
	start(100);
	CHECK_EQ(add(), 0);
	sample.tid++;
	thread.runtime_name = NULL;
	CHECK_EQ(add(), 0);
	sample.tgid++;
	CHECK_EQ(add(), 0);
	CHECK_EQ(store_stats(store)->threads, 3);
	end();
}

TEST(what_is_stored_is_counted)
{
	const struct store_stats *stats;

	start(100);
	CHECK_EQ(add(), 0);
	stack.outcome = STACK_TRUNCATED;
	stack.reason = REASON_NO_CFI;
	stack.cut_library = "/lib/x.so";
	CHECK_EQ(add(), 0);
	CHECK_EQ(add(), 0);
	stats = store_stats(store);
	CHECK_EQ(stats->samples, 3);
	CHECK_EQ(stats->outcome[STACK_EXACT], 1);
	CHECK_EQ(stats->outcome[STACK_TRUNCATED], 2);
	CHECK_EQ(stats->reason[REASON_NONE], 0);
	CHECK_EQ(stats->reason[REASON_NO_CFI], 2);
	CHECK_EQ(stats->cuts[REASON_NO_CFI].nr, 1);
	CHECK_STR(stats->cuts[REASON_NO_CFI].library[0], "/lib/x.so");
	CHECK_EQ(stats->cuts[REASON_NO_CFI].count[0], 2);
	end();
}

TEST(a_trigger_that_nobody_knows_is_refused)
{
	start(100);
	sample.trigger = 99;
	CHECK_EQ(add(), -EINVAL);
	CHECK_EQ(store_stats(store)->samples, 0);
	/* It is the record that is wrong, not the recording. */
	sample.trigger = TRIGGER_CPU;
	CHECK_EQ(add(), 0);
	CHECK_EQ(query_close(), 0);
	end();
}

TEST(what_the_recording_refuses_is_not_counted)
{
	start(100);
	thread.process = 99;
	CHECK(add() != 0);
	CHECK_EQ(store_stats(store)->samples, 0);
	CHECK_EQ(store_stats(store)->threads, 0);
	end();
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
