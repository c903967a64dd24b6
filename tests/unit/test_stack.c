/*
 * From a named sample to a stack, on samples that are made up. Both lists are written root first,
 * one letter a frame:
 *
 *	native	m  main		e  an extension's function	v  the interpreter's own
 *		X  its entry	L  its loop			S  where it calls C functions
 *		G  enters the collector				s  a frame that a signal interrupted
 *		i  an extension's function with one inlined into it
 *	interp	F  code, with which an activation begins	c  code called by it
 *		C  a C function					h  hidden
 *
 * A stack is written as the names of its frames, root first: the letter and the place in its list.
 */
#include "record/kept_walk.h"
#include "record/stack.h"
#include "tests/unit/tap.h"

#include <stdlib.h>

enum {
	MAX = 32,
	NAME_SZ = 24,
	TEXT_SZ = 512,
	SITE_FUNC = 0x1000,
	SITE_PC = 0x1010,
	C_FUNC = 0x900000
};

static struct made {
	struct {
		struct rprof_sample head;
		uint64_t room[MAX * 2 + MAX * sizeof(struct interp_frame) / 8];
	} record;
	struct named_frame interps[MAX]; /* leaf first */
	struct address *natives[MAX], *kernel[MAX];
	char names[3][MAX][NAME_SZ];
	struct stitch_sites sites;
	struct stack_input in;
} made;

static struct stack stack;

/* The name of a frame: its letter and its place from the root. */
static char *name_of(char *name, char letter, size_t place)
{
	snprintf(name, NAME_SZ, "%c%zu", letter, place);
	return name;
}

static struct address *address_made(char letter, char *name)
{
	enum { ROOM_SZ = sizeof(struct address) + 2 * sizeof(struct address_frame) };
	static uint64_t rooms[MAX * 2][(ROOM_SZ + 7) / 8];
	static size_t nr_rooms;
	uint64_t *room = rooms[nr_rooms++ % ARRAY_SIZE(rooms)];
	struct address *at = (struct address *)room;

	memset(room, 0, sizeof(rooms[0]));
	at->known = true;
	at->nr_frames = 1;
	at->frames[0].frame = (struct frame){
	        .kind = letter == 'k' ? FRAME_KERNEL : FRAME_NATIVE, .name = name, .library = name};
	if (letter == 'i') {
		at->nr_frames = 2;
		at->frames[1] = at->frames[0];
		at->frames[0].frame.name = "inlined";
	}
	at->stitch.runtime = strchr("vXLSG", letter) != NULL;
	at->stitch.enters_gc = letter == 'G';
	at->stitch.func_addr = letter == 'S' ? SITE_FUNC : C_FUNC + (uint8_t)letter;
	at->stitch.role = letter == 'X' ? STITCH_ENTRY : letter == 'L' ? STITCH_LOOP : STITCH_PLAIN;
	return at;
}

/* A sample of both lists whose walks reached their roots. */
static struct rprof_sample *sample(const char *natives, const char *interps)
{
	struct rprof_sample *s = &made.record.head;
	size_t nr_natives = strlen(natives), nr_interps = strlen(interps);
	uint64_t *pcs;

	memset(&made, 0, sizeof(made));
	s->native_outcome = WALK_ROOT;
	s->interp_outcome = WALK_ROOT;
	s->nr_native = (uint16_t)nr_natives;
	s->nr_interp = (uint16_t)nr_interps;
	pcs = (uint64_t *)record_native(s);
	for (size_t i = 0; i < nr_natives; i++) {
		size_t place = nr_natives - 1 - i;
		char letter = natives[place], *name = made.names[0][place];

		name_of(name, letter, place);
		made.natives[i] = address_made(letter, name);
		pcs[i] = letter == 'S' ? SITE_PC : 0x5000 + letter;
		if (letter == 's')
			pcs[i] |= NATIVE_INTERRUPTED;
	}
	for (size_t i = 0; i < nr_interps; i++) {
		size_t place = nr_interps - 1 - i;
		char letter = interps[place];
		struct named_frame *f = &made.interps[i];
		struct frame *frame = &f->info.frame;

		f->class = letter == 'h' ? STITCH_HIDDEN : letter == 'C' ? STITCH_C : STITCH_CODE;
		f->ends_run = letter == 'F';
		if (f->class == STITCH_HIDDEN)
			continue;
		f->info.flags = INTERP_RESOLVED;
		frame->kind = letter == 'C' ? FRAME_INTERP_C : FRAME_INTERP;
		frame->name = name_of(made.names[1][place], letter, place);
		if (letter == 'C')
			f->info.func_addr = C_FUNC + 'e';
		else
			*frame = (struct frame){.kind = FRAME_INTERP,
			        .name = frame->name,
			        .path = frame->name,
			        .line = (uint32_t)(10 + place)};
	}
	made.sites = (struct stitch_sites){
	        .addr = {SITE_PC}, .func_addr = {SITE_FUNC}, .nr = 1, .complete = true};
	made.in = (struct stack_input){
	        .sample = s,
	        .interps = made.interps,
	        .natives = made.natives,
	        .kernel = made.kernel,
	        .gc = {.kind = FRAME_GC, .name = "gc", .language = "toy"},
	        .sites = &made.sites,
	};
	return s;
}

/* An interpreter frame of the sample, counted from the root. */
static struct named_frame *interp(size_t place)
{
	return &made.interps[made.record.head.nr_interp - 1U - place];
}

/* The stack's frames. */
static const char *frames(void)
{
	static char text[TEXT_SZ];
	size_t len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < stack.nr_frames && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i != 0 ? " " : "",
		        stack.frames[i].frame->name);
	return text;
}

static const char *make(void)
{
	stack_make(&stack, &made.in);
	return frames();
}

static void check_verdict(enum stack_outcome outcome, enum stack_reason reason)
{
	CHECK_STR(stack_outcome_name(stack.outcome), stack_outcome_name(outcome));
	CHECK_STR(stack_reason_name(stack.reason), stack_reason_name(reason));
}

/* ---- which frames, and where ------------------------------------------------------------------
 */

TEST(both_lists_make_one_stack)
{
	/* The first C function has called back: its own activation runs the second F. */
	sample("mXLSevXLSe", "FCFcC");
	CHECK_STR(make(), "m0 X1 L2 F0 S3 C1 e4 v5 X6 L7 F2 c3 S8 C4 e9");
	check_verdict(STACK_EXACT, REASON_NONE);
	CHECK_EQ(stack.cut_library, NULL);
}

TEST(hidden_frames_are_left_out)
{
	sample("mXL", "Fhc");
	interp(1)->info.frame.name = "hidden";
	make();
	CHECK(strstr(frames(), "hidden") == NULL);
}

TEST(of_an_address_the_outermost_function_comes_first)
{
	sample("mie", "");
	CHECK_STR(make(), "m0 i1 inlined e2");
	CHECK(stack.frames[1].id == &made.natives[1]->frames[1].id);
	CHECK(stack.frames[2].id == &made.natives[1]->frames[0].id);
}

TEST(kernel_frames_stand_innermost_in_their_order)
{
	struct rprof_sample *s = sample("me", "");

	s->nr_kernel = 2;
	made.kernel[0] = address_made('k', name_of(made.names[2][0], 'k', 0));
	made.kernel[1] = address_made('k', name_of(made.names[2][1], 'k', 1));
	CHECK_STR(make(), "m0 e1 k1 k0");
	CHECK(stack.frames[2].id == &made.kernel[1]->frames[0].id);
}

TEST(the_frames_of_a_stack_before_are_gone)
{
	sample("me", "");
	make();
	sample("m", "");
	CHECK_STR(make(), "m0");
}

TEST(an_interpreter_frame_has_no_room_for_an_id)
{
	sample("mXL", "F");
	make();
	CHECK_EQ(stack.nr_frames, 4);
	CHECK(stack.frames[3].id == NULL && stack.frames[2].id != NULL);
}

TEST(a_frame_without_a_name_is_not_shown)
{
	sample("mXL", "Fcc");
	interp(1)->info.frame.name = NULL;
	CHECK_STR(make(), "m0 X1 L2 F0 c2");
}

TEST(the_marks_of_native_frames_are_no_part_of_their_address)
{
	/* The call's site is found although its frame was interrupted. */
	sample("mXLSv", "FC");
	made.sites.func_addr[0] = 0;
	((uint64_t *)record_native(&made.record.head))[1] |= NATIVE_INTERRUPTED;
	CHECK_STR(make(), "m0 X1 L2 F0 S3 C1 v4");
	check_verdict(STACK_EXACT, REASON_NONE);
}

TEST(what_is_cut_is_paired_from_the_leaf)
{
	sample("Lv", "Fc")->native_outcome = WALK_NO_CFI;
	CHECK_STR(make(), "L0 F0 c1 v1");
	sample("mXLXL", "Fc")->interp_outcome = WALK_LIMIT;
	CHECK_STR(make(), "m0 X1 L2 X3 L4 F0 c1");
}

TEST(without_a_context_all_native_frames_are_there)
{
	sample("mXLXLXL", "")->interp_outcome = WALK_NO_CONTEXT;
	CHECK_STR(make(), "m0 X1 L2 X3 L4 X5 L6");
	check_verdict(STACK_NO_CONTEXT, REASON_NONE);
	sample("mXLXLXL", "")->interp_outcome = WALK_NONE;
	CHECK_STR(make(), "m0 X1 L2 X3 L4 X5 L6");
	check_verdict(STACK_NO_CONTEXT, REASON_NONE);
}

TEST(sites_are_learnt_without_making_a_stack)
{
	sample("mXLSe", "FC");
	made.sites = (struct stitch_sites){0};
	stack_learn(&stack, &made.in);
	CHECK_EQ(made.sites.nr, 1);
	CHECK_EQ(made.sites.addr[0], SITE_PC);
	CHECK_EQ(made.sites.func_addr[0], SITE_FUNC);
}

/* ---- what one frame says of another -------------------------------------------------------------
 */

TEST(a_body_stands_for_the_function_that_it_is_of)
{
	sample("mXL", "Fcc");
	interp(2)->info.flags |= INTERP_SKIP_NEXT; /* the body: its function is next, outside */
	interp(1)->info.frame.method = "Foo#bar";
	CHECK_STR(make(), "m0 X1 L2 F0 c2");
	CHECK_STR(stack.frames[4].frame->method, "Foo#bar");
	check_verdict(STACK_EXACT, REASON_NONE);
}

TEST(bodies_in_bodies_stand_for_one_function)
{
	sample("mXL", "Fccc");
	interp(3)->info.flags |= INTERP_SKIP_NEXT;
	interp(2)->info.flags |= INTERP_SKIP_NEXT; /* not shown, and yet a body */
	interp(1)->info.frame.method = "Foo#bar";
	CHECK_STR(make(), "m0 X1 L2 F0 c3");
	CHECK_STR(stack.frames[4].frame->method, "Foo#bar");
	CHECK(interp(2)->info.frame.name == NULL && interp(0)->info.frame.name != NULL);
}

TEST(a_body_and_its_function_may_have_other_frames_between_them)
{
	sample("mXLSvXL", "FcChF");
	interp(4)->info.flags |= INTERP_SKIP_NEXT;
	interp(1)->info.frame.method = "Foo#bar";
	/* Hidden frames and C functions are no code: the next code is the function. */
	interp(3)->info.flags = 0;
	make();
	CHECK(interp(1)->info.frame.name == NULL);
	CHECK_STR(interp(2)->info.frame.name, "C2");
	CHECK_STR(interp(4)->info.frame.method, "Foo#bar");
	CHECK_STR(interp(0)->info.frame.name, "F0");
}

TEST(a_c_function_has_the_line_of_its_caller)
{
	sample("mXLSevXLSe", "FCFcC");
	make();
	CHECK_STR(interp(1)->info.frame.path, "F0");
	CHECK_EQ(interp(1)->info.frame.line, 10);
	CHECK_STR(interp(4)->info.frame.path, "c3");
	CHECK_EQ(interp(4)->info.frame.line, 13);
	CHECK_EQ(interp(4)->info.frame.flags, 0);
}

TEST(a_c_function_called_by_a_c_function_has_the_same_line)
{
	sample("mXLSeSe", "FCC");
	make();
	CHECK_STR(interp(2)->info.frame.path, "F0");
	CHECK_EQ(interp(2)->info.frame.line, 10);
}

TEST(a_c_function_that_no_code_calls_has_no_line)
{
	sample("mXLSe", "C");
	make();
	CHECK_EQ(interp(0)->info.frame.path, NULL);
	CHECK_EQ(interp(0)->info.frame.line, 0);
}

TEST(the_line_comes_from_the_body_not_from_what_it_stands_for)
{
	sample("mXLSe", "FcC");
	interp(1)->info.flags |= INTERP_SKIP_NEXT;
	make();
	CHECK_EQ(interp(0)->info.frame.name, NULL);
	CHECK_STR(interp(2)->info.frame.path, "c1");
	CHECK_EQ(interp(2)->info.frame.line, 11);
	/* What is not shown is not asked for its line. */
	sample("mXL", "Fc");
	interp(1)->info.flags |= INTERP_SKIP_NEXT;
	interp(0)->info.frame.line = 0;
	make();
	check_verdict(STACK_EXACT, REASON_NONE);
}

TEST(an_approximate_line_makes_its_c_functions_lines_approximate)
{
	sample("mXLSe", "FC");
	interp(0)->info.frame.flags = FRAME_F_APPROX | FRAME_F_INLINED;
	make();
	CHECK_EQ(interp(1)->info.frame.flags, FRAME_F_APPROX);
	CHECK_STR(interp(1)->info.frame.path, "F0");
	check_verdict(STACK_TRANSIENT, REASON_LINE);
}

TEST(an_unknown_line_is_marked_where_there_is_a_path)
{
	sample("mXL", "Fc");
	interp(0)->info.frame.line = 0;
	make();
	check_verdict(STACK_TRANSIENT, REASON_LINE);
	/* Without a path there is no line to be known. */
	sample("mXL", "Fc");
	interp(0)->info.frame.line = 0;
	interp(0)->info.frame.path = NULL;
	make();
	check_verdict(STACK_EXACT, REASON_NONE);
	sample("mXL", "Fc");
	interp(1)->info.frame.flags = FRAME_F_APPROX;
	make();
	check_verdict(STACK_TRANSIENT, REASON_LINE);
	sample("mXL", "Fc");
	interp(1)->info.frame.flags = FRAME_F_INLINED;
	make();
	check_verdict(STACK_EXACT, REASON_NONE);
}

/* ---- the collector
 * ------------------------------------------------------------------------------- */

TEST(the_collector_stands_outside_of_what_entered_it)
{
	sample("mXLvGv", "F")->flags = SAMPLE_F_IN_GC;
	CHECK_STR(make(), "m0 X1 L2 F0 v3 gc G4 v5");
	CHECK_EQ(stack.frames[5].frame->kind, FRAME_GC);
	CHECK_STR(stack.frames[5].frame->language, "toy");
	CHECK(stack.frames[5].id == NULL);
	check_verdict(STACK_EXACT, REASON_NONE);
}

TEST(without_its_flag_there_is_no_collector)
{
	sample("mXLvGv", "F");
	CHECK_STR(make(), "m0 X1 L2 F0 v3 G4 v5");
}

TEST(a_collector_that_nothing_entered_is_marked)
{
	sample("mXLe", "F")->flags = SAMPLE_F_IN_GC;
	CHECK_STR(make(), "m0 X1 L2 F0 e3 gc");
	check_verdict(STACK_TRANSIENT, REASON_GC_PLACE);
}

TEST(in_a_cut_stack_all_is_inside_of_the_collector)
{
	struct rprof_sample *s = sample("ev", "");

	s->flags = SAMPLE_F_IN_GC;
	s->native_outcome = WALK_NO_CFI;
	CHECK_STR(make(), "gc e0 v1");
	check_verdict(STACK_TRUNCATED, REASON_NO_CFI);
}

/* ---- outcome and reason
 * ---------------------------------------------------------------------------
 */

/* In the order in which one hides the other; the natives and interps of most are "mXL" and "F". */
static const struct verdict {
	const char *what, *natives, *interps;
	uint8_t native_outcome, interp_outcome;
	uint16_t flags;
	uint8_t outcome, reason;
} verdicts[] = {
        {"all is there", "mXL", "F", WALK_ROOT, WALK_ROOT, 0, STACK_EXACT, REASON_NONE},
        /* native walks that were cut */
        {"limit", "XL", "F", WALK_LIMIT, WALK_ROOT, 0, STACK_TRUNCATED, REASON_NATIVE_LIMIT},
        {"mapping", "XL", "F", WALK_NO_MAPPING, WALK_ROOT, 0, STACK_TRUNCATED, REASON_NO_MAPPING},
        {"cfi", "XL", "F", WALK_NO_CFI, WALK_ROOT, 0, STACK_TRUNCATED, REASON_NO_CFI},
        {"read", "XL", "F", WALK_UNREADABLE, WALK_ROOT, 0, STACK_TRUNCATED, REASON_UNREADABLE},
        {"progress", "XL", "F", WALK_NO_PROGRESS, WALK_ROOT, 0, STACK_TRUNCATED,
                REASON_NO_PROGRESS},
        {"jit", "XL", "F", WALK_JIT, WALK_ROOT, 0, STACK_TRUNCATED, REASON_JIT},
        {"table", "XL", "F", WALK_NO_TABLE, WALK_ROOT, 0, STACK_TRUNCATED, REASON_NO_TABLE},
        {"not walked", "", "F", WALK_NONE, WALK_ROOT, 0, STACK_TRUNCATED, REASON_UNREADABLE},
        {"a number of a later kernel side", "XL", "F", 99, WALK_ROOT, 0, STACK_TRUNCATED,
                REASON_UNREADABLE},
        {"a cut says more than that no code runs", "ev", "", WALK_NO_CFI, WALK_NO_CONTEXT, 0,
                STACK_TRUNCATED, REASON_NO_CFI},
        {"both are cut", "XL", "F", WALK_NO_CFI, WALK_LIMIT, 0, STACK_TRUNCATED, REASON_NO_CFI},
        /* interpreter walks that were cut */
        {"frames", "mXL", "F", WALK_ROOT, WALK_LIMIT, 0, STACK_TRUNCATED, REASON_INTERP_LIMIT},
        {"context", "mXL", "", WALK_ROOT, WALK_BAD_CONTEXT, 0, STACK_TRUNCATED, REASON_BAD_CONTEXT},
        {"frames that cannot be read", "mXL", "F", WALK_ROOT, WALK_UNREADABLE, 0, STACK_TRUNCATED,
                REASON_UNREADABLE},
        /* threads that run no code */
        {"no context", "me", "", WALK_ROOT, WALK_NO_CONTEXT, 0, STACK_NO_CONTEXT, REASON_NONE},
        {"no interpreter", "me", "", WALK_ROOT, WALK_NONE, 0, STACK_NO_CONTEXT, REASON_NONE},
        {"a context that was left", "me", "", WALK_ROOT, WALK_BAD_CONTEXT, 0, STACK_NO_CONTEXT,
                REASON_NONE},
        {"a context without frames", "me", "", WALK_ROOT, WALK_ROOT, 0, STACK_NO_CONTEXT,
                REASON_NONE},
        {"frames without an activation are no such thread", "me", "F", WALK_ROOT, WALK_UNREADABLE,
                0, STACK_TRUNCATED, REASON_UNREADABLE},
        /* what the stitcher found */
        {"pushing", "mXL", "FF", WALK_ROOT, WALK_ROOT, 0, STACK_TRANSIENT, REASON_PUSHING},
        {"popping", "mXLXL", "F", WALK_ROOT, WALK_ROOT, 0, STACK_TRANSIENT, REASON_POPPING},
        {"mispaired", "mXLXLXL", "F", WALK_ROOT, WALK_ROOT, 0, STACK_TRANSIENT, REASON_MISPAIRED},
        {"unplaced", "mXLv", "FCC", WALK_ROOT, WALK_ROOT, 0, STACK_TRANSIENT, REASON_UNPLACED},
        /* two stacks in one sample */
        {"another fiber's stack", "mXL", "F", WALK_ROOT, WALK_ROOT, SAMPLE_F_OFF_STACK,
                STACK_TRANSIENT, REASON_FIBER_SWITCH},
        {"a handler's stack", "mXL", "F", WALK_ROOT, WALK_ROOT,
                SAMPLE_F_OFF_STACK | SAMPLE_F_SIGNAL_STACK, STACK_TRANSIENT, REASON_SIGNAL_STACK},
        {"a handler's stack that was followed", "mXLsv", "F", WALK_ROOT, WALK_ROOT,
                SAMPLE_F_OFF_STACK | SAMPLE_F_SIGNAL_STACK, STACK_EXACT, REASON_NONE},
        {"a leaf that was interrupted, as each is", "mXLs", "F", WALK_ROOT, WALK_ROOT,
                SAMPLE_F_OFF_STACK, STACK_TRANSIENT, REASON_FIBER_SWITCH},
        {"a switch says more than a cut", "XL", "F", WALK_NO_CFI, WALK_ROOT, SAMPLE_F_OFF_STACK,
                STACK_TRANSIENT, REASON_FIBER_SWITCH},
        {"the flag of handlers alone says nothing", "mXL", "F", WALK_ROOT, WALK_ROOT,
                SAMPLE_F_SIGNAL_STACK, STACK_EXACT, REASON_NONE},
        {"without frames there is one stack only", "mv", "", WALK_ROOT, WALK_ROOT,
                SAMPLE_F_OFF_STACK, STACK_NO_CONTEXT, REASON_NONE},
        /* threads that end */
        {"exiting", "v", "F", WALK_UNREADABLE, WALK_ROOT, SAMPLE_F_EXITING, STACK_TRUNCATED,
                REASON_EXITING},
        {"exiting, its frames gone", "mXL", "F", WALK_ROOT, WALK_UNREADABLE, SAMPLE_F_EXITING,
                STACK_TRUNCATED, REASON_EXITING},
        {"exiting explains no other cut", "v", "F", WALK_NO_CFI, WALK_ROOT, SAMPLE_F_EXITING,
                STACK_TRUNCATED, REASON_NO_CFI},
        {"exiting, and all is there", "mXL", "F", WALK_ROOT, WALK_ROOT, SAMPLE_F_EXITING,
                STACK_EXACT, REASON_NONE},
};

TEST(outcome_and_reason)
{
	for (size_t i = 0; i < ARRAY_SIZE(verdicts); i++) {
		const struct verdict *v = &verdicts[i];
		struct rprof_sample *s = sample(v->natives, v->interps);

		s->native_outcome = v->native_outcome;
		s->interp_outcome = v->interp_outcome;
		s->flags = v->flags;
		make();
		if (stack.outcome != v->outcome || stack.reason != v->reason)
			printf("# %s: %s\n", v->what, frames());
		check_verdict(v->outcome, v->reason);
	}
}

/* The flags of trouble, each alone. */
TEST(a_name_that_is_not_certain_is_marked)
{
	static const uint32_t flags[] = {INTERP_UNVERIFIED, INTERP_UNREADABLE};

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		sample("mXL", "Fcc");
		interp(1)->info.flags = flags[i];
		make();
		check_verdict(STACK_TRANSIENT, REASON_LATE_NAME);
	}
	/* An interpreter that nobody knows: all its frames are hidden. */
	sample("mXL", "h");
	interp(0)->ends_run = true;
	interp(0)->info.flags = INTERP_UNVERIFIED;
	CHECK_STR(make(), "m0 X1 L2");
	check_verdict(STACK_TRANSIENT, REASON_LATE_NAME);
}

/* Of what is wrong with one stack the worst is told: its frames, a name, the collector, a line. */
TEST(the_worst_is_told)
{
	struct rprof_sample *s = sample("mXLe", "F");

	s->flags = SAMPLE_F_IN_GC;
	interp(0)->info.flags = INTERP_UNVERIFIED;
	interp(0)->info.frame.flags = FRAME_F_APPROX;
	make();
	check_verdict(STACK_TRANSIENT, REASON_LATE_NAME);
	interp(0)->info.flags = INTERP_RESOLVED;
	make();
	check_verdict(STACK_TRANSIENT, REASON_GC_PLACE);
	s->flags = 0;
	make();
	check_verdict(STACK_TRANSIENT, REASON_LINE);
	interp(0)->info.flags = INTERP_UNVERIFIED;
	s->native_outcome = WALK_NO_CFI;
	make();
	check_verdict(STACK_TRUNCATED, REASON_NO_CFI);
}

TEST(a_cut_walk_names_the_file_that_it_ended_in)
{
	struct rprof_sample *s = sample("ieX", "F");

	s->native_outcome = WALK_NO_CFI;
	make();
	CHECK_STR(stack.cut_library, "i0");
	s = sample("mXL", "F");
	s->interp_outcome = WALK_LIMIT;
	make();
	CHECK_EQ(stack.cut_library, NULL);
	s = sample("", "F");
	s->native_outcome = WALK_NO_MAPPING;
	make();
	CHECK_EQ(stack.cut_library, NULL);
}

/* The largest sample has room: as many frames as the kernel side sends, with all that is inlined.
 */
TEST(the_largest_stack_has_room)
{
	size_t sz = sizeof(struct rprof_sample) + RPROF_MAX_KERNEL * 8 + RPROF_MAX_NATIVE * 8 +
	            RPROF_MAX_INTERP * sizeof(struct interp_frame);
	struct rprof_sample *s = calloc(1, sz);
	struct named_frame *interps = calloc(RPROF_MAX_INTERP, sizeof(*interps));
	struct address **natives = calloc(RPROF_MAX_NATIVE, sizeof(struct address *));
	struct address *at = calloc(1, sizeof(*at) + MAX_INLINED * sizeof(*at->frames));
	struct stack_input in = {.sample = s, .interps = interps, .natives = natives};
	struct address *kernel[RPROF_MAX_KERNEL];
	struct stitch_sites sites = {0};
	struct stack large;

	REQUIRE(s != NULL && interps != NULL && natives != NULL && at != NULL);
	REQUIRE(stack_init(&large) == 0);
	in.kernel = kernel;
	in.sites = &sites;
	in.gc = (struct frame){.kind = FRAME_GC, .name = "gc"};
	s->nr_kernel = RPROF_MAX_KERNEL;
	s->nr_native = RPROF_MAX_NATIVE;
	s->nr_interp = RPROF_MAX_INTERP;
	s->native_outcome = WALK_ROOT;
	s->interp_outcome = WALK_ROOT;
	s->flags = SAMPLE_F_IN_GC;
	at->nr_frames = MAX_INLINED;
	at->stitch.role = STITCH_ENTRY;
	at->stitch.runtime = true;
	for (size_t i = 0; i < MAX_INLINED; i++)
		at->frames[i].frame.name = "f";
	for (size_t i = 0; i < RPROF_MAX_KERNEL; i++)
		kernel[i] = at;
	for (size_t i = 0; i < RPROF_MAX_NATIVE; i++)
		natives[i] = at;
	for (size_t i = 0; i < RPROF_MAX_INTERP; i++) {
		interps[i].info.frame.name = "f";
		interps[i].ends_run = i >= RPROF_MAX_INTERP - RPROF_MAX_NATIVE;
	}
	stack_make(&large, &in);
	CHECK_EQ(large.nr_frames,
	        (RPROF_MAX_NATIVE + RPROF_MAX_KERNEL) * (size_t)MAX_INLINED + RPROF_MAX_INTERP + 1);
	stack_release(&large);
	free(s);
	free(interps);
	free(natives);
	free(at);
}

int main(int argc, char **argv)
{
	int rc = stack_init(&stack);

	if (rc == 0)
		rc = tap_run(argc, argv);
	stack_release(&stack);
	return rc;
}
