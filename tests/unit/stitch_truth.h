/*
 * Stacks that are made up with their true order, for the tests of the stitcher: a stack is written
 * down root first, as it is, and the two flat lists are made from it.
 */
#ifndef TESTS_UNIT_STITCH_TRUTH_H
#define TESTS_UNIT_STITCH_TRUTH_H

#include "symbolizer/stitch.h"
#include "tests/unit/tap.h"

enum {
	TRUTH_MAX = 8192,
	SITE_FUNC = 0x1000,
	SITE_PC = 0x1010,
	LOOP_FUNC = 0x2000,
	ENTRY_FUNC = 0x3000,
};

/* What a stack is made of, root first. */
struct truth {
	struct stitch_native natives[TRUTH_MAX]; /* root first here */
	struct stitch_interp interps[TRUTH_MAX];
	struct stitch_item order[TRUTH_MAX * 2]; /* indexes root first */
	size_t nr_natives, nr_interps, nr_order;
};

static struct truth truth;

static inline void start(void)
{
	truth.nr_natives = truth.nr_interps = truth.nr_order = 0;
}

static inline void native(uint8_t role, uint64_t func, uint64_t pc, bool runtime)
{
	truth.order[truth.nr_order++] = (struct stitch_item){.index = (uint32_t)truth.nr_natives};
	truth.natives[truth.nr_natives++] = (struct stitch_native){
	        .role = role, .func_addr = func, .pc = pc, .runtime = runtime};
}

static inline void entry(void)
{
	native(STITCH_ENTRY, ENTRY_FUNC, ENTRY_FUNC + 8, true);
	native(STITCH_LOOP, LOOP_FUNC, LOOP_FUNC + 8, true);
}

static inline void interp(uint8_t class, uint64_t func, bool ends_run)
{
	if (class != STITCH_HIDDEN)
		truth.order[truth.nr_order++] =
		        (struct stitch_item){.index = (uint32_t)truth.nr_interps, .interp = true};
	truth.interps[truth.nr_interps++] =
	        (struct stitch_interp){.class = class, .func_addr = func, .ends_run = ends_run};
}

/* Functions below 0x100000 are the interpreter's own. */
static inline void plain(uint64_t func)
{
	native(STITCH_PLAIN, func, func + 0x10, func < 0x100000);
}

/* The interpreter's call of a C function, the C frame, and the function, or what it tail-called. */
static inline void c_call(uint64_t func, uint64_t visible_func)
{
	native(STITCH_PLAIN, SITE_FUNC, SITE_PC, true);
	interp(STITCH_C, func, false);
	plain(visible_func);
}

/* _start, main, the bottom frame of the VM. */
static inline void start_program(void)
{
	start();
	plain(0x100);
	interp(STITCH_HIDDEN, 0, false);
}

static struct stitch_native truth_natives[TRUTH_MAX];
static struct stitch_interp truth_interps[TRUTH_MAX];

/* The lists, leaf first, of all but some of the outermost frames. */
static inline struct stitch_input flatten_without(size_t cut_natives, size_t cut_interps)
{
	size_t nr_natives = truth.nr_natives - cut_natives;
	size_t nr_interps = truth.nr_interps - cut_interps;

	for (size_t i = 0; i < nr_natives; i++)
		truth_natives[i] = truth.natives[truth.nr_natives - 1 - i];
	for (size_t i = 0; i < nr_interps; i++)
		truth_interps[i] = truth.interps[truth.nr_interps - 1 - i];
	return (struct stitch_input){
	        .natives = truth_natives,
	        .nr_natives = nr_natives,
	        .native_root = cut_natives == 0,
	        .interps = truth_interps,
	        .nr_interps = nr_interps,
	        .interp_root = cut_interps == 0,
	};
}

static inline struct stitch_input flatten(void)
{
	return flatten_without(0, 0);
}

/* Where item i of the true order is in the lists. */
static inline struct stitch_item truth_item(size_t i)
{
	const struct stitch_item *t = &truth.order[i];
	size_t nr = t->interp ? truth.nr_interps : truth.nr_natives;

	return (struct stitch_item){.index = (uint32_t)(nr - 1 - t->index), .interp = t->interp};
}

/* The first place from the root where the n items are not the innermost n of the true order; n: it
 * is the truth. */
static inline size_t truth_differs(const struct stitch_item *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct stitch_item want;

		if (n > truth.nr_order)
			return 0;
		want = truth_item(truth.nr_order - n + i);
		if (items[i].interp != want.interp || items[i].index != want.index)
			return i;
	}
	return n;
}

#endif
