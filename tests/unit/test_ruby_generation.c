/*
 * When an object that is read now is the one that a sample saw: made-up collections, told from the
 * rules of CRuby's collector (gc.c). The bytes and the looks at them are those of the test.
 */
#include "runtimes/ruby/ruby_cache.h"
#include "tests/unit/tap.h"

static const uint64_t this_one[NR_IDENTITY] = {1, 2, 3}, another[NR_IDENTITY] = {1, 2, 4};

/* Orders. */
static uint64_t marking(uint64_t count)
{
	return ruby_gen_order(count << 3 | RUBY_GEN_COLLECTING | RUBY_GC_MARKING);
}

static uint64_t sweeping(uint64_t count)
{
	return ruby_gen_order(count << 3 | RUBY_GC_SWEEPING);
}

static uint64_t idle(uint64_t count)
{
	return ruby_gen_order(count << 3);
}

/* How many of the collections were full; 0: that is not known. */
static uint64_t majors;

static struct object look(bool old, uint64_t sample, uint64_t order)
{
	struct object o = {.old = old, .identity = {1, 2, 3}};
	struct ruby_now now = {order, majors};

	ruby_object_begin(&o, 1, sample, &now);
	return o;
}

static bool lives(struct object *o, const uint64_t identity[NR_IDENTITY], bool old, uint64_t sample,
        uint64_t order)
{
	struct ruby_now now = {order, majors};

	return ruby_object_lives(o, identity, old, sample, &now);
}

TEST(phases_ascend)
{
	CHECK(idle(6) < marking(7) && marking(7) < sweeping(7) && sweeping(7) < idle(7));
}

/* The count is written before the mode, and the mode before the end. */
TEST(no_mode_while_it_collects_is_the_beginning_or_the_end)
{
	uint64_t gen = 7 << 3 | RUBY_GEN_COLLECTING;

	CHECK(ruby_gen_is_unsure(gen));
	CHECK_EQ(ruby_gen_begin(gen), idle(6));
	CHECK_EQ(ruby_gen_order(gen), idle(7));
	CHECK(ruby_gen_is_unsure(7 << 3 | RUBY_GC_COMPACTING));
	CHECK(!ruby_gen_is_unsure(7 << 3));
	CHECK(!ruby_gen_is_unsure(7 << 3 | RUBY_GEN_COLLECTING | RUBY_GC_MARKING));
	CHECK(!ruby_gen_is_unsure(7 << 3 | RUBY_GC_SWEEPING));
	CHECK_EQ(ruby_gen_begin(7 << 3), idle(7));
}

/* The words of the collector are not read at once: one that began in between is seen. */
TEST(a_count_that_changed_is_unsure)
{
	struct runtime rt = {
	        .proc = {.objspace_addr = 4096, .objspace_flags = 8, .objspace_gc_count = 16}};
	struct ruby_gen_words words;
	struct target_piece pieces[RUBY_GEN_PIECES];

	CHECK_EQ(ruby_gen_pieces(&rt, &words, pieces), 3); /* no full collections are counted */
	CHECK(pieces[0].addr == 4112 && pieces[1].addr == 4104 && pieces[2].addr == 4112);
	words = (struct ruby_gen_words){.count = 7, .flags = 0, .count_again = 7};
	CHECK(!ruby_gen_is_unsure(ruby_gen_of(&rt, &words)));
	words.count_again = 8;
	CHECK(ruby_gen_is_unsure(ruby_gen_of(&rt, &words)));
}

TEST(what_stands_on_a_stack_lives_until_the_next_sweep)
{
	CHECK(ruby_gen_covers(idle(7), idle(7)));
	CHECK(ruby_gen_covers(sweeping(7), idle(7)));
	CHECK(ruby_gen_covers(idle(7), marking(8)));
	CHECK(!ruby_gen_covers(idle(7), sweeping(8)));
	CHECK(!ruby_gen_covers(marking(7), sweeping(7)));
	CHECK(!ruby_gen_covers(marking(7), idle(7)));
}

TEST(a_new_object_is_known_from_its_sample_on)
{
	struct object o = look(false, idle(7), marking(8));

	CHECK(ruby_object_covers(&o, idle(7)) && ruby_object_covers(&o, marking(8)));
	CHECK(!ruby_object_covers(&o, sweeping(7)) && !ruby_object_covers(&o, sweeping(8)));
	o = look(false, idle(7), sweeping(8));
	CHECK(!ruby_object_covers(&o, idle(7)));
	o = look(true, idle(7), sweeping(8));
	CHECK(ruby_object_covers(&o, idle(7)) && ruby_object_covers(&o, sweeping(7)));
	CHECK(!ruby_object_covers(&o, marking(7)));
}

/* Read once, it is known for all samples that see it until memory is freed. */
TEST(an_object_in_use_is_not_freed_before_the_next_sweep)
{
	struct object o = look(false, sweeping(7), sweeping(7));

	CHECK(!ruby_object_covers(&o, idle(7)));
	ruby_object_use(&o, sweeping(7));
	CHECK(ruby_object_covers(&o, idle(7)) && ruby_object_covers(&o, marking(8)));
	CHECK(!ruby_object_covers(&o, sweeping(8)));
	ruby_object_use(&o, marking(8));
	CHECK(!ruby_object_covers(&o, sweeping(8)));
	CHECK(ruby_object_covers(&o, marking(8)));
	/* Other looks, the second after a gap. */
	CHECK(lives(&o, this_one, true, idle(8), idle(8)));
	CHECK(lives(&o, this_one, true, idle(14), idle(14)));
	CHECK(ruby_object_covers(&o, idle(14)) && !ruby_object_covers(&o, marking(15)));
	CHECK(!ruby_object_covers(&o, idle(8)));
}

/* Code that is evaluated again and again gets the same memory, and in between another may have had
 * it. */
TEST(a_young_object_may_be_another_that_looks_like_it)
{
	struct object o = look(false, idle(7), idle(7));

	CHECK(!lives(&o, this_one, false, idle(8), idle(8)));
	CHECK_EQ(o.gen_hi, idle(7));
	CHECK(!lives(&o, this_one, true, idle(10), idle(10)));
	/* It is old, so it was there before the last collection. */
	CHECK(lives(&o, this_one, true, idle(8), idle(8)));
	CHECK(ruby_object_covers(&o, idle(7)) && ruby_object_covers(&o, idle(8)));
}

TEST(an_old_object_does_not_grow_young)
{
	struct object o = look(true, idle(7), idle(7));

	CHECK(!lives(&o, this_one, false, idle(8), idle(8)));
	CHECK(!lives(&o, another, true, idle(8), idle(8)));
	CHECK(lives(&o, this_one, true, idle(8), idle(8)));
}

/* Both looks found an old one. A sample in between may have seen another, unless it was always so.
 */
TEST(between_two_old_ones_may_be_a_third)
{
	struct object o = look(true, idle(7), idle(7));

	CHECK(lives(&o, this_one, true, idle(10), idle(12)));
	CHECK(!ruby_object_covers(&o, idle(10)));
	CHECK(ruby_object_covers(&o, idle(11)) && ruby_object_covers(&o, idle(12)));
	for (uint64_t count = 13; count < 100; count++)
		CHECK(lives(&o, this_one, true, idle(count), idle(count)));
	CHECK(lives(&o, this_one, true, idle(105), idle(110)));
	CHECK(ruby_object_covers(&o, idle(105)));
}

/* Only a full collection frees an old one. */
TEST(without_a_full_collection_an_old_one_is_the_same)
{
	struct object o;

	majors = 3;
	o = look(true, idle(7), idle(7));
	CHECK(lives(&o, this_one, true, idle(10), idle(12)));
	CHECK(ruby_object_covers(&o, idle(10)));
	o = look(true, idle(12), idle(12));
	majors = 4;
	CHECK(lives(&o, this_one, true, idle(14), idle(16)));
	CHECK(!ruby_object_covers(&o, idle(14)));
	/* Looked at before it is swept away, but not in use any more. */
	o = look(true, idle(15), sweeping(16));
	CHECK(lives(&o, this_one, true, idle(18), idle(20)));
	CHECK(!ruby_object_covers(&o, idle(18)));
	o = look(true, sweeping(16), sweeping(16));
	CHECK(lives(&o, this_one, true, idle(18), idle(20)));
	CHECK(ruby_object_covers(&o, idle(18)));
	majors = 0;
}

/* The kernel side's table has an object once it is there to stay, and no longer. */
TEST(settled_objects_are_noted)
{
	static struct rprof_settled settled;
	struct runtime rt = {.target = {.pid = 77}, .settled = &settled};
	uint64_t addr = 0x7f0012345678, word = object_word(addr, 77);
	uint64_t *slot = &settled.slot[object_slot(addr, SETTLED_SLOTS)];
	uint64_t *other = &settled.slot[object_slot(addr, SETTLED_SLOTS) ^ 1];
	struct object o = look(true, idle(7), idle(7));

	ruby_object_settle(&rt, addr, &o);
	CHECK(*slot != word && *other != word);
	for (uint64_t count = 8; count < 100; count++)
		CHECK(lives(&o, this_one, true, idle(count), idle(count)));
	ruby_object_settle(&rt, addr, &o);
	CHECK(*slot == word || *other == word);
	/* Two objects of the same slots. */
	ruby_object_settle(&rt, addr ^ 8, &o);
	CHECK(*slot == word || *other == word);
	o = look(false, idle(100), idle(100));
	ruby_object_settle(&rt, addr, &o);
	CHECK(*slot != word && *other != word);
	ruby_object_settle(&rt, addr, &o);
	rt.settled = NULL;
	ruby_object_settle(&rt, addr, &o);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
