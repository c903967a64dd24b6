/*
 * The stitcher against stacks that are drawn at random with their true order: what it does not mark
 * is the truth.
 *
 * A world has an interpreter with its call sites, and functions that several methods may share. The
 * stitcher knows all of its sites, or none and learns. Stacks are drawn root first, as an
 * interpreter makes them: activations, code frames, C functions that are visible, hidden by tail
 * calls or jump into the interpreter, JIT code that calls C functions or helpers, blocks written in
 * C, and the moments at which lists do not agree.
 *
 * What no stitcher can tell is not drawn: two such moments in one activation, which may cancel each
 * other out; and, while sites are learnt, a method's function that C code calls as it is.
 */
#include "tests/unit/stitch_truth.h"

#include <stdlib.h>

enum {
	NR_WORLDS = 300,
	STACKS_PER_WORLD = 150,
	MAX_SITES = 80,
	NR_METHODS = 10,
	MAX_ENTRIES = 64,
	METHODS = 0x10000,     /* functions of methods, in the interpreter; 0x100 each */
	EXTENSIONS = 0x200000, /* likewise, in an extension */
	HELPERS = 0x40000,
	RAISE = 0x50000,   /* pops its own frame */
	UNKNOWN = 0x60000, /* pushes C frames at a place that the code did not tell */
	JIT_PC = 0x70000000,
};

struct world {
	uint64_t site_pc[MAX_SITES], site_func[MAX_SITES];
	size_t nr_sites;
	bool complete;
	bool in_loop; /* the loop pushes frames too */
	struct stitch_sites sites;
};

/* What was drawn so far. */
struct draw {
	unsigned seed;
	const struct world *w;
	bool jit;         /* this activation runs code of the JIT */
	bool odd;         /* a moment in this activation at which the lists do not agree */
	bool any_odd;     /* in one of them */
	bool undecidable; /* it may be that no stitcher can tell: marked is right too */
	bool pushing, popping;
	struct {
		size_t order, native, interp;
	} entry[MAX_ENTRIES];
	size_t nr_entries;
};

static unsigned draw(struct draw *d, unsigned n)
{
	return (unsigned)rand_r(&d->seed) / 7 % n;
}

static uint64_t draw_method(struct draw *d)
{
	return (draw(d, 3) == 0 ? EXTENSIONS : METHODS) + 0x100 * draw(d, NR_METHODS);
}

static void helpers(struct draw *d, unsigned nr)
{
	while (nr-- > 0)
		plain(HELPERS + 0x100 * draw(d, 20));
}

/* A moment at which the lists do not agree, if there is none in this activation yet. */
static bool is_odd(struct draw *d)
{
	if (d->odd)
		return false;
	d->odd = d->any_odd = true;
	return true;
}

/* The native that stands where the function of a C frame should. */
static void callee(struct draw *d, uint64_t func, bool hidden)
{
	if (!hidden)
		plain(func);
	else if (draw(d, 4) == 0)
		plain(draw_method(d)); /* a jump into another method's function */
	else
		helpers(d, 1);
}

static void enter(struct draw *d)
{
	unsigned nr = 1 + draw(d, 3), how = draw(d, 6);

	d->entry[d->nr_entries].order = truth.nr_order;
	d->entry[d->nr_entries].native = truth.nr_natives;
	d->entry[d->nr_entries++].interp = truth.nr_interps;
	native(STITCH_ENTRY, ENTRY_FUNC, ENTRY_FUNC + 8, true);
	if (how != 0)
		native(STITCH_LOOP, LOOP_FUNC, LOOP_FUNC + 8 + 4 * draw(d, 3), true);
	d->jit = how < 2;
	if (d->jit)
		native(STITCH_JIT, 0, JIT_PC + draw(d, 50), draw(d, 2));
	d->odd = false;
	for (unsigned i = 0; i < nr; i++)
		interp(STITCH_CODE, 0, i == 0);
}

static void site(struct draw *d)
{
	size_t i = draw(d, (unsigned)d->w->nr_sites);

	native(STITCH_PLAIN, d->w->site_func[i], d->w->site_pc[i], true);
}

/* A function that pushes C frames, not at the call of one. */
static void pusher(struct draw *d)
{
	size_t i = draw(d, (unsigned)d->w->nr_sites);

	native(STITCH_PLAIN, d->w->site_func[i], d->w->site_func[i] + 0xf0, true);
}

/* A C function is called as a method. False: it has jumped into the interpreter. */
static bool c_method(struct draw *d)
{
	uint64_t func = draw_method(d);

	if (d->w->complete && !d->w->in_loop && !d->jit && draw(d, 40) == 0 && is_odd(d)) {
		d->undecidable = true;
		native(STITCH_PLAIN, UNKNOWN, UNKNOWN + 0x10, true);
	} else {
		site(d);
	}
	if (d->w->complete && draw(d, 20) == 0)
		func = 0;
	interp(STITCH_C, func, false);
	if (draw(d, 12) == 0) {
		enter(d);
		return false;
	}
	callee(d, func, func == 0 || draw(d, 3) == 0);
	return true;
}

enum where { IN_CODE, IN_C, AT_END };

/* What runs directly in the JIT's code. */
static enum where from_jit(struct draw *d)
{
	uint64_t func = draw_method(d);
	bool hidden = draw(d, 3) == 0;

	if (draw(d, 2) == 0) {
		helpers(d, 1);
		return IN_C;
	}
	if (hidden) {
		if (!is_odd(d))
			return AT_END;
		d->undecidable = true;
	}
	interp(STITCH_C, func, false);
	if (draw(d, 12) == 0) {
		enter(d);
		return IN_CODE;
	}
	callee(d, func, hidden);
	return IN_C;
}

static enum where from_loop(struct draw *d)
{
	switch (draw(d, 6)) {
	case 0:
		return AT_END;
	case 1:
		if (d->w->in_loop && !is_odd(d))
			return AT_END;
		helpers(d, 1 + draw(d, 2));
		return IN_C;
	default:
		return c_method(d) ? IN_C : IN_CODE;
	}
}

/* A moment at which what is on the one list is not on the other. */
static enum where odd_moment(struct draw *d)
{
	/* While sites are learnt it is not known what is a moment, and what a site. */
	bool exact = d->w->complete && !d->w->in_loop && !d->jit;

	if (!is_odd(d))
		return AT_END;
	d->undecidable |= !exact;
	switch (draw(d, 4)) {
	case 0: /* a frame is about to be pushed; or it was, and its function is not yet called */
		pusher(d);
		if (draw(d, 2) == 0)
			interp(STITCH_C, draw_method(d), false);
		return AT_END;
	case 1: /* the function has returned; interrupts are handled before the frame is popped */
		pusher(d);
		interp(STITCH_C, draw_method(d), false);
		helpers(d, 1 + draw(d, 3));
		return IN_C;
	case 2: /* before the frame is pushed */
		pusher(d);
		helpers(d, 1 + draw(d, 3));
		return IN_C;
	default: /* Kernel#raise has popped its frame */
		if (!d->w->complete)
			return AT_END;
		d->undecidable = true;
		site(d);
		plain(RAISE);
		helpers(d, 1 + draw(d, 2));
		return IN_C;
	}
}

static enum where from_c(struct draw *d)
{
	switch (draw(d, 20)) {
	case 0:
		return AT_END;
	case 1:
	case 2:
	case 3:
	case 4:
		helpers(d, 1 + draw(d, 3));
		return IN_C;
	case 5:
		interp(STITCH_HIDDEN, 0, false); /* a block written in C */
		helpers(d, 1);
		return IN_C;
	case 6: /* C code calls a method's function as it is */
		if (d->w->complete)
			plain(draw_method(d));
		return IN_C;
	case 7:
	case 8:
	case 9: /* rb_funcall */
		pusher(d);
		enter(d);
		return IN_CODE;
	case 10:
	case 11: /* rb_yield */
		helpers(d, 1);
		enter(d);
		return IN_CODE;
	case 12:
		return odd_moment(d);
	case 13: /* the compiler asks the loop for addresses */
		if (draw(d, 4) != 0)
			return IN_C;
		helpers(d, 1);
		native(STITCH_LOOP, LOOP_FUNC, LOOP_FUNC + 8, true);
		return AT_END;
	case 14: /* a frame is pushed, its activation is to come; its mark too, perhaps */
		if (draw(d, 4) != 0)
			return IN_C;
		d->pushing = true;
		helpers(d, 1);
		interp(STITCH_CODE, 0,
		        truth.interps[truth.nr_interps - 1].class == STITCH_CODE || draw(d, 2));
		return AT_END;
	case 15: /* an activation whose frame is popped */
		if (draw(d, 4) != 0)
			return IN_C;
		d->popping = true;
		helpers(d, 1);
		native(STITCH_ENTRY, ENTRY_FUNC, ENTRY_FUNC + 8, true);
		if (draw(d, 2) == 0)
			native(STITCH_LOOP, LOOP_FUNC, LOOP_FUNC + 8, true);
		else
			helpers(d, draw(d, 3));
		return AT_END;
	default:
		return c_method(d) ? IN_C : IN_CODE;
	}
}

static void draw_stack(struct draw *d, const struct world *w, unsigned seed)
{
	enum where at = IN_C;

	*d = (struct draw){.seed = seed, .w = w};
	start_program();
	/* A thread may begin with a C function. */
	if (draw(d, 4) != 0) {
		enter(d);
		at = IN_CODE;
	}
	for (unsigned left = 4 + draw(d, 40); at != AT_END && left > 0; left--)
		at = at == IN_C ? from_c(d) : d->jit ? from_jit(d) : from_loop(d);
}

static void draw_world(struct world *w, unsigned number)
{
	struct draw d = {.seed = number};

	*w = (struct world){.complete = number % 3 != 0, .in_loop = number % 5 == 0};
	w->nr_sites = w->complete ? 1 + draw(&d, 4) : 1 + draw(&d, draw(&d, 2) ? 4 : MAX_SITES);
	for (size_t i = 0; i < w->nr_sites; i++) {
		w->site_func[i] = 0x1000 + 0x100 * draw(&d, 4);
		w->site_pc[i] = w->site_func[i] + i + 1;
	}
	for (size_t i = 0; w->complete && i < w->nr_sites; i++) {
		w->sites.addr[i] = w->site_pc[i];
		w->sites.func_addr[i] = w->site_func[i];
		w->sites.nr = i + 1;
	}
	if (w->complete && w->in_loop) {
		w->sites.addr[w->sites.nr] = LOOP_FUNC + 0x80;
		w->sites.func_addr[w->sites.nr++] = LOOP_FUNC;
	}
	w->sites.complete = w->complete;
}

static void print_stack(void)
{
	static const char *const roles[] = {"native", "entry", "loop", "jit"};
	static const char *const classes[] = {"code", "C", "hidden"};
	size_t hidden = 0;

	for (size_t i = 0; i < truth.nr_order; i++) {
		const struct stitch_item *item = &truth.order[i];
		const struct stitch_native *n = &truth.natives[item->index];
		const struct stitch_interp *f = &truth.interps[item->index];

		for (; item->interp && hidden < item->index; hidden++)
			if (truth.interps[hidden].class == STITCH_HIDDEN)
				printf("#\thidden\n");
		if (item->interp)
			printf("#\t%s %#" PRIx64 "%s\n", classes[f->class], f->func_addr,
			        f->ends_run ? " begins" : "");
		else
			printf("#\t  %s %#" PRIx64 " at %#" PRIx64 "\n", roles[n->role],
			        n->func_addr, n->pc);
	}
}

/* Nothing twice, nothing missing, each list in its order. */
static const char *check_lists(const struct stitch_input *in, enum stitch_result result,
        const struct stitch_item *items, size_t nr)
{
	size_t natives = in->nr_natives, interps = in->nr_interps, nr_hidden = 0, nr_native = 0;
	bool paired = result != STITCH_OFF_STACK && result != STITCH_MISPAIRED;

	for (size_t i = 0; i < in->nr_interps; i++)
		nr_hidden += in->interps[i].class == STITCH_HIDDEN;
	for (size_t i = 0; i < nr; i++) {
		size_t *outer = items[i].interp ? &interps : &natives;

		if (items[i].index >= *outer)
			return "frames of one list are not in its order";
		if (items[i].interp && in->interps[items[i].index].class == STITCH_HIDDEN)
			return "a hidden frame is shown";
		*outer = items[i].index;
		nr_native += !items[i].interp;
	}
	if (nr - nr_native != in->nr_interps - nr_hidden)
		return "frames of the interpreter are missing";
	if (nr_native != (paired ? in->nr_natives : MIN(in->nr_natives, (size_t)1)))
		return "native frames are missing";
	if (!paired && nr_native > 0 && (items[nr - 1].interp || items[nr - 1].index != 0))
		return "the leaf is not the innermost frame";
	return NULL;
}

/* Room for as many items as the stitcher may fill, and no more: ASan looks. */
static struct stitch_item *items_new(const struct stitch_input *in)
{
	return malloc((in->nr_natives + in->nr_interps) * sizeof(struct stitch_item));
}

static const char *check_whole(const struct draw *d, struct world *w, enum stitch_result *result)
{
	struct stitch_input in = flatten();
	struct stitch_item *items = items_new(&in);
	bool is_true, undisturbed = !d->pushing && !d->popping;
	const char *wrong;
	size_t nr;

	*result = stitch(&in, &w->sites, items, &nr);
	wrong = check_lists(&in, *result, items, nr);
	is_true = nr == truth.nr_order && truth_differs(items, nr) == nr;
	free(items);
	if (wrong != NULL)
		return wrong;
	if (*result == STITCH_EXACT && !is_true)
		return "it is wrong, and not marked";
	if (d->pushing && *result != STITCH_PUSHING)
		return "a frame that is being pushed is not marked as that";
	if (d->popping && *result != STITCH_POPPING)
		return "a frame that was just popped is not marked as that";
	if (!w->complete || d->undecidable)
		return NULL;
	if (undisturbed && *result != STITCH_EXACT)
		return "it is marked, and nothing is wrong";
	return is_true || d->any_odd ? NULL : "it is marked, but not the truth as it could be";
}

/* What is inside of the outermost activation that is there whole is as it is without the cut. */
static const char *check_cut(struct draw *d, struct world *w, bool was_exact)
{
	size_t cut_natives = draw(d, 2) ? draw(d, (unsigned)truth.nr_natives + 1) : 0;
	size_t cut_interps =
	        cut_natives == 0 || draw(d, 2) ? draw(d, (unsigned)truth.nr_interps + 1) : 0;
	struct stitch_input in = flatten_without(cut_natives, cut_interps);
	struct stitch_item *items = items_new(&in);
	enum stitch_result result;
	const char *wrong;
	size_t nr, inner = 0;

	result = stitch(&in, &w->sites, items, &nr);
	wrong = check_lists(&in, result, items, nr);
	if (wrong == NULL && (cut_natives > 0 || cut_interps > 0) && result != STITCH_PARTIAL)
		wrong = "it is cut, and not marked";
	for (size_t i = d->nr_entries; i-- > 0;)
		if (d->entry[i].native >= cut_natives && d->entry[i].interp >= cut_interps)
			inner = truth.nr_order - d->entry[i].order;
	if (wrong == NULL && was_exact &&
	        (inner > nr || truth_differs(items + nr - inner, inner) != inner))
		wrong = "it is cut, and wrong inside of the cut";
	free(items);
	return wrong;
}

/* What is learnt is true. */
static const char *check_learnt(const struct world *w)
{
	if (w->sites.nr > STITCH_MAX_SITES)
		return "more sites are learnt than there is room for";
	for (size_t i = 0; !w->complete && i < w->sites.nr; i++) {
		bool found = false;

		for (size_t k = 0; k < w->nr_sites; k++)
			found |= w->sites.addr[i] == w->site_pc[k] &&
			         w->sites.func_addr[i] == w->site_func[k];
		for (size_t k = 0; k < i; k++)
			found &= w->sites.addr[i] != w->sites.addr[k];
		if (!found)
			return "a call is learnt that is no site, or twice";
	}
	return NULL;
}

TEST(what_is_not_marked_is_the_truth)
{
	size_t nr = 0, nr_exact[2] = {0}, nr_of[2] = {0}, nr_full = 0;

	for (unsigned number = 1; number <= NR_WORLDS && !tap_failed; number++) {
		struct world w;

		draw_world(&w, number);
		for (unsigned i = 0; i < STACKS_PER_WORLD && !tap_failed; i++) {
			unsigned seed = number * 100003 + i;
			enum stitch_result result;
			const char *wrong;
			struct draw d;

			draw_stack(&d, &w, seed);
			wrong = check_whole(&d, &w, &result);
			if (wrong == NULL)
				wrong = check_cut(&d, &w, result == STITCH_EXACT);
			if (wrong == NULL)
				wrong = check_learnt(&w);
			nr++;
			nr_of[w.complete]++;
			nr_exact[w.complete] += result == STITCH_EXACT;
			if (wrong == NULL)
				continue;
			TAP_FAIL("%s: stack %u of world %u (seed %u, sites are %s)", wrong, i,
			        number, seed, w.complete ? "known" : "learnt");
			print_stack();
		}
		nr_full += w.sites.nr == STITCH_MAX_SITES;
	}
	printf("# %zu stacks; not marked: %zu of %zu where sites are known, %zu of %zu where they "
	       "are learnt; %zu worlds with more sites than are learnt\n",
	        nr, nr_exact[1], nr_of[1], nr_exact[0], nr_of[0], nr_full);
	CHECK(tap_failed || nr_full > 0);
	CHECK(tap_failed || nr_exact[1] > nr_of[1] / 2);
	CHECK(tap_failed || nr_exact[0] > nr_of[0] / 4);
}

/* Lists that no interpreter makes: whatever comes out has each frame once, in its list's order. */
TEST(frames_of_lists_that_make_no_sense_are_all_there_in_their_order)
{
	struct draw d = {.seed = 20261122};

	for (int i = 0; i < 30000 && !tap_failed; i++) {
		struct stitch_sites sites = {.complete = draw(&d, 2)};
		unsigned seed = d.seed, nr_natives = draw(&d, 30), nr_interps = draw(&d, 30);
		struct stitch_item *items;
		enum stitch_result result;
		struct stitch_input in;
		const char *wrong;
		size_t nr;

		start();
		for (unsigned k = 0; k < nr_natives; k++)
			native((uint8_t)draw(&d, 4), 0x100 * draw(&d, 6),
			        0x100 * draw(&d, 6) + draw(&d, 3), draw(&d, 2));
		for (unsigned k = 0; k < nr_interps; k++)
			interp((uint8_t)draw(&d, 3), 0x100 * draw(&d, 6), draw(&d, 4) == 0);
		for (sites.nr = 0; sites.nr < draw(&d, STITCH_MAX_SITES + 1); sites.nr++) {
			sites.func_addr[sites.nr] = 0x100 * draw(&d, 6);
			sites.addr[sites.nr] = sites.func_addr[sites.nr] + draw(&d, 3);
		}
		in = flatten();
		in.native_root = draw(&d, 2);
		in.interp_root = draw(&d, 2);
		in.off_stack = draw(&d, 8) == 0;
		stitch_learn(&in, &sites);
		CHECK(sites.nr <= STITCH_MAX_SITES);
		items = items_new(&in);
		result = stitch(&in, &sites, items, &nr);
		wrong = check_lists(&in, result, items, nr);
		free(items);
		if (wrong == NULL)
			continue;
		TAP_FAIL("%s: lists of seed %u", wrong, seed);
		print_stack();
	}
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
