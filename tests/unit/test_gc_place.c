/* Where the collector's frame goes, on made-up stacks: root first, one letter for each frame.
 *	R  an interpreter frame	e  an extension's function	v  the interpreter's own
 *	G  one that enters the collector */
#include "symbolizer/gc_place.h"
#include "tests/unit/tap.h"

#include <string.h>

enum { MAX_ITEMS = 16, UNCERTAIN = 100 };

/* The place, plus UNCERTAIN. */
static size_t place_in(const char *stack, bool native_root)
{
	struct stitch_native natives[MAX_ITEMS] = {0};
	struct stitch_item items[MAX_ITEMS];
	size_t nr = strlen(stack), nr_natives = 0, at = SIZE_MAX;
	bool certain;

	/* natives are leaf first */
	for (size_t i = nr; i-- > 0;) {
		items[i] = (struct stitch_item){.interp = stack[i] == 'R'};
		if (stack[i] == 'R')
			continue;
		items[i].index = (uint32_t)nr_natives;
		natives[nr_natives].runtime = stack[i] != 'e';
		natives[nr_natives++].enters_gc = stack[i] == 'G';
	}
	certain = gc_place(items, nr, natives, native_root, &at);
	return at + (certain ? 0 : UNCERTAIN);
}

TEST(the_collector_stands_outside_of_the_function_that_entered_it)
{
	CHECK_EQ(place_in("vvRRG", true), 4);
	CHECK_EQ(place_in("vvRvvGvve", true), 5);
	CHECK_EQ(place_in("vRRevvGvev", true), 6);
}

TEST(of_functions_that_call_each_other_the_innermost_entered_it)
{
	CHECK_EQ(place_in("vRvGGvve", true), 4);
}

TEST(what_an_extension_asks_for_while_it_is_marked_leaves_the_place_open)
{
	CHECK_EQ(place_in("vRvGvevGv", true), 3 + UNCERTAIN);
	CHECK_EQ(place_in("vRvGGvevGv", true), 4 + UNCERTAIN);
}

TEST(a_function_below_an_interpreter_frame_did_not_enter_it)
{
	CHECK_EQ(place_in("vGRvvGv", true), 5);
	CHECK_EQ(place_in("vGRevv", true), 4 + UNCERTAIN);
}

TEST(without_such_a_function_the_place_is_not_certain)
{
	CHECK_EQ(place_in("vRevve", true), 3 + UNCERTAIN);
	CHECK_EQ(place_in("vRe", true), 3 + UNCERTAIN);
	CHECK_EQ(place_in("vR", true), 2 + UNCERTAIN);
	CHECK_EQ(place_in("", true), 0 + UNCERTAIN);
}

TEST(what_is_seen_of_a_cut_stack_is_inside_of_the_collector)
{
	CHECK_EQ(place_in("RRevv", false), 2 + UNCERTAIN);
	CHECK_EQ(place_in("RRevGv", false), 4);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
