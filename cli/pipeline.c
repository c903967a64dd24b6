#include "cli/pipeline.h"

#include "base/hash.h"
#include "cli/syscalls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_PROCESSES = 256,
	MAX_FRAMES = RPROF_MAX_KERNEL + RPROF_MAX_NATIVE * 4 + RPROF_MAX_INTERP + 4,
	LEARN_SAMPLES = 256, /* so many stacks teach the stitcher, or what came in LEARN_NS */
	LEARN_NS = 400 * 1000 * 1000,
	NAMES_EVERY = 64, /* a thread's names are read again after so many of its samples */
};

/* A record with its interpreter frames named. */
struct held {
	struct rprof_sample *sample;   /* owned copy of the whole record */
	struct interp_info *infos;     /* owned; leaf first */
	struct stitch_interp *interps; /* owned */
	struct process *process;
	uint32_t thread;
	bool unverified;
	struct held *next;
};

struct pipeline {
	struct recording *rec;
	const struct kallsyms *kallsyms;
	uint64_t period_ns;
	uint32_t cpu_trigger;
	bool has_cpu_trigger;
	struct hash64 syscall_triggers; /* number -> trigger id */
	struct process *processes[MAX_PROCESSES];
	size_t nr_processes;
	struct hash64 threads; /* pid << 32 | tid -> thread id << 8 | samples until the names are
	                          read again */
	struct hash64 kernel_frames; /* address -> frame id */
	struct held *first, **last;
	size_t nr_held;
	uint64_t learn_since_ns;
	bool learnt;
	struct pipeline_stats stats;
	/* room for one stack */
	struct stitch_native *natives;
	struct stitch_item *items;
	uint32_t *ids;
	size_t nr_ids;
};

int pipeline_new(struct recording *rec, const struct kallsyms *kallsyms, uint32_t rate_hz,
        struct pipeline **out, struct err *err)
{
	struct pipeline *pl = calloc(1, sizeof(*pl));

	if (pl == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	pl->rec = rec;
	pl->kallsyms = kallsyms;
	pl->period_ns = rate_hz != 0 ? 1000000000ULL / rate_hz : 0;
	hash64_init(&pl->threads);
	hash64_init(&pl->kernel_frames);
	hash64_init(&pl->syscall_triggers);
	pl->last = &pl->first;
	pl->natives = calloc(RPROF_MAX_NATIVE + 1, sizeof(*pl->natives));
	pl->items = calloc(RPROF_MAX_NATIVE + RPROF_MAX_INTERP + 2, sizeof(*pl->items));
	pl->ids = calloc(MAX_FRAMES, sizeof(*pl->ids));
	if (pl->natives == NULL || pl->items == NULL || pl->ids == NULL) {
		pipeline_free(pl);
		return err_set(err, -ENOMEM, "out of memory");
	}
	if (rate_hz != 0)
		pl->has_cpu_trigger =
		        recording_add_trigger(rec, "cpu", "ns", &pl->cpu_trigger) == 0;
	*out = pl;
	return 0;
}

static void held_free(struct held *h)
{
	free(h->sample);
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
	hash64_release(&pl->threads);
	hash64_release(&pl->kernel_frames);
	hash64_release(&pl->syscall_triggers);
	free(pl->natives);
	free(pl->items);
	free(pl->ids);
	free(pl);
}

int pipeline_add_process(struct pipeline *pl, struct process *p, struct err *err)
{
	if (pl->nr_processes == MAX_PROCESSES)
		return err_set(err, -E2BIG, "more than %d processes", MAX_PROCESSES);
	pl->processes[pl->nr_processes++] = p;
	return 0;
}

static struct process *process_of(struct pipeline *pl, uint32_t pid)
{
	for (size_t i = 0; i < pl->nr_processes; i++)
		if ((uint32_t)pl->processes[i]->target.pid == pid)
			return pl->processes[i];
	return NULL;
}

/* ---- the parts of a record ------------------------------------------------------------------- */

static bool record_is_whole(const struct rprof_sample *s, size_t size)
{
	return s->nr_kernel <= RPROF_MAX_KERNEL && s->nr_native <= RPROF_MAX_NATIVE &&
	       s->nr_interp <= RPROF_MAX_INTERP &&
	       size >= sizeof(*s) + s->nr_kernel * sizeof(uint64_t) +
	                       s->nr_native * sizeof(struct native_frame) +
	                       s->nr_interp * sizeof(struct interp_frame);
}

static const uint64_t *record_kernel(const struct rprof_sample *s)
{
	return (const uint64_t *)(s + 1);
}

static const struct native_frame *record_native(const struct rprof_sample *s)
{
	return (const struct native_frame *)(record_kernel(s) + s->nr_kernel);
}

static const struct interp_frame *record_interp(const struct rprof_sample *s)
{
	return (const struct interp_frame *)(record_native(s) + s->nr_native);
}

bool pipeline_needs_maps(struct pipeline *pl, const struct rprof_sample *sample, size_t size,
        struct process **process)
{
	struct process *p = record_is_whole(sample, size) ? process_of(pl, sample->tgid) : NULL;

	if (p == NULL)
		return false;
	*process = p;
	for (size_t i = 0; i < sample->nr_native; i++)
		if (!process_knows(p, record_native(sample)[i].pc))
			return sample->native_outcome != WALK_ROOT || i + 1 < sample->nr_native;
	return false;
}

/* ---- names ----------------------------------------------------------------------------------- */

static uint32_t thread_of(struct pipeline *pl, struct process *p, const struct rprof_sample *s)
{
	uint64_t key = (uint64_t)s->tgid << 32 | s->tid, *found = hash64_find(&pl->threads, key);
	char name[128] = "", comm[17];
	uint32_t id = 0;

	if (found != NULL && (*found & 0xff) != 0) {
		*found -= 1;
		return (uint32_t)(*found >> 8);
	}
	if (found == NULL)
		pl->stats.threads++;
	memcpy(comm, s->comm, 16);
	comm[16] = '\0';
	if (p->ops != NULL && s->context != 0)
		p->ops->thread_name(p->rt, s->context, name, sizeof(name));
	recording_add_thread(pl->rec, p->id, (int)s->tid, comm, name, &id);
	hash64_put(&pl->threads, key, (uint64_t)id << 8 | (NAMES_EVERY - 1));
	return id;
}

/* Names the interpreter frames, leaf first, and says what they are to the stitcher. */
static void name_interp_frames(struct held *h)
{
	const struct rprof_sample *s = h->sample;
	const struct interp_frame *frames = record_interp(s);
	struct process *p = h->process;
	bool skip = false;

	for (size_t i = 0; i < s->nr_interp; i++) {
		struct interp_desc desc;

		p->ops->frame_class(p->rt, &frames[i], &desc);
		h->interps[i] =
		        (struct stitch_interp){.class = desc.class, .ends_run = desc.ends_run};
		if (desc.class == INTERP_HIDDEN)
			continue;
		p->ops->resolve(p->rt, &frames[i], i == 0, s->gc_gen, &h->infos[i]);
		h->interps[i].func_addr = h->infos[i].func_addr;
		if (h->infos[i].flags & (INTERP_UNVERIFIED | INTERP_UNREADABLE))
			h->unverified = true;
		/* A frame that is not shown still is a frame to the stitcher. */
		if (desc.class == INTERP_CODE) {
			if (skip)
				h->infos[i].frame.name = NULL;
			skip = !skip && (h->infos[i].flags & INTERP_SKIP_NEXT);
		}
	}
	/* A C function has no line of its own: it is the line that called it, as in Ruby's
	 * backtraces. */
	const char *path = NULL;
	uint32_t line = 0;

	for (size_t i = s->nr_interp; i-- > 0;) {
		struct frame *f = &h->infos[i].frame;

		if (h->interps[i].class == STITCH_CODE && f->name != NULL) {
			path = f->path;
			line = f->line;
		} else if (h->interps[i].class == STITCH_C) {
			f->path = path;
			f->line = line;
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

/* The frames at one address, the outermost function first. */
static void push_native(struct pipeline *pl, struct native_info *info)
{
	for (size_t i = info->nr_frames; i-- > 0;) {
		if (info->ids[i] == 0 &&
		        recording_intern_frame(pl->rec, &info->frames[i], &info->ids[i]) != 0)
			continue;
		if (pl->nr_ids < MAX_FRAMES)
			pl->ids[pl->nr_ids++] = info->ids[i];
	}
}

static void push_kernel(struct pipeline *pl, const struct rprof_sample *s)
{
	for (size_t i = s->nr_kernel; i-- > 0;) {
		uint64_t addr = record_kernel(s)[i], lookup = i == 0 ? addr : addr - 1;
		uint64_t *found = hash64_find(&pl->kernel_frames, lookup);
		const struct kallsym *sym;
		char name[32];
		struct frame f = {.kind = FRAME_KERNEL, .library = "[kernel]", .addr = lookup};
		uint32_t id;

		if (found == NULL) {
			sym = pl->kallsyms != NULL ? kallsyms_find(pl->kallsyms, lookup) : NULL;
			snprintf(name, sizeof(name), "[kernel]+%#llx", (unsigned long long)lookup);
			f.name = sym != NULL ? sym->name : name;
			f.func_addr = sym != NULL ? sym->addr : 0;
			if (sym != NULL && sym->module != NULL)
				f.library = sym->module;
			if (recording_intern_frame(pl->rec, &f, &id) != 0)
				continue;
			hash64_put(&pl->kernel_frames, lookup, id);
		} else {
			id = (uint32_t)*found;
		}
		if (pl->nr_ids < MAX_FRAMES)
			pl->ids[pl->nr_ids++] = id;
	}
}

static const char *gc_name(uint64_t gc_gen)
{
	static const char *const names[] = {
	        "(garbage collection)", "(GC marking)", "(GC sweeping)", "(garbage collection)"};

	return names[gc_gen & 3];
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

/*
 * Where the frame of the garbage collector goes among the items: above the function that called it,
 * which is the outermost one above the innermost interpreter frame that can. Where no such function
 * is seen, on top of everything: that it runs is certain, which frames are its own is not.
 */
static size_t gc_position(const struct held *h, const struct stitch_item *items, size_t nr,
        const struct stitch_native *natives)
{
	const struct process *p = h->process;
	size_t at = nr;

	while (at > 0 && !items[at - 1].interp)
		at--;
	for (size_t i = at; i < nr; i++)
		if (p->ops->calls_gc != NULL &&
		        p->ops->calls_gc(p->rt, natives[items[i].index].func_addr))
			return i + 1;
	return nr;
}

static void push_items(struct pipeline *pl, struct held *h, size_t nr)
{
	const struct native_frame *natives = record_native(h->sample);
	size_t gc_at = SIZE_MAX;
	struct frame gc = {.kind = FRAME_GC};

	if (h->sample->flags & SAMPLE_F_IN_GC) {
		gc.name = gc_name(h->sample->gc_gen);
		gc_at = gc_position(h, pl->items, nr, pl->natives);
	}
	for (size_t i = 0; i < nr; i++) {
		const struct stitch_item *item = &pl->items[i];

		if (i == gc_at)
			push_frame(pl, &gc);
		if (!item->interp) {
			push_native(pl, process_native(h->process, natives[item->index].pc,
			                        natives[item->index].sp & NATIVE_SP_INTERRUPTED));
		} else if (h->infos[item->index].frame.name != NULL) {
			push_frame(pl, &h->infos[item->index].frame);
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

static void judge(const struct held *h, enum stitch_result result, struct recording_sample *out)
{
	const struct rprof_sample *s = h->sample;
	bool no_context = s->interp_outcome == WALK_NO_CONTEXT || s->interp_outcome == WALK_NONE;

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
	}
	/* The stacks of two fibers in one sample, one of them cut: the switch says more than the
	 * cut. */
	if (result == STITCH_OFF_STACK) {
		out->outcome = STACK_TRANSIENT;
		out->reason = REASON_FIBER_SWITCH;
	}
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

/* What the stitcher is given: pl->natives filled from the record. */
static void stitch_prepare(struct pipeline *pl, struct held *h, struct stitch_input *in)
{
	const struct rprof_sample *s = h->sample;
	const struct native_frame *frames = record_native(s);

	for (size_t i = 0; i < s->nr_native; i++) {
		pl->natives[i] = process_native(
		        h->process, frames[i].pc, frames[i].sp & NATIVE_SP_INTERRUPTED)
		                         ->stitch;
		pl->natives[i].pc = frames[i].pc;
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
	        .off_stack = s->flags & SAMPLE_F_OFF_STACK,
	};
}

static void store(struct pipeline *pl, struct held *h)
{
	const struct rprof_sample *s = h->sample;
	struct recording_sample out = {.time_ns = s->time_ns, .thread = h->thread};
	struct stitch_input in;
	enum stitch_result result;
	size_t nr = 0;

	stitch_prepare(pl, h, &in);
	result = stitch(&in, &h->process->sites, pl->items, &nr);
	pl->nr_ids = 0;
	push_items(pl, h, nr);
	push_kernel(pl, s);
	push_trigger(pl, s);
	judge(h, result, &out);
	out.trigger = trigger_of(pl, s);
	out.weight = s->trigger == TRIGGER_CPU ? pl->period_ns : 1;
	if (recording_intern_stack(pl->rec, pl->ids, pl->nr_ids, &out.stack) == 0)
		recording_add_sample(pl->rec, &out);
	pl->stats.samples++;
	pl->stats.outcome[out.outcome & 7]++;
	if (out.reason != REASON_NONE)
		pl->stats.reason[out.reason & 31]++;
}

void pipeline_add(struct pipeline *pl, const struct rprof_sample *sample, size_t size)
{
	struct process *p = record_is_whole(sample, size) ? process_of(pl, sample->tgid) : NULL;
	struct held *h;

	if (p == NULL) {
		pl->stats.bad_records++;
		return;
	}
	h = calloc(1, sizeof(*h));
	if (h == NULL)
		goto no_memory;
	h->process = p;
	h->sample = malloc(size);
	h->infos = calloc(sample->nr_interp + 1U, sizeof(*h->infos));
	h->interps = calloc(sample->nr_interp + 1U, sizeof(*h->interps));
	if (h->sample == NULL || h->infos == NULL || h->interps == NULL) {
		held_free(h);
		goto no_memory;
	}
	memcpy(h->sample, sample, size);
	if (p->ops != NULL)
		name_interp_frames(h);
	else
		h->sample->nr_interp = 0;
	h->thread = thread_of(pl, p, h->sample);
	*pl->last = h;
	pl->last = &h->next;
	pl->nr_held++;
	if (pl->learn_since_ns == 0)
		pl->learn_since_ns = sample->time_ns;
	else if (sample->time_ns - pl->learn_since_ns > LEARN_NS)
		pl->learnt = true;
	return;
no_memory:
	pl->stats.bad_records++;
}

bool pipeline_flush(struct pipeline *pl, size_t max)
{
	bool sites_complete = true;
	struct stitch_input in;

	for (size_t i = 0; i < pl->nr_processes; i++)
		sites_complete &= pl->processes[i]->ops == NULL || pl->processes[i]->sites.complete;
	if (!sites_complete && !pl->learnt) {
		if (max != SIZE_MAX && pl->nr_held < LEARN_SAMPLES)
			return false;
		for (struct held *h = pl->first; h != NULL; h = h->next) {
			stitch_prepare(pl, h, &in);
			stitch_learn(&in, &h->process->sites);
		}
		pl->learnt = true;
	}
	for (; max > 0 && pl->first != NULL; max--) {
		struct held *h = pl->first;

		store(pl, h);
		pl->first = h->next;
		pl->nr_held--;
		held_free(h);
	}
	if (pl->first == NULL)
		pl->last = &pl->first;
	return pl->first != NULL;
}

void pipeline_stats(const struct pipeline *pl, struct pipeline_stats *out)
{
	*out = pl->stats;
}
