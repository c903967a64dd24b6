/*
 * The stitcher against stacks that are made up with their true order: a stack is written down root
 * first, as it is, the two flat lists are made from it, and stitching them must give it back.
 * Stacks drawn at random are in test_stitch_random.c.
 */
#include "tests/unit/stitch_truth.h"

static struct stitch_item items[TRUTH_MAX * 2];
static size_t nr_items;

/* The stitched order is the true one, or the first place where it is not. */
static void check_order(void)
{
	size_t i = truth_differs(items, nr_items);

	CHECK_EQ(nr_items, truth.nr_order);
	if (i != nr_items && nr_items == truth.nr_order)
		TAP_FAIL("frame %zu from the root is %s %u, not %s %u", i,
		        items[i].interp ? "interp" : "native", items[i].index,
		        truth_item(i).interp ? "interp" : "native", truth_item(i).index);
}

static enum stitch_result run(struct stitch_sites *sites)
{
	struct stitch_input in = flatten();

	return stitch(&in, sites, items, &nr_items);
}

TEST(code_stands_inside_of_the_loop_that_runs_it)
{
	struct stitch_sites sites = {0};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	interp(STITCH_CODE, 0, false);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(a_c_frame_stands_below_its_function_and_above_the_call)
{
	struct stitch_sites sites = {0};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	c_call(0x5000, 0x5000);
	plain(0x6000);
	entry();
	interp(STITCH_CODE, 0, true);
	c_call(0x200000, 0x200000);
	plain(0x7000);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
	CHECK_EQ(sites.nr, 1);
	CHECK_EQ(sites.addr[0], SITE_PC);
}

TEST(a_function_hidden_by_a_tail_call_is_placed_by_a_learnt_site)
{
	struct stitch_sites sites = {0};
	struct stitch_input in;

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	c_call(0x5000, 0x5000);
	in = flatten();
	stitch_learn(&in, &sites);

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	plain(0x900);
	c_call(0x5000, 0x8000);
	plain(0x8100);
	entry();
	interp(STITCH_CODE, 0, true);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(c_functions_that_call_c_functions_each_stand_at_their_own)
{
	struct stitch_sites sites = {0};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	c_call(0x5000, 0x5000);
	c_call(0x5100, 0x5100);
	interp(STITCH_HIDDEN, 0, false); /* a block written in C */
	plain(0x5200);
	c_call(0x5300, 0x5300);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(a_recursive_function_hidden_by_tail_calls_stands_at_each_of_its_calls)
{
	struct stitch_sites sites = {.addr = {SITE_PC}, .nr = 1};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	c_call(0x5000, 0x8000); /* Array#==: rb_exec_recursive_paired has taken its place */
	plain(0x8100);
	c_call(0x5000, 0x5000); /* the inner one has not got there yet */
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(a_c_function_that_jumped_into_the_interpreter_stands_before_it)
{
	struct stitch_sites sites = {.addr = {SITE_PC}, .nr = 1};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	native(STITCH_PLAIN, SITE_FUNC, SITE_PC, true);
	interp(STITCH_C, 0x5000, false); /* InstructionSequence#eval: jmp rb_vm_exec */
	entry();
	interp(STITCH_CODE, 0, true);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

/* Of a helper that the JIT calls it could be that function as well. */
TEST(a_c_function_called_by_the_jit_is_told_by_its_address_before_calls_that_may_be_one)
{
	struct stitch_sites sites = {0};

	sites.addr[0] = SITE_PC;
	sites.func_addr[0] = SITE_FUNC;
	sites.nr = 1;
	sites.complete = true;
	start_program();
	entry();
	native(STITCH_JIT, 0, 0x70000000, false);
	interp(STITCH_CODE, 0, true);
	interp(STITCH_C, 0x200000, false);
	plain(0x200000);
	plain(0x8000);
	c_call(0x9000, 0x9000);
	native(STITCH_PLAIN, SITE_FUNC, SITE_PC + 0x40, true); /* calls something else */
	plain(0xa000);
	entry();
	interp(STITCH_CODE, 0, true);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(a_c_function_called_by_the_jit_stands_above_the_jits_code)
{
	struct stitch_sites sites = {.addr = {SITE_PC}, .nr = 1, .complete = true};

	start_program();
	native(STITCH_ENTRY, ENTRY_FUNC, ENTRY_FUNC + 8, true);
	native(STITCH_JIT, 0, 0x70000000, false);
	interp(STITCH_CODE, 0, true);
	interp(STITCH_C, 0x5000, false); /* Array#==, hidden by a tail call */
	plain(0x8000);
	plain(0x8100);
	c_call(0x5000, 0x5000);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(what_runs_while_a_c_frame_is_popped_is_inside_of_it)
{
	struct stitch_sites sites = {
	        .addr = {SITE_PC}, .func_addr = {SITE_FUNC}, .nr = 1, .complete = true};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	native(STITCH_PLAIN, SITE_FUNC, SITE_PC + 0x40, true); /* vm_call_cfunc, behind the call */
	interp(STITCH_C, 0x5000, false);
	plain(0x8800); /* rb_threadptr_execute_interrupts */
	plain(0x8900);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(a_loop_that_the_compiler_asks_for_addresses_runs_no_code)
{
	struct stitch_sites sites = {.addr = {SITE_PC}, .nr = 1, .complete = true};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	c_call(0x5000, 0x5000); /* Kernel#eval */
	plain(0x6000);          /* rb_vm_get_insns_address_table */
	native(STITCH_LOOP, LOOP_FUNC, LOOP_FUNC + 8, true);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(a_site_whose_frame_is_popped_takes_no_other_frame)
{
	struct stitch_sites sites = {.addr = {SITE_PC}, .nr = 1};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	plain(SITE_FUNC);
	truth.natives[truth.nr_natives - 1].pc = SITE_PC;
	plain(0x5500); /* Kernel#raise, which pops its own frame */
	c_call(0x5000, 0x5000);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(a_c_frame_whose_function_is_not_called_yet_stands_on_top)
{
	struct stitch_sites sites = {
	        .addr = {SITE_PC}, .func_addr = {SITE_FUNC}, .nr = 1, .complete = true};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	native(STITCH_PLAIN, SITE_FUNC, SITE_PC - 4, true); /* vm_call_cfunc, before its call */
	interp(STITCH_C, 0x5000, false);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(a_frame_pushed_before_its_activation_stands_on_top_and_is_marked)
{
	struct stitch_sites sites = {0};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	c_call(0x5000, 0x5000);
	plain(0x900); /* invoke_block, before vm_exec */
	interp(STITCH_CODE, 0, true);
	CHECK_EQ(run(&sites), STITCH_PUSHING);
	check_order();
}

TEST(a_frame_pushed_from_c_whose_mark_comes_later_begins_a_run)
{
	struct stitch_sites sites = {0};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	c_call(0x5000, 0x5000);
	plain(0x900);
	interp(STITCH_CODE, 0, false); /* vm_call0_body sets FINISH after the push */
	CHECK_EQ(run(&sites), STITCH_PUSHING);
	check_order();
}

TEST(an_activation_whose_frame_is_popped_is_marked_and_shifts_nothing)
{
	struct stitch_sites sites = {0};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	c_call(0x5000, 0x5000);
	plain(0x5800);
	entry(); /* has run its frame, not yet returned */
	CHECK_EQ(run(&sites), STITCH_POPPING);
	check_order();
}

TEST(stacks_of_two_fibers_are_not_paired)
{
	struct stitch_sites sites = {0};
	struct stitch_input in;

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	interp(STITCH_CODE, 0, false);
	in = flatten();
	in.off_stack = true;
	CHECK_EQ(stitch(&in, &sites, items, &nr_items), STITCH_OFF_STACK);
	REQUIRE(nr_items == 3);
	CHECK(items[0].interp && items[0].index == 1);
	CHECK(items[1].interp && items[1].index == 0);
	CHECK(!items[2].interp && items[2].index == 0);
}

TEST(counts_that_no_push_or_pop_explains_are_not_paired)
{
	struct stitch_sites sites = {0};

	start_program();
	entry();
	entry();
	entry();
	interp(STITCH_CODE, 0, true);
	CHECK_EQ(run(&sites), STITCH_MISPAIRED);
	REQUIRE(nr_items == 2);
	CHECK(items[0].interp && items[0].index == 0);
	CHECK(!items[1].interp && items[1].index == 0);
}

TEST(a_native_stack_that_is_cut_at_the_leaf_keeps_all_interpreter_frames)
{
	struct stitch_sites sites = {0};
	struct stitch_input in;

	start();
	interp(STITCH_HIDDEN, 0, false);
	interp(STITCH_CODE, 0, true);
	interp(STITCH_C, 0x5000, false);
	plain(0x300000); /* assembly without CFI */
	in = flatten();
	in.native_root = false;
	CHECK_EQ(stitch(&in, &sites, items, &nr_items), STITCH_PARTIAL);
	check_order();
}

TEST(a_native_stack_that_is_cut_outside_pairs_from_the_leaf)
{
	struct stitch_sites sites = {0};
	struct stitch_input in;

	start();
	interp(STITCH_HIDDEN, 0, false);
	interp(STITCH_CODE, 0, true); /* its activation is beyond the cut */
	interp(STITCH_C, 0x5000, false);
	plain(0x6000); /* the outermost native frame that is there */
	entry();
	interp(STITCH_CODE, 0, true);
	c_call(0x5100, 0x5100);
	in = flatten();
	in.native_root = false;
	CHECK_EQ(stitch(&in, &sites, items, &nr_items), STITCH_PARTIAL);
	check_order();
}

TEST(a_cut_below_a_c_function_leaves_its_frame_outside_of_what_it_runs)
{
	struct stitch_sites sites = {.addr = {SITE_PC}, .nr = 1};
	struct stitch_input in;

	start();
	interp(STITCH_HIDDEN, 0, false);
	interp(STITCH_CODE, 0, true);
	interp(STITCH_C, 0x5000, false); /* Integer#*: its call is beyond the cut */
	plain(0x300000);
	in = flatten();
	in.native_root = false;
	CHECK_EQ(stitch(&in, &sites, items, &nr_items), STITCH_PARTIAL);
	check_order();
}

TEST(runs_beyond_a_cut_stand_outside_of_the_loop_that_is_seen)
{
	struct stitch_sites sites = {.addr = {SITE_PC}, .nr = 1};
	struct stitch_input in;

	start();
	interp(STITCH_HIDDEN, 0, false);
	interp(STITCH_CODE, 0, true);
	interp(STITCH_C, 0x5000, false);
	native(STITCH_LOOP, LOOP_FUNC, LOOP_FUNC + 8, true); /* its entry is beyond the limit */
	interp(STITCH_CODE, 0, true);
	c_call(0x5100, 0x5100);
	in = flatten();
	in.native_root = false;
	CHECK_EQ(stitch(&in, &sites, items, &nr_items), STITCH_PARTIAL);
	check_order();
}

TEST(a_call_that_no_site_explains_is_marked)
{
	struct stitch_sites sites = {.addr = {0x9999}, .nr = 1, .complete = true};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	interp(STITCH_C, 0x5000, false);
	plain(0x8000); /* a tail call, from a site that is not known */
	entry();
	interp(STITCH_CODE, 0, true);
	CHECK_EQ(run(&sites), STITCH_UNPLACED);
	check_order();
}

TEST(a_thread_whose_body_is_a_c_function_has_its_frame_there)
{
	struct stitch_sites sites = {0};

	start_program();
	c_call(0x5000, 0x5000);
	plain(0x6000);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(native_frames_without_an_interpreter_stay_as_they_are)
{
	struct stitch_sites sites = {0};

	start();
	plain(0x100);
	plain(0x200);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

/* rb_funcall of a method that is written in Ruby is no call of a C function. */
TEST(a_call_that_enters_the_interpreter_takes_no_c_functions_frame)
{
	struct stitch_sites sites = {
	        .addr = {SITE_PC}, .func_addr = {SITE_FUNC}, .nr = 1, .complete = true};

	start_program();
	native(STITCH_ENTRY, ENTRY_FUNC, ENTRY_FUNC + 8, true);
	native(STITCH_JIT, 0, 0x70000000, false);
	interp(STITCH_CODE, 0, true);
	interp(STITCH_C, 0x5000, false); /* Array#==, called by the JIT, hidden by a tail call */
	plain(0x8000);
	plain(0x8100);
	native(STITCH_PLAIN, SITE_FUNC, SITE_PC + 0x40, true);
	entry();
	interp(STITCH_CODE, 0, true);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(calls_before_a_frame_is_pushed_do_not_take_it)
{
	struct stitch_sites sites = {
	        .addr = {SITE_PC}, .func_addr = {SITE_FUNC}, .nr = 1, .complete = true};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	for (int i = 0; i < 2; i++) {
		native(STITCH_PLAIN, SITE_FUNC, SITE_PC + 0x40, true);
		plain(0x8000);
	}
	native(STITCH_PLAIN, SITE_FUNC, SITE_PC - 4, true);
	interp(STITCH_C, 0x5000, false);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(a_helper_of_the_jit_is_no_method_for_the_address_of_an_inner_one)
{
	struct stitch_sites sites = {
	        .addr = {SITE_PC}, .func_addr = {SITE_FUNC}, .nr = 1, .complete = true};

	start_program();
	native(STITCH_ENTRY, ENTRY_FUNC, ENTRY_FUNC + 8, true);
	native(STITCH_JIT, 0, 0x70000000, false);
	interp(STITCH_CODE, 0, true);
	plain(0x5100);
	c_call(0x5000, 0x5000);
	c_call(0x5100, 0x5100);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(functions_that_are_not_known_are_not_one)
{
	struct stitch_sites sites = {
	        .addr = {SITE_PC}, .func_addr = {SITE_FUNC}, .nr = 1, .complete = true};

	start_program();
	native(STITCH_ENTRY, ENTRY_FUNC, ENTRY_FUNC + 8, true);
	native(STITCH_JIT, 0, 0x70000000, false);
	interp(STITCH_CODE, 0, true);
	native(STITCH_PLAIN, 0, 0x8010, true); /* a helper without a symbol */
	c_call(0, 0x5000);
	CHECK_EQ(run(&sites), STITCH_EXACT);
	check_order();
}

TEST(a_frame_with_two_explanations_is_marked)
{
	struct stitch_sites sites = {
	        .addr = {SITE_PC}, .func_addr = {SITE_FUNC}, .nr = 1, .complete = true};

	/* The JIT has called 0x8000, which a tail call put there; or the last frame is pushed. */
	start_program();
	native(STITCH_ENTRY, ENTRY_FUNC, ENTRY_FUNC + 8, true);
	native(STITCH_JIT, 0, 0x70000000, false);
	interp(STITCH_CODE, 0, true);
	plain(0x8000);
	native(STITCH_PLAIN, SITE_FUNC, SITE_PC - 4, true);
	interp(STITCH_C, 0x5000, false);
	CHECK_EQ(run(&sites), STITCH_UNPLACED);
}

TEST(of_calls_whose_frames_are_popped_one_that_may_be_another_is_marked)
{
	struct stitch_sites sites = {
	        .addr = {SITE_PC}, .func_addr = {SITE_FUNC}, .nr = 1, .complete = true};

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	native(STITCH_PLAIN, SITE_FUNC, SITE_PC, true);
	plain(0x5500);          /* Kernel#raise */
	c_call(0x5000, 0x8000); /* hidden by a tail call: it could be the outer one as well */
	CHECK_EQ(run(&sites), STITCH_UNPLACED);
}

static size_t learnt(void)
{
	struct stitch_sites sites = {0};
	struct stitch_input in = flatten();

	stitch_learn(&in, &sites);
	return sites.nr;
}

/* Each C frame's function is hidden by a tail call, and is called as it is further in. */
TEST(a_call_that_is_not_certainly_one_of_a_method_is_not_learnt)
{
	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	c_call(0x5000, 0x200000);
	plain(0x5000); /* by an extension */
	CHECK_EQ(learnt(), 0);

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	c_call(0x5000, 0x8000);
	plain(0x5000); /* and again by itself */
	plain(0x5000);
	CHECK_EQ(learnt(), 0);

	start_program();
	entry();
	interp(STITCH_CODE, 0, true);
	c_call(0x5000, 0x8000); /* two methods have one function */
	plain(0x5000);
	c_call(0x5000, 0x8000);
	CHECK_EQ(learnt(), 0);

	start_program();
	native(STITCH_ENTRY, ENTRY_FUNC, ENTRY_FUNC + 8, true);
	native(STITCH_JIT, 0, 0x70000000, true);
	interp(STITCH_CODE, 0, true);
	interp(STITCH_C, 0x5000, false);
	plain(0x5000); /* by the JIT */
	CHECK_EQ(learnt(), 0);
}

TEST(no_more_sites_are_learnt_than_there_is_room_for)
{
	struct stitch_sites sites = {0};

	for (uint64_t i = 0; i < 2 * STITCH_MAX_SITES; i++) {
		struct stitch_input in;

		start_program();
		entry();
		interp(STITCH_CODE, 0, true);
		native(STITCH_PLAIN, SITE_FUNC, SITE_PC + i, true);
		interp(STITCH_C, 0x5000, false);
		plain(0x5000);
		in = flatten();
		stitch_learn(&in, &sites);
		CHECK_EQ(sites.nr, MIN(i + 1, (uint64_t)STITCH_MAX_SITES));
	}
	CHECK_EQ(sites.complete, false);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
