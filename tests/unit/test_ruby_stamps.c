/*
 * Until when an object is the one that was captured: the rule for stamps (ruby_abi.h) against a
 * model of CRuby's collector that frees, reuses and moves whatever gc.c may, in any order of what
 * the program and the collector do. Rules that are wrong are seen to be.
 */
#include "runtimes/ruby/ruby_names.h"
#include "tests/unit/tap.h"

#include <stdlib.h>

enum { NR_PLACES = 24, STEPS = 200000, OLD_AGE = 2, MINOR_FLAG = 1 << 9, OLD_AT_BIRTH = 1 };

struct thing {
	unsigned int id; /* 0: the place is free */
	unsigned int age;
	bool used, marked, swept;
};

struct seen {
	unsigned int id;
	uint32_t stamp;
};

enum rule { RIGHT, NEVER_PASSES, FULL_FREES_NOTHING, COLLECTOR_IGNORED, RENEWED_ALWAYS };

struct model {
	struct ruby_gc_state gc;
	struct thing place[NR_PLACES];
	struct seen seen[NR_PLACES];
	unsigned int last_id, nr_looks, nr_known, nr_wrong;
	enum rule rule;
	bool moving, full;
};

/* As the thread that collects sees it, or as another one does. */
static struct ruby_stamps stamps(const struct model *m)
{
	struct ruby_gc_state gc = m->gc;
	struct ruby_stamps st;

	gc.own = gc.flags & RUBY_GC_DURING_GC && rand() % 2;
	if (m->rule == COLLECTOR_IGNORED) {
		gc.flags = 0;
		gc.minors = gc.count - gc.majors;
	}
	st = ruby_stamps_of(&gc);
	if (m->rule == FULL_FREES_NOTHING && st.old != 0)
		st.old = 3;
	return st;
}

static bool is_old(const struct thing *t)
{
	return t->age >= OLD_AGE;
}

/* A sample sees the thing at a place that is in use. */
static void look(struct model *m, unsigned int at)
{
	struct thing *t = &m->place[at];
	struct seen *s = &m->seen[at];
	struct ruby_stamps st = stamps(m);
	uint32_t good = s->stamp & 1 ? st.old : st.young;
	bool known = s->stamp != 0 && (s->stamp == good || m->rule == NEVER_PASSES);

	m->nr_looks++;
	if (!known && s->stamp != 0 && s->stamp & 1 && is_old(t) &&
	        (s->stamp == st.renew || m->rule == RENEWED_ALWAYS)) {
		known = true;
		s->stamp = st.old;
	}
	m->nr_known += known;
	m->nr_wrong += known && s->id != t->id;
	if (!known)
		*s = (struct seen){t->id, is_old(t) ? st.old : st.young};
}

static void program(struct model *m)
{
	for (int n = rand() % 6; n > 0; n--) {
		unsigned int at = (unsigned int)rand() % NR_PLACES;
		struct thing *t = &m->place[at];

		switch (rand() % 4) {
		case 0: /* classes are born one collection away from being old */
			if (t->id == 0)
				*t = (struct thing){.id = ++m->last_id,
				        .age = rand() % 4 == 0 ? OLD_AT_BIRTH : 0,
				        .used = true,
				        .swept = true};
			break;
		case 1:
			t->used = t->used && rand() % 3 != 0;
			break;
		default:
			if (t->id != 0 && t->used)
				look(m, at);
		}
	}
}

static void set_mode(struct model *m, uint32_t mode)
{
	m->gc.flags = (m->gc.flags & ~3U) | mode;
}

/* What is not in use may have been marked before it was dropped. */
static void mark(struct model *m)
{
	for (int i = 0; i < NR_PLACES; i++) {
		struct thing *t = &m->place[i];

		t->marked = t->used || (t->id != 0 && !m->full && is_old(t)) || rand() % 3 == 0;
		t->swept = false;
		if (t->id != 0 && t->marked)
			t->age++;
	}
}

static void move(struct model *m)
{
	for (int n = 0; n < 4; n++) {
		unsigned int a = (unsigned int)rand() % NR_PLACES;
		unsigned int b = (unsigned int)rand() % NR_PLACES;
		struct thing t = m->place[a];

		m->place[a] = m->place[b];
		m->place[b] = t;
	}
}

static void sweep_one(struct model *m, unsigned int at)
{
	struct thing *t = &m->place[at];

	if (!t->swept && !t->marked)
		*t = (struct thing){0};
	t->swept = true;
}

static void collect(struct model *m)
{
	m->full = rand() % 3 == 0;
	m->moving = m->full && rand() % 3 == 0;
	if (m->moving)
		m->gc.flags |= RUBY_GC_DURING_COMPACTING;
	m->gc.flags |= RUBY_GC_DURING_GC;
	program(m); /* another thread, as the sampler sees it */
	m->gc.count++;
	program(m);
	set_mode(m, RUBY_GC_MARKING);
	program(m);
	m->gc.flags = m->full ? m->gc.flags & ~(uint32_t)MINOR_FLAG : m->gc.flags | MINOR_FLAG;
	if (m->full)
		m->gc.majors++;
	else
		m->gc.minors++;
	/* In steps, between which the program runs. */
	for (int n = rand() % 4; n > 0; n--) {
		m->gc.flags &= ~RUBY_GC_DURING_GC;
		program(m);
		m->gc.flags |= RUBY_GC_DURING_GC;
		program(m);
	}
	mark(m);
	set_mode(m, RUBY_GC_SWEEPING);
	program(m);
	if (m->moving) {
		move(m);
		program(m);
		move(m);
		program(m);
		m->gc.moves++;
	}
	for (unsigned int i = 0; i < NR_PLACES; i++) {
		sweep_one(m, i);
		if (rand() % 8 == 0) {
			m->gc.flags &= ~RUBY_GC_DURING_GC;
			program(m);
			m->gc.flags |= RUBY_GC_DURING_GC;
		}
	}
	m->gc.flags &= ~RUBY_GC_DURING_COMPACTING;
	set_mode(m, 0);
	program(m);
	m->gc.flags &= ~RUBY_GC_DURING_GC;
}

static struct model run(enum rule rule)
{
	struct model m = {.rule = rule, .gc = {.minor_flag = MINOR_FLAG}};

	srand(1);
	for (int i = 0; i < STEPS / 10; i++) {
		for (int n = rand() % 5; n > 0; n--)
			program(&m);
		collect(&m);
	}
	return m;
}

TEST(what_is_taken_for_known_is_what_was_captured)
{
	struct model m = run(RIGHT);

	CHECK_EQ(m.nr_wrong, 0);
	/* And the rule is worth something. */
	CHECK(m.nr_looks > 100000 && m.nr_known > m.nr_looks / 4);
}

TEST(wrong_rules_are_seen)
{
	CHECK(run(NEVER_PASSES).nr_wrong != 0);
	CHECK(run(FULL_FREES_NOTHING).nr_wrong != 0);
	CHECK(run(COLLECTOR_IGNORED).nr_wrong != 0);
	CHECK(run(RENEWED_ALWAYS).nr_wrong != 0);
}

TEST(a_collection_that_is_counted_but_has_no_kind_yet_makes_nothing_certain_to_others)
{
	struct ruby_gc_state gc = {
	        .flags = RUBY_GC_MARKING | RUBY_GC_DURING_GC, .count = 8, .minors = 5, .majors = 2};

	struct ruby_stamps before = {0};

	CHECK_EQ(ruby_stamps_of(&gc).young, 0);
	CHECK_EQ(ruby_stamps_of(&gc).old, 0);
	/* But to the thread that collects: there it has not begun. */
	gc.own = true;
	before = ruby_stamps_of(&gc);
	gc.own = false;
	gc.minors++;
	gc.flags |= MINOR_FLAG;
	gc.minor_flag = MINOR_FLAG;
	CHECK_EQ(ruby_stamps_of(&gc).young, before.young);
	CHECK_EQ(ruby_stamps_of(&gc).old, before.old);
}

static uint64_t gen(uint64_t count, uint32_t mode)
{
	return count << 3 | mode;
}

TEST(what_is_read_later_counts_until_the_next_sweep)
{
	CHECK(ruby_gc_covers(gen(7, 0), gen(7, 0)));
	CHECK(ruby_gc_covers(gen(7, RUBY_GC_SWEEPING), gen(7, 0)));
	CHECK(ruby_gc_covers(gen(7, 0), gen(8, RUBY_GC_MARKING)));
	CHECK(!ruby_gc_covers(gen(7, 0), gen(8, RUBY_GC_SWEEPING)));
	CHECK(!ruby_gc_covers(gen(7, 0), gen(8, 0)));
}

/* What was in use while it marked may be dropped before the mark ends. */
TEST(what_was_seen_while_it_marked_counts_while_it_marks)
{
	CHECK(ruby_gc_covers(gen(7, RUBY_GC_MARKING), gen(7, RUBY_GC_MARKING)));
	CHECK(!ruby_gc_covers(gen(7, RUBY_GC_MARKING), gen(7, RUBY_GC_SWEEPING)));
	CHECK(!ruby_gc_covers(gen(7, RUBY_GC_MARKING), gen(7, 0)));
}

TEST(nothing_counts_while_a_collection_begins_or_moves)
{
	CHECK(!ruby_gc_covers(gen(7, RUBY_GEN_COLLECTING), gen(7, RUBY_GEN_COLLECTING)));
	CHECK(!ruby_gc_covers(gen(7, 0), gen(7, RUBY_GEN_COLLECTING)));
	CHECK(!ruby_gc_covers(gen(7, RUBY_GC_COMPACTING), gen(7, RUBY_GC_COMPACTING)));
}

/* gc.c, gc_enter: the flag is set before there is a mode. */
TEST(a_collection_that_is_entered_and_not_counted_yet_makes_nothing_certain_to_others)
{
	struct ruby_gc_state gc = {
	        .flags = RUBY_GC_DURING_GC, .count = 7, .minors = 5, .majors = 2};

	CHECK_EQ(ruby_stamps_of(&gc).young, 0);
	CHECK_EQ(ruby_stamps_of(&gc).old, 0);
	CHECK_EQ(ruby_stamps_of(&gc).renew, 0);
	gc.own = true;
	CHECK(ruby_stamps_of(&gc).young != 0);
	gc.own = false;
	gc.flags = 0;
	CHECK(ruby_stamps_of(&gc).young != 0);
	gc.flags = RUBY_GC_DURING_GC | RUBY_GC_SWEEPING;
	CHECK(ruby_stamps_of(&gc).young != 0);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
