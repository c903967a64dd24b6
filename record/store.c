#include "record/store.h"

#include "base/array.h"
#include "base/hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SEEN = 1 << 20, MAX_IDS = 1 << 20 };

/* A frame of the interpreter that the recording has, known by its strings' addresses. */
struct seen_frame {
	struct frame frame;
	uint32_t id;
};

struct store {
	struct recording *rec;
	struct trigger_options options;
	struct hash64 triggers;  /* number << 32 | system call -> frame id << 32 | trigger id */
	struct hash64 threads;   /* pid << 32 | tid -> id */
	struct hash64 by_frame;  /* hash of a frame -> index in seen */
	struct seen_frame *seen; /* owned */
	size_t nr_seen, cap_seen;
	uint32_t *ids; /* of one stack's frames, root first; owned */
	size_t nr_ids, cap_ids;
	struct store_stats stats;
};

static int trigger_ids(struct store *st, const struct trigger *t, uint32_t call, uint32_t *trigger,
        uint32_t *frame);

/* The clock is there from the start: that it was on and has no sample says something, too. */
static int add_clock(struct store *st)
{
	const struct trigger *cpu = trigger_find(TRIGGER_CPU);
	uint32_t trigger, frame;

	return trigger_is_on(cpu, &st->options) ? trigger_ids(st, cpu, 0, &trigger, &frame) : 0;
}

int store_new(struct recording *rec, const struct trigger_options *options, struct store **out,
        struct err *err)
{
	struct store *st = calloc(1, sizeof(*st));
	int rc;

	if (st == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	st->rec = rec;
	st->options = *options;
	hash64_init(&st->triggers);
	hash64_init(&st->threads);
	hash64_init(&st->by_frame);
	rc = add_clock(st);
	if (rc != 0) {
		store_free(st);
		return err_set(err, rc, "the recording does not take its first trigger");
	}
	*out = st;
	return 0;
}

void store_free(struct store *st)
{
	if (st == NULL)
		return;
	hash64_release(&st->triggers);
	hash64_release(&st->threads);
	hash64_release(&st->by_frame);
	free(st->seen);
	free(st->ids);
	free(st);
}

/* ---- frames -------------------------------------------------------------------------------- */

/* That it is known saves time and nothing else. */
static void remember_frame(struct store *st, uint64_t key, const struct frame *f, uint32_t id)
{
	if (ARRAY_RESERVE(st->seen, st->cap_seen, st->nr_seen + 1, MAX_SEEN) != 0)
		return;
	if (hash64_put(&st->by_frame, key, st->nr_seen) == 0)
		st->seen[st->nr_seen++] = (struct seen_frame){*f, id};
}

/* The recording would compare the frame's strings each time. */
static int frame_id(struct store *st, const struct frame *f, uint32_t *id)
{
	uint64_t key = hash_bytes(f, sizeof(*f), 0);
	const uint64_t *found = hash64_find(&st->by_frame, key);
	int rc;

	if (found != NULL && memcmp(&st->seen[*found].frame, f, sizeof(*f)) == 0) {
		*id = st->seen[*found].id;
		return 0;
	}
	rc = recording_intern_frame(st->rec, f, id);
	if (rc == 0 && found == NULL)
		remember_frame(st, key, f, *id);
	return rc;
}

/* Fills st->ids. */
static int frame_ids(struct store *st, const struct stack *stack)
{
	/* And one more: the trigger's. */
	int rc = ARRAY_RESERVE(st->ids, st->cap_ids, stack->nr_frames + 1, MAX_IDS);

	st->nr_ids = stack->nr_frames;
	for (size_t i = 0; i < stack->nr_frames && rc == 0; i++) {
		const struct stack_frame *f = &stack->frames[i];

		if (f->id == NULL)
			rc = frame_id(st, f->frame, &st->ids[i]);
		else if (*f->id == 0)
			rc = recording_intern_frame(st->rec, f->frame, f->id);
		if (f->id != NULL)
			st->ids[i] = *f->id;
	}
	return rc;
}

/* ---- threads and triggers -------------------------------------------------------------------- */

static int thread_id(struct store *st, const struct rprof_sample *s,
        const struct store_thread *thread, uint32_t *id)
{
	uint64_t key = (uint64_t)s->tgid << 32 | s->tid;
	const uint64_t *found = hash64_find(&st->threads, key);
	char comm[sizeof(s->comm) + 1] = "";
	int rc;

	if (found != NULL && thread->runtime_name == NULL) {
		*id = (uint32_t)*found;
		return 0;
	}
	memcpy(comm, s->comm, sizeof(s->comm));
	rc = recording_add_thread(st->rec, thread->process, (int)s->tid, comm,
	        thread->runtime_name != NULL ? thread->runtime_name : "", id);
	if (rc != 0 || found != NULL)
		return rc;
	rc = hash64_put(&st->threads, key, *id);
	st->stats.threads += rc == 0;
	return rc;
}

/* The trigger in the recording, and the frame that stands for its event; 0: there is none. */
static int trigger_ids(struct store *st, const struct trigger *t, uint32_t call, uint32_t *trigger,
        uint32_t *frame)
{
	uint64_t key = (uint64_t)t->number << 32 | (t->has_calls ? call : 0);
	const uint64_t *found = hash64_find(&st->triggers, key);
	char name[64], frame_name[32];
	struct frame f;
	int rc;

	if (found != NULL) {
		*trigger = (uint32_t)*found;
		*frame = (uint32_t)(*found >> 32);
		return 0;
	}
	trigger_name(t, call, name, sizeof(name));
	rc = recording_add_trigger(st->rec, name, t->unit, trigger);
	*frame = 0;
	if (rc == 0 && trigger_frame(t, call, &f, frame_name, sizeof(frame_name)))
		rc = recording_intern_frame(st->rec, &f, frame);
	if (rc == 0)
		rc = hash64_put(&st->triggers, key, (uint64_t)*frame << 32 | *trigger);
	return rc;
}

/* ---- samples ----------------------------------------------------------------------------------
 */

static void count(struct store *st, const struct stack *stack)
{
	st->stats.samples++;
	st->stats.outcome[stack->outcome % STACK_NR_OUTCOMES]++;
	if (stack->reason == REASON_NONE)
		return;
	st->stats.reason[stack->reason % STACK_NR_REASONS]++;
	stack_cuts_add(&st->stats.cuts[stack->reason % STACK_NR_REASONS], stack->cut_library, 1);
}

int store_add(struct store *st, const struct rprof_sample *s, const struct store_thread *thread,
        const struct stack *stack)
{
	const struct trigger *trigger = trigger_find(s->trigger);
	struct recording_sample out = {
	        .time_ns = s->time_ns,
	        .outcome = stack->outcome,
	        .reason = stack->reason,
	};
	uint32_t event = 0;
	int rc;

	if (trigger == NULL)
		return -EINVAL;
	out.weight = trigger_weight(trigger, &st->options, s);
	rc = thread_id(st, s, thread, &out.thread);
	if (rc == 0)
		rc = frame_ids(st, stack);
	if (rc == 0)
		rc = trigger_ids(st, trigger, s->syscall, &out.trigger, &event);
	if (rc == 0 && event != 0)
		st->ids[st->nr_ids++] = event;
	if (rc == 0)
		rc = recording_intern_stack(st->rec, st->ids, st->nr_ids, &out.stack);
	if (rc == 0)
		rc = recording_add_sample(st->rec, &out);
	if (rc == 0)
		count(st, stack);
	return rc;
}

const struct store_stats *store_stats(const struct store *st)
{
	return &st->stats;
}
