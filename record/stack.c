#include "record/stack.h"

#include "record/kept_walk.h"
#include "symbolizer/gc_place.h"

#include <errno.h>
#include <stdlib.h>

enum {
	/* A frame of the collector stands among them. */
	MAX_FRAMES = (RPROF_MAX_KERNEL + RPROF_MAX_NATIVE) * MAX_INLINED + RPROF_MAX_INTERP + 1,
};

int stack_init(struct stack *st)
{
	*st = (struct stack){
	        .frames = calloc(MAX_FRAMES, sizeof(*st->frames)),
	        .natives = calloc(RPROF_MAX_NATIVE, sizeof(*st->natives)),
	        .interps = calloc(RPROF_MAX_INTERP, sizeof(*st->interps)),
	        .items = calloc(RPROF_MAX_NATIVE + RPROF_MAX_INTERP, sizeof(*st->items)),
	};
	if (st->frames != NULL && st->natives != NULL && st->interps != NULL && st->items != NULL)
		return 0;
	stack_release(st);
	return -ENOMEM;
}

void stack_release(struct stack *st)
{
	free(st->frames);
	free(st->natives);
	free(st->interps);
	free(st->items);
	*st = (struct stack){0};
}

/* ---- what one frame says of another ---------------------------------------------------------- */

/*
 * The frame of a rescue or ensure body is the only one that is shown of its function: what is said
 * of that, is said there. A frame that is not shown still is a frame to the stitcher, and may
 * itself be a body whose next frame is not shown (vm_backtrace.c, rb_ec_partial_backtrace_object,
 * skip_next_frame, v3_4_0).
 */
static void join_bodies(struct named_frame *frames, size_t nr)
{
	struct frame *body = NULL; /* that is shown */
	bool skip = false;

	for (size_t i = 0; i < nr; i++) {
		struct frame *f = &frames[i].info.frame;

		if (frames[i].class != STITCH_CODE)
			continue;
		if (skip) {
			body->method = f->method;
			f->name = NULL;
		} else {
			body = f;
		}
		skip = frames[i].info.flags & INTERP_SKIP_NEXT;
	}
}

/* The line of a frame of code is not known, or not known to be the one that runs. */
static bool is_line_inexact(const struct frame *f)
{
	return (f->flags & FRAME_F_APPROX) || (f->path != NULL && f->line == 0);
}

/* A C function has no line of its own: it is the line that called it, as in Ruby's backtraces. If
 * that is not known, neither is this. True: all lines are the ones that run. */
static bool give_lines(struct named_frame *frames, size_t nr)
{
	const struct frame *caller = NULL;
	bool exact = true;

	for (size_t i = nr; i-- > 0;) {
		struct frame *f = &frames[i].info.frame;

		if (frames[i].class == STITCH_CODE && f->name != NULL) {
			caller = f;
			exact &= !is_line_inexact(f);
		} else if (frames[i].class == STITCH_C && caller != NULL) {
			f->path = caller->path;
			f->line = caller->line;
			f->flags |= caller->flags & FRAME_F_APPROX;
		}
	}
	return exact;
}

static bool has_late_name(const struct named_frame *frames, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (frames[i].info.flags & (INTERP_UNVERIFIED | INTERP_UNREADABLE))
			return true;
	return false;
}

/* ---- the order of the frames -------------------------------------------------------------------
 */

/*
 * The stack pointer is outside of the context's stack, and no signal was caught: a handler may run
 * on a stack of its own (sigaltstack), behind which the thread's own goes on. (While the kernel
 * exchanges the registers for it, not all are of one of the two.)
 */
static bool is_off_stack(const struct rprof_sample *s)
{
	if (!(s->flags & SAMPLE_F_OFF_STACK))
		return false;
	for (size_t i = 1; i < s->nr_native; i++)
		if (record_native(s)[i] & NATIVE_INTERRUPTED)
			return false;
	return true;
}

static void prepare(struct stack *st, const struct stack_input *in, struct stitch_input *out)
{
	const struct rprof_sample *s = in->sample;

	for (size_t i = 0; i < s->nr_native; i++) {
		st->natives[i] = in->natives[i]->stitch;
		st->natives[i].pc = NATIVE_PC(record_native(s)[i]);
	}
	for (size_t i = 0; i < s->nr_interp; i++)
		st->interps[i] = (struct stitch_interp){
		        .func_addr = in->interps[i].info.func_addr,
		        .class = in->interps[i].class,
		        .ends_run = in->interps[i].ends_run,
		};
	*out = (struct stitch_input){
	        .natives = st->natives,
	        .nr_natives = s->nr_native,
	        .native_root = s->native_outcome == WALK_ROOT,
	        .interps = st->interps,
	        .nr_interps = s->nr_interp,
	        .interp_root = s->interp_outcome == WALK_ROOT,
	        .off_stack = is_off_stack(s),
	};
}

static void push(struct stack *st, const struct frame *frame, uint32_t *id)
{
	st->frames[st->nr_frames++] = (struct stack_frame){.frame = frame, .id = id};
}

/* The frames at one address, the outermost function first. */
static void push_address(struct stack *st, struct address *at)
{
	for (size_t i = at->nr_frames; i-- > 0;)
		push(st, &at->frames[i].frame, &at->frames[i].id);
}

static void push_item(
        struct stack *st, const struct stack_input *in, const struct stitch_item *item)
{
	const struct frame *f;

	if (!item->interp) {
		push_address(st, in->natives[item->index]);
		return;
	}
	f = &in->interps[item->index].info.frame;
	if (f->name != NULL)
		push(st, f, NULL);
}

/* False: the collector runs, and where its frame stands is not certain. */
static bool push_items(struct stack *st, const struct stack_input *in, size_t nr)
{
	const struct rprof_sample *s = in->sample;
	size_t gc_at = SIZE_MAX;
	bool placed = true;

	if (s->flags & SAMPLE_F_IN_GC) {
		st->gc = in->gc;
		placed = gc_place(
		        st->items, nr, st->natives, s->native_outcome == WALK_ROOT, &gc_at);
	}
	for (size_t i = 0; i < nr; i++) {
		if (i == gc_at)
			push(st, &st->gc, NULL);
		push_item(st, in, &st->items[i]);
	}
	if (gc_at == nr)
		push(st, &st->gc, NULL);
	return placed;
}

/* ---- how far it can be trusted -------------------------------------------------------------- */

static enum stack_reason reason_of_walk(uint8_t outcome, bool interp)
{
	switch (outcome) {
	case WALK_LIMIT:
		return interp ? REASON_INTERP_LIMIT : REASON_NATIVE_LIMIT;
	case WALK_NO_MAPPING:
		return REASON_NO_MAPPING;
	case WALK_NO_CFI:
		return REASON_NO_CFI;
	case WALK_NO_PROGRESS:
		return REASON_NO_PROGRESS;
	case WALK_JIT:
		return REASON_JIT;
	case WALK_BAD_CONTEXT:
		return REASON_BAD_CONTEXT;
	case WALK_NO_TABLE:
		return REASON_NO_TABLE;
	default:
		return REASON_UNREADABLE;
	}
}

static enum stack_reason reason_of_stitch(enum stitch_result result)
{
	switch (result) {
	case STITCH_PUSHING:
		return REASON_PUSHING;
	case STITCH_POPPING:
		return REASON_POPPING;
	case STITCH_UNPLACED:
		return REASON_UNPLACED;
	default:
		return REASON_MISPAIRED;
	}
}

/*
 * A thread that has been left by the interpreter still names a context, whose memory may be
 * another's by now. Its native stack, reached to the root without an activation of the interpreter,
 * says that it runs none.
 */
static bool runs_no_code(const struct stack *st, const struct rprof_sample *s)
{
	if (s->interp_outcome == WALK_NO_CONTEXT || s->interp_outcome == WALK_NONE)
		return true;
	if (s->native_outcome != WALK_ROOT || s->nr_interp != 0)
		return false;
	for (size_t i = 0; i < s->nr_native; i++)
		if (st->natives[i].role == STITCH_ENTRY)
			return false;
	return true;
}

static void judge(struct stack *st, enum stack_outcome outcome, enum stack_reason reason)
{
	st->outcome = (uint8_t)outcome;
	st->reason = (uint8_t)reason;
}

/* What the walks and the stitcher say. False: nothing is wrong. */
static bool judge_frames(struct stack *st, const struct rprof_sample *s, enum stitch_result result)
{
	/* The stacks of two fibers in one sample, one of them cut: the switch says more than the
	 * cut. */
	if (result == STITCH_OFF_STACK)
		judge(st, STACK_TRANSIENT,
		        s->flags & SAMPLE_F_SIGNAL_STACK ? REASON_SIGNAL_STACK
		                                         : REASON_FIBER_SWITCH);
	else if (s->native_outcome != WALK_ROOT)
		judge(st, STACK_TRUNCATED, reason_of_walk(s->native_outcome, false));
	else if (runs_no_code(st, s))
		judge(st, STACK_NO_CONTEXT, REASON_NONE);
	else if (s->interp_outcome != WALK_ROOT)
		judge(st, STACK_TRUNCATED, reason_of_walk(s->interp_outcome, true));
	else if (result != STITCH_EXACT)
		judge(st, STACK_TRANSIENT, reason_of_stitch(result));
	else
		return false;
	/* A thread gives up its memory while it ends (exit_mm), of a process the last one frees it.
	 */
	if ((s->flags & SAMPLE_F_EXITING) && st->reason == REASON_UNREADABLE)
		st->reason = REASON_EXITING;
	return true;
}

void stack_make(struct stack *st, const struct stack_input *in)
{
	const struct rprof_sample *s = in->sample;
	bool late = has_late_name(in->interps, s->nr_interp), lines, placed;
	struct stitch_input stitch_in;
	enum stitch_result result;
	size_t nr = 0;

	join_bodies(in->interps, s->nr_interp);
	lines = give_lines(in->interps, s->nr_interp);
	prepare(st, in, &stitch_in);
	result = stitch(&stitch_in, in->sites, st->items, &nr);
	st->nr_frames = 0;
	placed = push_items(st, in, nr);
	for (size_t i = s->nr_kernel; i-- > 0;)
		push_address(st, in->kernel[i]);
	st->cut_library = NULL;
	if (s->native_outcome != WALK_ROOT && s->nr_native != 0)
		st->cut_library = in->natives[s->nr_native - 1]->frames[0].frame.library;

	if (judge_frames(st, s, result))
		return;
	if (late)
		judge(st, STACK_TRANSIENT, REASON_LATE_NAME);
	else if (!placed)
		judge(st, STACK_TRANSIENT, REASON_GC_PLACE);
	else if (!lines)
		judge(st, STACK_TRANSIENT, REASON_LINE);
	else
		judge(st, STACK_EXACT, REASON_NONE);
}

void stack_learn(struct stack *st, const struct stack_input *in)
{
	struct stitch_input stitch_in;

	prepare(st, in, &stitch_in);
	stitch_learn(&stitch_in, in->sites);
}
