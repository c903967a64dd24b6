#include "record/pipeline.h"

#include "base/hash.h"
#include "record/address.h"
#include "record/syscalls.h"
#include "symbolizer/gc_place.h"
#include "record/kept_walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_PROCESSES = 256,
	MAX_FRAMES = RPROF_MAX_KERNEL + RPROF_MAX_NATIVE * 4 + RPROF_MAX_INTERP + 4,
	LEARN_SAMPLES = 256, /* so many stacks teach the stitcher */
	MAX_PENDING = 64,    /* samples that wait for objects that were not captured with them */
	PENDING_SAMPLES = 8, /* of the same thread, which bring them */
	PENDING_NS = 1000000000,
	MAX_UNSENT = 256,
	NAMES_EVERY = 64, /* a thread's names are read again after so many of its samples */
};

/* A sample with its interpreter frames named. */
struct held {
	const struct rprof_sample *sample;
	size_t size;
	struct interp_info *infos; /* leaf first */
	struct stitch_interp *interps;
	struct process *process;
	struct addresses *addresses; /* the process's */
	/* Of the interpreter that named it: an exec may change the process's. */
	const struct runtime_ops *ops;
	struct runtime *rt;
	char thread_name[64]; /* if has_thread_name */
	bool has_thread_name;
	bool unverified;
	bool inexact_line;
	bool gc_unplaced;  /* where the collector's frame stands is not certain */
	uint32_t nr_later; /* samples of its thread that have come since: those that wait for names
	                    */
	struct held *next; /* of those that wait: sample, infos and interps are owned */
};

/* A frame of the interpreter that the recording has, known by its strings' addresses. */
struct seen_frame {
	struct frame frame;
	uint32_t id;
};

struct pipeline {
	struct recording *rec;
	uint64_t period_ns;
	uint32_t cpu_trigger;
	struct hash64 syscall_triggers; /* number -> trigger id */
	struct addresses processes[MAX_PROCESSES];
	size_t nr_processes;
	struct addresses kernel;
	struct hash64 names_due; /* pid << 32 | tid -> samples until its name is read again */
	struct hash64 threads;   /* pid << 32 | tid -> id in the recording */
	struct hash64 by_frame;  /* hash of a frame -> index in seen */
	struct seen_frame *seen; /* owned */
	size_t nr_seen, cap_seen;
	struct held *first, **last; /* that wait to learn from */
	size_t nr_held;
	struct held *pending[MAX_PENDING];
	size_t nr_pending;
	bool learnt;
	struct pipeline_stats stats;
	/* room for one stack */
	struct interp_info *infos;
	struct stitch_interp *interps;
	struct stitch_native *natives;
	struct address **at, *kernel_at[RPROF_MAX_KERNEL];
	struct stitch_item *items;
	uint32_t *ids;
	size_t nr_ids;
};

int pipeline_new(struct recording *rec, struct kallsyms *kallsyms, uint32_t rate_hz,
        struct pipeline **out, struct err *err)
{
	struct pipeline *pl = calloc(1, sizeof(*pl));

	if (pl == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	pl->rec = rec;
	pl->period_ns = rate_hz != 0 ? 1000000000ULL / rate_hz : 0;
	hash64_init(&pl->threads);
	hash64_init(&pl->by_frame);
	hash64_init(&pl->names_due);
	addresses_init_kernel(&pl->kernel, kallsyms);
	hash64_init(&pl->syscall_triggers);
	pl->last = &pl->first;
	pl->infos = calloc(RPROF_MAX_INTERP + 1, sizeof(*pl->infos));
	pl->interps = calloc(RPROF_MAX_INTERP + 1, sizeof(*pl->interps));
	pl->natives = calloc(RPROF_MAX_NATIVE + 1, sizeof(*pl->natives));
	pl->at = calloc(RPROF_MAX_NATIVE + 1, sizeof(*pl->at));
	pl->items = calloc(RPROF_MAX_NATIVE + RPROF_MAX_INTERP + 2, sizeof(*pl->items));
	pl->ids = calloc(MAX_FRAMES, sizeof(*pl->ids));
	if (pl->infos == NULL || pl->interps == NULL || pl->natives == NULL || pl->at == NULL ||
	        pl->items == NULL || pl->ids == NULL) {
		pipeline_free(pl);
		return err_set(err, -ENOMEM, "out of memory");
	}
	if (rate_hz != 0)
		recording_add_trigger(rec, "cpu", "ns", &pl->cpu_trigger);
	*out = pl;
	return 0;
}

static void held_free(struct held *h)
{
	free((void *)h->sample);
	free(h->infos);
	free(h->interps);
	free(h);
}

void pipeline_free(struct pipeline *pl)
{
	if (pl == NULL)
		return;
	while (pl->first != NULL) {
		struct held *h = pl->first;

		pl->first = h->next;
		held_free(h);
	}
	for (size_t i = 0; i < pl->nr_pending; i++)
		held_free(pl->pending[i]);
	hash64_release(&pl->threads);
	hash64_release(&pl->by_frame);
	free(pl->seen);
	hash64_release(&pl->names_due);
	addresses_release(&pl->kernel);
	for (size_t i = 0; i < pl->nr_processes; i++)
		addresses_release(&pl->processes[i]);
	hash64_release(&pl->syscall_triggers);
	free(pl->infos);
	free(pl->interps);
	free(pl->natives);
	free(pl->at);
	free(pl->items);
	free(pl->ids);
	free(pl);
}

int pipeline_add_process(struct pipeline *pl, struct process *p, struct err *err)
{
	if (pl->nr_processes == MAX_PROCESSES)
		return err_set(err, -E2BIG, "more than %d processes", MAX_PROCESSES);
	addresses_init(&pl->processes[pl->nr_processes++], p);
	return 0;
}

static struct addresses *addresses_of(struct pipeline *pl, uint32_t pid)
{
	for (size_t i = 0; i < pl->nr_processes; i++)
		if ((uint32_t)pl->processes[i].process->target.pid == pid)
			return &pl->processes[i];
	return NULL;
}

/* ---- names ----------------------------------------------------------------------------------- */

static uint64_t thread_key(const struct rprof_sample *s)
{
	return (uint64_t)s->tgid << 32 | s->tid;
}

/* The program's name of the thread, now and then: it may change. */
static void name_thread(struct pipeline *pl, struct held *h)
{
	const struct rprof_sample *s = h->sample;
	uint64_t *due = hash64_find(&pl->names_due, thread_key(s));

	if (due != NULL && *due > 0) {
		*due -= 1;
		return;
	}
	h->has_thread_name = true;
	if (h->ops != NULL && s->context != 0)
		h->ops->thread_name(h->rt, s->context, h->thread_name, sizeof(h->thread_name));
	hash64_put(&pl->names_due, thread_key(s), NAMES_EVERY);
}

static uint32_t thread_of(struct pipeline *pl, const struct held *h)
{
	const struct rprof_sample *s = h->sample;
	uint64_t *found = hash64_find(&pl->threads, thread_key(s));
	char comm[sizeof(s->comm) + 1] = "";
	uint32_t id = 0;

	if (found != NULL && !h->has_thread_name)
		return (uint32_t)*found;
	if (found == NULL)
		pl->stats.threads++;
	memcpy(comm, s->comm, sizeof(s->comm));
	recording_add_thread(pl->rec, h->process->id, (int)s->tid, comm, h->thread_name, &id);
	hash64_put(&pl->threads, thread_key(s), id);
	return id;
}

/* The line of a frame of code is not known, or not known to be the one that runs. */
static bool is_line_inexact(const struct frame *f)
{
	return (f->flags & FRAME_F_APPROX) || (f->path != NULL && f->line == 0);
}

/* The frame of a rescue or ensure body is the only one that is shown of its function: what is said
 * of that, is said there. */
static void stand_for(struct frame *body, struct frame *function)
{
	body->method = function->method;
	function->name = NULL;
}

/* The objects of a sample that were not captured with it. They may stand in many frames, of which
 * one says so. */
struct unsent {
	uint64_t objects[MAX_UNSENT];
	size_t nr;
	bool all; /* more than there is room for */
};

static bool is_unsent(const struct unsent *u, uint64_t object)
{
	if (u->all)
		return true;
	for (size_t i = 0; i < u->nr; i++)
		if (u->objects[i] == object)
			return true;
	return false;
}

static void unsent_find(struct unsent *u, const struct rprof_sample *s)
{
	const struct interp_frame *frames = record_interp(s);

	u->nr = 0;
	u->all = false;
	if (!(s->flags & SAMPLE_F_UNSENT))
		return;
	for (size_t i = 0; i < s->nr_interp; i++) {
		bool base = i + s->base_unsent >= s->nr_interp;
		const uint64_t objects[] = {
		        base || frames[i].extra & INTERP_F_CODE_UNSENT ? frames[i].code : 0,
		        base || frames[i].extra & INTERP_F_METHOD_UNSENT ? frames[i].method : 0,
		};

		for (size_t k = 0; k < ARRAY_SIZE(objects); k++) {
			if (objects[k] == 0 || is_unsent(u, objects[k]))
				continue;
			if (u->nr == MAX_UNSENT)
				u->all = true;
			else
				u->objects[u->nr++] = objects[k];
		}
	}
}

/*
 * Names one frame. again: what was named right is left alone, since its address may hold another
 * object by now; and what was captured with the sample has to be shown to be that as well.
 */
static void name_frame(struct held *h, size_t i, const struct unsent *unsent, bool again)
{
	const struct rprof_sample *s = h->sample;
	struct interp_moment when = {s->time_ns, s->gc_gen, s->unsent_old_stamp};
	struct interp_frame f = record_interp(s)[i];
	struct interp_info *info = &h->infos[i];

	if (again && !(info->flags & (INTERP_UNVERIFIED | INTERP_UNREADABLE)))
		return;
	if (is_unsent(unsent, f.code))
		f.extra |= INTERP_F_CODE_UNSENT;
	if (is_unsent(unsent, f.method))
		f.extra |= INTERP_F_METHOD_UNSENT;
	if (again && (f.extra & INTERP_F_UNSENT) != INTERP_F_UNSENT) {
		f.extra |= INTERP_F_UNSENT;
		when.unsent_old_stamp = 0;
	}
	/* What collects has been called, and whoever calls what may collect has noted its line. */
	h->ops->resolve(h->rt, &f, i == 0 && !(s->flags & SAMPLE_F_IN_GC), &when, info);
	info->frame.language = h->ops->name;
}

/* Names the interpreter frames, leaf first, and says what they are to the stitcher. */
static void name_interp_frames(struct held *h, bool again)
{
	const struct rprof_sample *s = h->sample;
	const struct interp_frame *frames = record_interp(s);
	struct unsent unsent;
	struct frame *body = NULL; /* that of a rescue or ensure body, which is shown */
	bool skip = false;

	unsent_find(&unsent, s);
	h->unverified = false;
	h->inexact_line = false;
	for (size_t i = 0; i < s->nr_interp; i++) {
		struct interp_desc desc = {.class = STITCH_HIDDEN};

		/* Of an interpreter that nobody knows: its frames stay without names. */
		if (h->ops == NULL) {
			h->infos[i] = (struct interp_info){0};
			h->interps[i] = (struct stitch_interp){.class = STITCH_HIDDEN};
			h->unverified = true;
			continue;
		}

		h->ops->frame_class(h->rt, &frames[i], &desc);
		h->interps[i] =
		        (struct stitch_interp){.class = desc.class, .ends_run = desc.ends_run};
		if (!again)
			h->infos[i] = (struct interp_info){0};
		if (desc.class == STITCH_HIDDEN)
			continue;
		name_frame(h, i, &unsent, again);
		h->interps[i].func_addr = h->infos[i].func_addr;
		if (h->infos[i].flags & (INTERP_UNVERIFIED | INTERP_UNREADABLE))
			h->unverified = true;
		/* A frame that is not shown still is a frame to the stitcher, and may itself be a
		 * body whose next frame is not shown (vm_backtrace.c,
		 * rb_ec_partial_backtrace_object, skip_next_frame, v3_4_0). */
		if (desc.class == STITCH_CODE) {
			if (skip)
				stand_for(body, &h->infos[i].frame);
			else
				body = &h->infos[i].frame;
			skip = h->infos[i].flags & INTERP_SKIP_NEXT;
		}
	}
	/* A C function has no line of its own: it is the line that called it, as in Ruby's
	 * backtraces. If that is not known, neither is this. */
	const char *path = NULL;
	uint32_t line = 0;
	uint16_t approx = 0;

	for (size_t i = s->nr_interp; i-- > 0;) {
		struct frame *f = &h->infos[i].frame;

		if (h->interps[i].class == STITCH_CODE && f->name != NULL) {
			path = f->path;
			line = f->line;
			h->inexact_line |= is_line_inexact(f);
			approx = f->flags & FRAME_F_APPROX;
		} else if (h->interps[i].class == STITCH_C) {
			f->path = path;
			f->line = line;
			f->flags |= approx;
		}
	}
}

/* ---- building the stack ------------------------------------------------------------------------
 */

static void push_frame(struct pipeline *pl, const struct frame *f)
{
	uint32_t id;

	if (pl->nr_ids < MAX_FRAMES && recording_intern_frame(pl->rec, f, &id) == 0)
		pl->ids[pl->nr_ids++] = id;
}

static void remember_frame(struct pipeline *pl, uint64_t key, const struct frame *f, uint32_t id)
{
	if (pl->nr_seen == pl->cap_seen) {
		size_t cap = pl->cap_seen != 0 ? pl->cap_seen * 2 : 256;
		struct seen_frame *seen = reallocarray(pl->seen, cap, sizeof(*seen));

		if (seen == NULL)
			return;
		pl->seen = seen;
		pl->cap_seen = cap;
	}
	if (hash64_put(&pl->by_frame, key, pl->nr_seen) == 0)
		pl->seen[pl->nr_seen++] = (struct seen_frame){*f, id};
}

/* Its strings live as long as the interpreter, that is longer than the pipeline: the recording need
 * not compare them each time. */
static void push_interp(struct pipeline *pl, const struct frame *f)
{
	uint64_t key = hash_bytes(f, sizeof(*f), 0);
	const uint64_t *found = hash64_find(&pl->by_frame, key);
	uint32_t id;

	if (pl->nr_ids == MAX_FRAMES)
		return;
	if (found != NULL && memcmp(&pl->seen[*found].frame, f, sizeof(*f)) == 0) {
		pl->ids[pl->nr_ids++] = pl->seen[*found].id;
	} else if (recording_intern_frame(pl->rec, f, &id) == 0) {
		pl->ids[pl->nr_ids++] = id;
		if (found == NULL)
			remember_frame(pl, key, f, id);
	}
}

/* The frames at one address, the outermost function first. */
static void push_address(struct pipeline *pl, struct address *at)
{
	for (size_t i = at->nr_frames; i-- > 0;) {
		struct address_frame *f = &at->frames[i];

		if (f->id == 0 && recording_intern_frame(pl->rec, &f->frame, &f->id) != 0)
			continue;
		if (pl->nr_ids < MAX_FRAMES)
			pl->ids[pl->nr_ids++] = f->id;
	}
}

static const char *gc_name(const struct held *h)
{
	if (h->ops == NULL || h->ops->gc_name == NULL)
		return "(garbage collection)";
	return h->ops->gc_name(h->rt, h->sample->gc_gen);
}

static void push_trigger(struct pipeline *pl, const struct rprof_sample *s)
{
	struct frame f = {.kind = FRAME_KERNEL, .role = ROLE_SYSCALL, .library = "[kernel]"};
	char unknown[32];

	if (s->trigger != TRIGGER_SYSCALL)
		return;
	f.name = syscall_name(s->syscall);
	if (f.name == NULL) {
		snprintf(unknown, sizeof(unknown), "syscall_%u", s->syscall);
		f.name = unknown;
	}
	push_frame(pl, &f);
}

static void push_items(struct pipeline *pl, struct held *h, size_t nr)
{
	size_t gc_at = SIZE_MAX;
	struct frame gc = {.kind = FRAME_GC};

	if (h->sample->flags & SAMPLE_F_IN_GC) {
		gc.name = gc_name(h);
		gc.language = h->ops != NULL ? h->ops->name : NULL;
		h->gc_unplaced = !gc_place(
		        pl->items, nr, pl->natives, h->sample->native_outcome == WALK_ROOT, &gc_at);
	}
	for (size_t i = 0; i < nr; i++) {
		const struct stitch_item *item = &pl->items[i];

		if (i == gc_at)
			push_frame(pl, &gc);
		if (!item->interp) {
			push_address(pl, pl->at[item->index]);
		} else if (h->infos[item->index].frame.name != NULL) {
			push_interp(pl, &h->infos[item->index].frame);
		}
	}
	if (gc_at == nr)
		push_frame(pl, &gc);
}

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

/*
 * A thread that has been left by the interpreter still names a context, whose memory may be
 * another's by now. Its native stack, reached to the root without an activation of the interpreter,
 * says that it runs none.
 */
static bool runs_no_code(const struct rprof_sample *s, const struct stitch_native *natives)
{
	if (s->native_outcome != WALK_ROOT || s->nr_interp != 0)
		return false;
	for (size_t i = 0; i < s->nr_native; i++)
		if (natives[i].role == STITCH_ENTRY)
			return false;
	return true;
}

static void judge(const struct pipeline *pl, const struct held *h, enum stitch_result result,
        struct recording_sample *out)
{
	const struct rprof_sample *s = h->sample;
	bool no_context = s->interp_outcome == WALK_NO_CONTEXT || s->interp_outcome == WALK_NONE ||
	                  runs_no_code(s, pl->natives);

	out->outcome = STACK_EXACT;
	out->reason = REASON_NONE;
	if (s->native_outcome != WALK_ROOT) {
		out->outcome = STACK_TRUNCATED;
		out->reason = reason_of_walk(s->native_outcome, false);
	} else if (no_context) {
		out->outcome = STACK_NO_CONTEXT;
	} else if (s->interp_outcome != WALK_ROOT) {
		out->outcome = STACK_TRUNCATED;
		out->reason = reason_of_walk(s->interp_outcome, true);
	} else if (result != STITCH_EXACT) {
		static const uint8_t reasons[] = {
		        [STITCH_PUSHING] = REASON_PUSHING,
		        [STITCH_POPPING] = REASON_POPPING,
		        [STITCH_OFF_STACK] = REASON_FIBER_SWITCH,
		        [STITCH_MISPAIRED] = REASON_MISPAIRED,
		        [STITCH_UNPLACED] = REASON_UNPLACED,
		        [STITCH_PARTIAL] = REASON_MISPAIRED,
		};

		out->outcome = STACK_TRANSIENT;
		out->reason = reasons[result];
	} else if (h->unverified) {
		out->outcome = STACK_TRANSIENT;
		out->reason = REASON_LATE_NAME;
	} else if (h->gc_unplaced) {
		out->outcome = STACK_TRANSIENT;
		out->reason = REASON_GC_PLACE;
	} else if (h->inexact_line) {
		out->outcome = STACK_TRANSIENT;
		out->reason = REASON_LINE;
	}
	/* The stacks of two fibers in one sample, one of them cut: the switch says more than the
	 * cut. */
	if (result == STITCH_OFF_STACK) {
		out->outcome = STACK_TRANSIENT;
		out->reason = s->flags & SAMPLE_F_SIGNAL_STACK ? REASON_SIGNAL_STACK
		                                               : REASON_FIBER_SWITCH;
	}
	/* A thread gives up its memory while it ends (exit_mm), of a process the last one frees it.
	 */
	if ((s->flags & SAMPLE_F_EXITING) && out->reason == REASON_UNREADABLE)
		out->reason = REASON_EXITING;
}

static uint32_t trigger_of(struct pipeline *pl, const struct rprof_sample *s)
{
	uint64_t *found;
	const char *name;
	char trigger[64];
	uint32_t id = 0;

	if (s->trigger == TRIGGER_CPU)
		return pl->cpu_trigger;
	found = hash64_find(&pl->syscall_triggers, s->syscall);
	if (found != NULL)
		return (uint32_t)*found;
	name = syscall_name(s->syscall);
	if (name != NULL)
		snprintf(trigger, sizeof(trigger), "syscall:%s", name);
	else
		snprintf(trigger, sizeof(trigger), "syscall:%u", s->syscall);
	recording_add_trigger(pl->rec, trigger, "calls", &id);
	hash64_put(&pl->syscall_triggers, s->syscall, id);
	return id;
}

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

/* Is there a native address that lies in no mapping that we know? */
static bool needs_maps(const struct pipeline *pl, const struct held *h)
{
	const struct rprof_sample *s = h->sample;

	for (size_t i = 0; i < s->nr_native; i++)
		if (!pl->at[i]->known)
			return s->native_outcome != WALK_ROOT || i + 1 < s->nr_native;
	return false;
}

/* Fills pl->at. */
static int find_addresses(struct pipeline *pl, const struct held *h)
{
	const struct rprof_sample *s = h->sample;
	int rc = addresses_find(h->addresses, record_native(s), s->nr_native, pl->at);

	if (rc == 0 && !h->process->exited && needs_maps(pl, h) &&
	        process_refresh_maps(h->process, NULL) == 1)
		rc = addresses_find(h->addresses, record_native(s), s->nr_native, pl->at);
	if (rc == 0)
		rc = addresses_find(&pl->kernel, record_kernel(s), s->nr_kernel, pl->kernel_at);
	return rc;
}

/* What the stitcher is given, of pl->at. */
static void stitch_prepare(struct pipeline *pl, struct held *h, struct stitch_input *in)
{
	const struct rprof_sample *s = h->sample;

	for (size_t i = 0; i < s->nr_native; i++) {
		pl->natives[i] = pl->at[i]->stitch;
		pl->natives[i].pc = NATIVE_PC(record_native(s)[i]);
	}
	*in = (struct stitch_input){
	        .natives = pl->natives,
	        .nr_natives = s->nr_native,
	        .native_root = s->native_outcome == WALK_ROOT,
	        .interps = h->interps,
	        .nr_interps = s->nr_interp,
	        .interp_root = s->interp_outcome == WALK_ROOT ||
	                       s->interp_outcome == WALK_NO_CONTEXT ||
	                       s->interp_outcome == WALK_NONE,
	        .off_stack = is_off_stack(s),
	};
}

/* Where a native walk that was cut ended. */
static void note_cut(struct pipeline *pl, struct held *h, uint8_t reason)
{
	const struct rprof_sample *s = h->sample;

	if (s->native_outcome != WALK_ROOT && s->nr_native != 0)
		stack_cuts_add(&pl->stats.cuts[reason & 31],
		        pl->at[s->nr_native - 1]->frames[0].frame.library, 1);
}

static void store(struct pipeline *pl, struct held *h)
{
	const struct rprof_sample *s = h->sample;
	struct recording_sample out = {.time_ns = s->time_ns, .thread = thread_of(pl, h)};
	struct stitch_input in;
	enum stitch_result result;
	size_t nr = 0;

	/* A stack that misses a frame would be a wrong one. */
	if (find_addresses(pl, h) != 0) {
		pl->stats.bad_records++;
		return;
	}
	stitch_prepare(pl, h, &in);
	result = stitch(&in, &h->addresses->sites, pl->items, &nr);
	pl->nr_ids = 0;
	push_items(pl, h, nr);
	for (size_t i = s->nr_kernel; i-- > 0;)
		push_address(pl, pl->kernel_at[i]);
	push_trigger(pl, s);
	judge(pl, h, result, &out);
	out.trigger = trigger_of(pl, s);
	out.weight = s->trigger == TRIGGER_CPU ? pl->period_ns : 1;
	if (recording_intern_stack(pl->rec, pl->ids, pl->nr_ids, &out.stack) == 0)
		recording_add_sample(pl->rec, &out);
	pl->stats.samples++;
	h->process->nr_samples++;
	pl->stats.outcome[out.outcome & 7]++;
	if (out.reason != REASON_NONE) {
		pl->stats.reason[out.reason & 31]++;
		note_cut(pl, h, out.reason);
	}
}

void pipeline_capture(struct pipeline *pl, const struct rprof_capture *capture, size_t size)
{
	const struct addresses *a = addresses_of(pl, capture->tgid);
	const struct runtime_ops *ops = NULL;
	struct runtime *rt = a != NULL ? process_runtime(a->process, capture->tag, &ops) : NULL;

	if (rt == NULL)
		pl->stats.bad_records++;
	else
		ops->captured(rt, capture, size);
}

/* A copy of what stands in the room for one stack; NULL: no memory. */
static struct held *held_copy(const struct held *h, size_t size)
{
	size_t nr = h->sample->nr_interp + 1U;
	struct held *copy = malloc(sizeof(*copy));
	struct rprof_sample *sample = malloc(size);

	if (copy != NULL) {
		*copy = *h;
		copy->infos = malloc(nr * sizeof(*copy->infos));
		copy->interps = malloc(nr * sizeof(*copy->interps));
		copy->sample = sample;
	}
	if (copy == NULL || sample == NULL || copy->infos == NULL || copy->interps == NULL) {
		if (copy != NULL)
			held_free(copy);
		else
			free(sample);
		return NULL;
	}
	memcpy(sample, h->sample, size);
	memcpy(copy->infos, h->infos, nr * sizeof(*copy->infos));
	memcpy(copy->interps, h->interps, nr * sizeof(*copy->interps));
	return copy;
}

static void hold(struct pipeline *pl, const struct held *h, size_t size)
{
	struct held *copy = held_copy(h, size);

	if (copy == NULL) {
		pl->stats.bad_records++;
		return;
	}
	*pl->last = copy;
	pl->last = &copy->next;
	pl->nr_held++;
}

/* True when the stitcher knows enough, or will not learn more by waiting. */
static bool learn(struct pipeline *pl, bool force)
{
	bool complete = true;
	struct stitch_input in;

	for (size_t i = 0; i < pl->nr_processes; i++) {
		struct addresses *a = &pl->processes[i];

		addresses_find(
		        a, NULL, 0, NULL); /* the sites of the interpreter that is there now */
		complete &= a->process->ops == NULL || a->sites.complete;
	}
	if (complete || pl->learnt)
		return true;
	if (!force && pl->nr_held < LEARN_SAMPLES)
		return false;
	for (struct held *h = pl->first; h != NULL; h = h->next) {
		if (addresses_find(h->addresses, record_native(h->sample), h->sample->nr_native,
		            pl->at) != 0)
			continue;
		stitch_prepare(pl, h, &in);
		stitch_learn(&in, &h->addresses->sites);
	}
	pl->learnt = true;
	return true;
}

/* In their order: what was sampled before a change of the mappings is named by the old ones. */
static void store_waiting(struct pipeline *pl, bool force)
{
	if (pl->first == NULL || !learn(pl, force))
		return;
	while (pl->first != NULL) {
		struct held *h = pl->first;

		store(pl, h);
		pl->first = h->next;
		held_free(h);
	}
	pl->last = &pl->first;
	pl->nr_held = 0;
}

/* A sample whose names are as good as they get. */
static void add_named(struct pipeline *pl, struct held *h, size_t size)
{
	if (learn(pl, false) && pl->first == NULL) {
		store(pl, h);
		return;
	}
	hold(pl, h, size);
	store_waiting(pl, false);
}

/*
 * The kernel side captures so many objects in one run and no more: the next samples of the thread
 * bring the rest. A sample that came in their time waits for them, if they cannot be read
 * otherwise. sample: that has come; NULL: none will.
 */
static void pending_retry(struct pipeline *pl, const struct rprof_sample *sample)
{
	size_t kept = 0;

	for (size_t i = 0; i < pl->nr_pending; i++) {
		struct held *h = pl->pending[i];
		bool ends = sample == NULL || sample->time_ns > h->sample->time_ns + PENDING_NS;

		if (sample != NULL && thread_key(sample) == thread_key(h->sample)) {
			ends = ++h->nr_later == PENDING_SAMPLES ||
			       !(sample->flags & SAMPLE_F_UNSENT);
			name_interp_frames(h, true);
			ends |= !h->unverified;
		}
		if (!ends) {
			pl->pending[kept++] = h;
			continue;
		}
		add_named(pl, h, h->size);
		held_free(h);
	}
	pl->nr_pending = kept;
}

void pipeline_add(struct pipeline *pl, const struct rprof_sample *sample, size_t size)
{
	struct held *copy, h = {
	                           .sample = sample,
	                           .size = size,
	                           .addresses = addresses_of(pl, sample->tgid),
	                           .infos = pl->infos,
	                           .interps = pl->interps,
	                   };

	if (h.addresses == NULL || sample->nr_interp > RPROF_MAX_INTERP) {
		pl->stats.bad_records++;
		return;
	}
	h.process = h.addresses->process;
	if (pl->nr_pending != 0)
		pending_retry(pl, sample);
	h.rt = process_runtime(h.process, sample->tag, &h.ops);
	name_interp_frames(&h, false);
	name_thread(pl, &h);
	if (h.unverified && sample->flags & SAMPLE_F_UNSENT && pl->nr_pending < MAX_PENDING) {
		copy = held_copy(&h, size);
		if (copy != NULL) {
			pl->pending[pl->nr_pending++] = copy;
			return;
		}
	}
	add_named(pl, &h, size);
}

void pipeline_flush(struct pipeline *pl)
{
	pending_retry(pl, NULL);
	store_waiting(pl, true);
}

void pipeline_stats(const struct pipeline *pl, struct pipeline_stats *out)
{
	*out = pl->stats;
}
