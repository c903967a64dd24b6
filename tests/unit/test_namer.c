/* Samples are named, and wait for what was not captured with them: with a runtime that is made up,
 * and is asked for each object whose name was not there. */
#include "record/namer.h"
#include "tests/unit/failing_alloc.h"
#include "tests/unit/record_fixture.h"
#include "tests/unit/tap.h"

static struct runtime rt;
static struct process *process;
static struct namer *namer;

static void start(void)
{
	rt = (struct runtime){.thread_name = "main"};
	process = process_made(&rt);
	if (namer_new(&namer) != 0)
		abort();
}

static void end(void)
{
	namer_free(namer);
	process_made_free(process);
}

static void add(const struct rprof_sample *s)
{
	namer_add(namer, process, s, s->record.size);
}

/* A sample of which object 1 was not captured. */
static struct rprof_sample *unsent(void)
{
	struct rprof_sample *s = sample_made(NULL, 0, 3);

	s->flags = SAMPLE_F_UNSENT;
	sample_frame(s, 0)->extra = INTERP_F_CODE_UNSENT;
	return s;
}

static void drop_all(void)
{
	while (namer_first(namer) != NULL)
		namer_drop(namer);
}

TEST(frames_are_named_leaf_first)
{
	struct named_sample *h;
	struct rprof_sample *s;

	start();
	s = sample_made(NULL, 0, 3);
	sample_frame(s, 1)->flags = STITCH_C;
	sample_frame(s, 2)->flags = ENDS_RUN;
	add(s);
	h = namer_first(namer);
	REQUIRE(h != NULL);
	CHECK(h->sample == s && h->process == process && h->ops == &toy_ops && h->rt == &rt);
	CHECK_STR(h->frames[0].info.frame.name, "o1");
	CHECK_STR(h->frames[2].info.frame.name, "o3");
	CHECK_STR(h->frames[2].info.frame.language, "toy");
	CHECK_EQ(h->frames[1].class, STITCH_C);
	CHECK(h->frames[2].ends_run && !h->frames[1].ends_run);
	CHECK(rt.asked[0].leaf && !rt.asked[1].leaf && !rt.asked[2].leaf);
	CHECK_EQ(namer_nr(namer), 1);
	namer_drop(namer);
	CHECK_EQ(namer_first(namer), NULL);
	CHECK_EQ(namer_nr(namer), 0);
	end();
}

TEST(the_moment_of_the_sample_goes_with_each_frame)
{
	struct rprof_sample *s;

	start();
	s = sample_made(NULL, 0, 1);
	s->gc_gen = 77;
	s->unsent_old_stamp = 5;
	add(s);
	CHECK_EQ(rt.asked[0].when.time_ns, 1000);
	CHECK_EQ(rt.asked[0].when.gc_gen, 77);
	CHECK_EQ(rt.asked[0].when.unsent_old_stamp, 5);
	end();
}

TEST(what_collects_has_noted_its_line)
{
	struct rprof_sample *s;

	start();
	s = sample_made(NULL, 0, 1);
	s->flags = SAMPLE_F_IN_GC;
	add(s);
	CHECK(!rt.asked[0].leaf);
	end();
}

TEST(hidden_frames_are_not_asked_for)
{
	struct rprof_sample *s;

	start();
	s = sample_made(NULL, 0, 2);
	sample_frame(s, 0)->flags = STITCH_HIDDEN;
	add(s);
	CHECK_EQ(rt.nr_asked, 1);
	CHECK_EQ(namer_first(namer)->frames[0].info.flags, 0);
	CHECK_EQ(namer_first(namer)->frames[0].info.frame.name, NULL);
	end();
}

TEST(frames_of_a_sample_before_are_not_left)
{
	struct rprof_sample *s;

	start();
	add(sample_made(NULL, 0, 2));
	namer_drop(namer);
	s = sample_made(NULL, 0, 2);
	s->tag = TAG + 1; /* of an interpreter that nobody knows */
	add(s);
	CHECK(namer_first(namer)->ops == NULL);
	for (size_t i = 0; i < 2; i++) {
		CHECK_EQ(namer_first(namer)->frames[i].class, STITCH_HIDDEN);
		CHECK_EQ(namer_first(namer)->frames[i].info.flags, INTERP_UNVERIFIED);
		CHECK_EQ(namer_first(namer)->frames[i].info.frame.name, NULL);
	}
	CHECK_EQ(rt.nr_thread_names, 1);
	end();
}

TEST(a_sample_from_before_an_exec_is_named_by_its_own_interpreter)
{
	struct runtime later = {.thread_name = "later"};

	start();
	process->retired[0].ops = &toy_ops;
	process->retired[0].rt = &rt;
	process->retired[0].tag = TAG;
	process->nr_retired = 1;
	process->rt = &later;
	process->rt_tag = TAG + 1;
	add(sample_made(NULL, 0, 1));
	CHECK(namer_first(namer)->rt == &rt);
	CHECK_EQ(rt.nr_asked, 1);
	CHECK_EQ(later.nr_asked, 0);
	end();
}

/* ---- objects that were not captured --------------------------------------------------------- */

TEST(an_object_that_was_not_captured_is_so_in_all_its_frames)
{
	struct rprof_sample *s;

	start();
	s = unsent();
	sample_frame(s, 2)->code = 1;
	sample_frame(s, 1)->method = 9;
	sample_frame(s, 2)->method = 9;
	sample_frame(s, 1)->extra = INTERP_F_METHOD_UNSENT;
	add(s);
	CHECK_EQ(rt.asked[0].frame.extra, INTERP_F_CODE_UNSENT);
	CHECK_EQ(rt.asked[1].frame.extra, INTERP_F_METHOD_UNSENT);
	CHECK_EQ(rt.asked[2].frame.extra, INTERP_F_UNSENT);
	end();
}

TEST(of_a_base_that_was_not_captured_nothing_was)
{
	struct rprof_sample *s;

	start();
	s = sample_made(NULL, 0, 3);
	s->flags = SAMPLE_F_UNSENT;
	s->base_unsent = 2;
	for (size_t i = 0; i < 3; i++)
		sample_frame(s, i)->method = 20 + i;
	add(s);
	CHECK_EQ(rt.asked[0].frame.extra, 0);
	CHECK_EQ(rt.asked[1].frame.extra, INTERP_F_UNSENT);
	CHECK_EQ(rt.asked[2].frame.extra, INTERP_F_UNSENT);
	/* Without the flag the rest says nothing. */
	drop_all();
	rt.nr_asked = 0;
	s->flags = 0;
	add(s);
	CHECK_EQ(rt.asked[2].frame.extra, 0);
	end();
}

TEST(more_than_can_be_remembered_is_all)
{
	enum { NR = 400 };
	struct rprof_sample *s;

	start();
	s = sample_made(NULL, 0, NR);
	s->flags = SAMPLE_F_UNSENT;
	for (size_t i = 0; i < NR; i++) {
		sample_frame(s, i)->code = 1;
		sample_frame(s, i)->method = 1000 + i;
		sample_frame(s, i)->extra = i < NR - 1 ? INTERP_F_METHOD_UNSENT : 0;
	}
	add(s);
	/* 256 stay in the ring of what was asked: the last is one of them. */
	CHECK_EQ(rt.asked[(NR - 1) % 256].frame.extra, INTERP_F_UNSENT);
	end();
}

TEST(a_sample_waits_for_its_names)
{
	struct named_sample *h;

	start();
	rt.late[1] = INTERP_UNVERIFIED;
	add(unsent());
	CHECK_EQ(namer_first(namer), NULL);
	rt.late[1] = 0;
	rt.nr_asked = 0;
	add(sample_made(NULL, 0, 1));
	h = namer_first(namer);
	REQUIRE(h != NULL);
	/* First what waited, then what came. */
	CHECK_EQ(namer_nr(namer), 2);
	CHECK_EQ(h->sample->nr_interp, 3);
	CHECK_STR(h->frames[0].info.frame.name, "o1");
	CHECK_EQ(h->next->sample->nr_interp, 1);
	end();
}

TEST(so_does_one_with_an_object_that_makes_no_sense)
{
	start();
	rt.late[1] = INTERP_UNREADABLE;
	add(unsent());
	CHECK_EQ(namer_first(namer), NULL);
	end();
}

TEST(only_what_is_missing_is_asked_for_again)
{
	struct rprof_sample *s;

	start();
	rt.late[1] = INTERP_UNVERIFIED;
	s = unsent();
	s->unsent_old_stamp = 5;
	add(s);
	CHECK_EQ(rt.asked[0].when.unsent_old_stamp, 5);
	rt.nr_asked = 0;
	rt.late[1] = 0;
	rt.late[2] = INTERP_UNVERIFIED; /* its address may hold another object by now */
	add(unsent());
	/* One frame of the sample that waited, then three of the new one. */
	CHECK_EQ(rt.nr_asked, 4);
	/* What was captured with it has to be shown to be the same; a stamp of others says nothing.
	 */
	CHECK_EQ(rt.asked[0].frame.code, 1);
	CHECK_EQ(rt.asked[0].frame.extra, INTERP_F_UNSENT);
	CHECK_EQ(rt.asked[0].when.unsent_old_stamp, 0);
	CHECK_STR(namer_first(namer)->frames[1].info.frame.name, "o2");
	end();
}

TEST(where_nothing_was_captured_the_stamp_holds_again)
{
	struct rprof_sample *s;

	start();
	rt.late[1] = INTERP_UNVERIFIED;
	s = unsent();
	s->unsent_old_stamp = 5;
	sample_frame(s, 0)->extra = INTERP_F_UNSENT;
	sample_frame(s, 0)->method = 9;
	add(s);
	rt.nr_asked = 0;
	add(unsent());
	CHECK_EQ(rt.asked[0].when.unsent_old_stamp, 5);
	end();
}

TEST(it_waits_for_eight_samples_of_its_thread)
{
	start();
	rt.late[1] = INTERP_UNVERIFIED;
	add(unsent());
	for (int i = 1; i <= 8; i++) {
		struct rprof_sample *s = unsent();

		sample_frame(s, 0)->code = 2; /* has its names, and so does not wait */
		add(s);
		CHECK_EQ(namer_nr(namer), i == 8 ? 2 : 1);
		if (i == 8)
			CHECK_EQ(namer_first(namer)->frames[0].info.flags, INTERP_UNVERIFIED);
		drop_all();
	}
	end();
}

TEST(samples_of_other_threads_bring_nothing)
{
	struct rprof_sample *s;

	start();
	rt.late[1] = INTERP_UNVERIFIED;
	add(unsent());
	rt.late[1] = 0;
	for (int i = 0; i < 20; i++) {
		s = sample_made(NULL, 0, 1);
		s->tid++;
		add(s);
		CHECK_EQ(namer_nr(namer), 1);
		drop_all();
	}
	end();
}

TEST(it_waits_for_a_second)
{
	struct rprof_sample *s;

	start();
	rt.late[1] = INTERP_UNVERIFIED;
	add(unsent());
	s = sample_made(NULL, 0, 1);
	s->tid++;
	s->time_ns = 1000 + 1000000000;
	sample_frame(s, 0)->code = 2;
	add(s);
	CHECK_EQ(namer_nr(namer), 1);
	drop_all();
	s->time_ns++;
	add(s);
	CHECK_EQ(namer_nr(namer), 2);
	CHECK_EQ(namer_first(namer)->sample->time_ns, 1000);
	end();
}

TEST(a_sample_with_all_its_objects_ends_the_wait)
{
	struct rprof_sample *s;

	start();
	rt.late[1] = INTERP_UNVERIFIED;
	add(unsent());
	s = sample_made(NULL, 0, 1);
	sample_frame(s, 0)->code = 2;
	add(s);
	CHECK_EQ(namer_nr(namer), 2);
	end();
}

TEST(what_is_late_without_hope_does_not_wait)
{
	start();
	rt.late[1] = INTERP_UNVERIFIED;
	add(sample_made(NULL, 0, 1));
	CHECK_EQ(namer_nr(namer), 1);
	end();
}

TEST(what_waits_at_the_end_is_given_as_it_is)
{
	start();
	rt.late[1] = INTERP_UNVERIFIED;
	add(unsent());
	rt.nr_asked = 0;
	namer_flush(namer);
	CHECK_EQ(namer_nr(namer), 1);
	CHECK_EQ(rt.nr_asked, 0);
	CHECK_EQ(namer_first(namer)->frames[0].info.flags, INTERP_UNVERIFIED);
	end();
}

TEST(so_many_wait_and_no_more)
{
	start();
	rt.late[1] = INTERP_UNVERIFIED;
	for (uint32_t i = 0; i < 64; i++) {
		struct rprof_sample *s = unsent();

		s->tid = 100 + i;
		add(s);
	}
	CHECK_EQ(namer_nr(namer), 0);
	add(unsent());
	CHECK_EQ(namer_nr(namer), 1);
	drop_all();
	namer_flush(namer);
	CHECK_EQ(namer_nr(namer), 64);
	end();
}

/* ---- the queue ------------------------------------------------------------------------------ */

TEST(what_is_kept_does_not_need_its_record)
{
	start();
	add(sample_made(NULL, 0, 3));
	CHECK_EQ(namer_keep(namer), 0);
	add(sample_made(NULL, 0, 2));
	CHECK_EQ(namer_keep(namer), 0);
	CHECK_EQ(namer_keep(namer), 0);
	memset(record_room, 0xff, sizeof(record_room));
	CHECK_EQ(namer_nr(namer), 2);
	CHECK_EQ(namer_first(namer)->sample->nr_interp, 3);
	CHECK_STR(namer_first(namer)->frames[2].info.frame.name, "o3");
	CHECK_EQ(namer_first(namer)->next->sample->nr_interp, 2);
	namer_drop(namer);
	add(sample_made(NULL, 0, 1));
	CHECK_EQ(namer_first(namer)->next->sample->nr_interp, 1);
	end();
}

TEST(a_sample_that_cannot_be_kept_is_dropped)
{
	start();
	add(sample_made(NULL, 0, 3));
	CHECK_EQ(namer_keep(namer), 0);
	for (size_t nth = 1; nth <= 3; nth++) {
		add(sample_made(NULL, 0, 1));
		alloc_fail(nth);
		CHECK_EQ(namer_keep(namer), -ENOMEM);
		CHECK(alloc_failed());
		CHECK_EQ(namer_nr(namer), 1);
	}
	add(sample_made(NULL, 0, 2));
	CHECK_EQ(namer_nr(namer), 2);
	CHECK_EQ(namer_first(namer)->next->sample->nr_interp, 2);
	end();
}

TEST(without_memory_a_sample_does_not_wait)
{
	start();
	rt.late[1] = INTERP_UNVERIFIED;
	add(unsent()); /* so that the thread's name is asked for */
	drop_all();
	for (size_t nth = 1; nth <= 3; nth++) {
		struct rprof_sample *s = unsent();

		s->tid = 11;
		alloc_fail(nth);
		add(s);
		CHECK(alloc_failed());
		CHECK_EQ(namer_nr(namer), 1);
		drop_all();
	}
	end();
}

TEST(a_namer_without_memory_is_none)
{
	struct namer *n = NULL;

	for (size_t nth = 1; nth <= 2; nth++) {
		alloc_fail(nth);
		CHECK_EQ(namer_new(&n), -ENOMEM);
		CHECK(alloc_failed());
	}
}

/* ---- names of threads --------------------------------------------------------------------------
 */

TEST(a_threads_name_is_asked_for_now_and_then)
{
	size_t nr = 0;

	start();
	for (int i = 0; i < 131; i++) {
		add(sample_made(NULL, 0, 0));
		nr += namer_first(namer)->has_thread_name;
		if (namer_first(namer)->has_thread_name)
			CHECK_STR(namer_first(namer)->thread_name, "main");
		drop_all();
	}
	/* The first one, and each 65th behind it. */
	CHECK_EQ(nr, 3);
	CHECK_EQ(rt.nr_thread_names, 3);
	end();
}

TEST(each_thread_has_its_own_name)
{
	struct rprof_sample *s;

	start();
	for (uint32_t i = 0; i < 3; i++) {
		s = sample_made(NULL, 0, 0);
		s->tid += i;
		add(s);
		CHECK(namer_first(namer)->has_thread_name);
		drop_all();
	}
	end();
}

TEST(a_thread_without_a_context_has_no_name)
{
	struct rprof_sample *s;

	start();
	s = sample_made(NULL, 0, 0);
	s->context = 0;
	add(s);
	CHECK_EQ(rt.nr_thread_names, 0);
	CHECK(namer_first(namer)->has_thread_name);
	CHECK_STR(namer_first(namer)->thread_name, "");
	end();
}

/* ---- the collector ------------------------------------------------------------------------------
 */

TEST(the_interpreter_says_what_its_collector_is_called)
{
	struct runtime_ops silent = toy_ops;
	struct rprof_sample *s;
	struct frame f;

	start();
	s = sample_made(NULL, 0, 0);
	s->gc_gen = 1;
	add(s);
	f = named_gc(namer_first(namer));
	CHECK_EQ(f.kind, FRAME_GC);
	CHECK_STR(f.name, "(toys are put away)");
	CHECK_STR(f.language, "toy");
	silent.gc_name = NULL;
	namer_first(namer)->ops = &silent;
	CHECK_STR(named_gc(namer_first(namer)).name, "(garbage collection)");
	CHECK_STR(named_gc(namer_first(namer)).language, "toy");
	namer_first(namer)->ops = NULL;
	CHECK_STR(named_gc(namer_first(namer)).name, "(garbage collection)");
	CHECK_EQ(named_gc(namer_first(namer)).language, NULL);
	end();
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
