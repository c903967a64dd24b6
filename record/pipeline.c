#include "record/pipeline.h"

#include "base/hash.h"
#include "record/address.h"
#include "record/kept_walk.h"
#include "record/namer.h"
#include "record/stack.h"

#include <errno.h>
#include <stdlib.h>

enum {
	LEARN_SAMPLES = 256, /* so many stacks teach the stitcher */
};

struct pipeline {
	struct namer *namer;
	struct store *store;
	struct addresses *processes; /* of each process; owned */
	size_t nr_processes;
	struct hash64 by_pid; /* pid -> index in processes */
	struct addresses kernel;
	bool learnt; /* all that there is to learn without the interpreter's code */
	uint64_t bad_records;
	/* room for one sample */
	struct address *natives[RPROF_MAX_NATIVE];
	struct address *kernel_frames[RPROF_MAX_KERNEL];
	struct stack stack;
};

int pipeline_new(struct recording *rec, struct kallsyms *kallsyms,
        const struct trigger_options *options, struct pipeline **out, struct err *err)
{
	struct pipeline *pl = calloc(1, sizeof(*pl));
	int rc;

	if (pl == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	hash64_init(&pl->by_pid);
	addresses_init_kernel(&pl->kernel, kallsyms);
	pl->processes = calloc(PIPELINE_MAX_PROCESSES, sizeof(*pl->processes));
	if (pl->processes == NULL || stack_init(&pl->stack) != 0 || namer_new(&pl->namer) != 0) {
		rc = err_set(err, -ENOMEM, "out of memory");
		goto out;
	}
	rc = store_new(rec, options, &pl->store, err);
	if (rc != 0)
		goto out;
	*out = pl;
	return 0;
out:
	pipeline_free(pl);
	return rc;
}

void pipeline_free(struct pipeline *pl)
{
	if (pl == NULL)
		return;
	namer_free(pl->namer);
	store_free(pl->store);
	stack_release(&pl->stack);
	addresses_release(&pl->kernel);
	for (size_t i = 0; i < pl->nr_processes; i++)
		addresses_release(&pl->processes[i]);
	free(pl->processes);
	hash64_release(&pl->by_pid);
	free(pl);
}

int pipeline_add_process(struct pipeline *pl, struct process *p, struct err *err)
{
	if (pl->nr_processes == PIPELINE_MAX_PROCESSES)
		return err_set(err, -E2BIG, "more than %d processes", PIPELINE_MAX_PROCESSES);
	if (hash64_put(&pl->by_pid, (uint32_t)p->target.pid, pl->nr_processes) != 0)
		return err_set(err, -ENOMEM, "out of memory");
	addresses_init(&pl->processes[pl->nr_processes++], p);
	return 0;
}

static struct addresses *addresses_of(struct pipeline *pl, uint32_t pid)
{
	const uint64_t *found = hash64_find(&pl->by_pid, pid);

	return found != NULL ? &pl->processes[*found] : NULL;
}

/* Is there a native address that lies in no mapping that we know? */
static bool needs_maps(const struct pipeline *pl, const struct rprof_sample *s)
{
	for (size_t i = 0; i < s->nr_native; i++)
		if (!pl->natives[i]->known)
			return s->native_outcome != WALK_ROOT || i + 1 < s->nr_native;
	return false;
}

static int find_natives(struct pipeline *pl, struct addresses *a, const struct rprof_sample *s)
{
	return addresses_find(a, record_native(s), s->nr_native, pl->natives);
}

static struct stack_input stack_input(
        struct pipeline *pl, struct addresses *a, const struct named_sample *named)
{
	return (struct stack_input){
	        .sample = named->sample,
	        .interps = named->frames,
	        .natives = pl->natives,
	        .kernel = pl->kernel_frames,
	        .gc = named_gc(named),
	        .sites = &a->sites,
	};
}

static int store_one(struct pipeline *pl, const struct named_sample *named)
{
	const struct rprof_sample *s = named->sample;
	struct process *p = named->process;
	struct addresses *a = addresses_of(pl, s->tgid);
	const struct store_thread thread = {
	        .process = p->id,
	        .runtime_name = named->has_thread_name ? named->thread_name : NULL,
	};
	struct stack_input in = stack_input(pl, a, named);
	int rc = find_natives(pl, a, s);

	if (rc == 0 && !p->exited && needs_maps(pl, s) && process_refresh_maps(p, NULL) == 1)
		rc = find_natives(pl, a, s);
	if (rc == 0)
		rc = addresses_find(&pl->kernel, record_kernel(s), s->nr_kernel, pl->kernel_frames);
	if (rc != 0)
		return rc;
	stack_make(&pl->stack, &in);
	rc = store_add(pl->store, s, &thread, &pl->stack);
	p->nr_samples += rc == 0;
	return rc;
}

/* True when the stitcher knows enough, or will not learn more by waiting. */
static bool learn(struct pipeline *pl, bool force)
{
	bool complete = true;

	if (pl->learnt)
		return true;
	for (size_t i = 0; i < pl->nr_processes; i++) {
		struct addresses *a = &pl->processes[i];

		addresses_find(
		        a, NULL, 0, NULL); /* the sites of the interpreter that is there now */
		complete &= a->process->ops == NULL || a->sites.complete;
	}
	if (complete)
		return true;
	if (!force && namer_nr(pl->namer) < LEARN_SAMPLES)
		return false;
	for (struct named_sample *h = namer_first(pl->namer); h != NULL; h = h->next) {
		struct addresses *a = addresses_of(pl, h->sample->tgid);
		struct stack_input in = stack_input(pl, a, h);

		if (find_natives(pl, a, h->sample) == 0)
			stack_learn(&pl->stack, &in);
	}
	pl->learnt = true;
	return true;
}

/* In their order: what was sampled before a change of the mappings is named by the old ones. */
static void store_named(struct pipeline *pl, bool force)
{
	if (!learn(pl, force)) {
		pl->bad_records += namer_keep(pl->namer) != 0;
		return;
	}
	for (; namer_first(pl->namer) != NULL; namer_drop(pl->namer))
		pl->bad_records += store_one(pl, namer_first(pl->namer)) != 0;
}

void pipeline_capture(struct pipeline *pl, const struct rprof_capture *capture, size_t size)
{
	const struct addresses *a = addresses_of(pl, capture->tgid);
	const struct runtime_ops *ops = NULL;
	struct runtime *rt = a != NULL ? process_runtime(a->process, capture->tag, &ops) : NULL;

	if (rt == NULL)
		pl->bad_records++;
	else
		ops->captured(rt, capture, size);
}

void pipeline_add(struct pipeline *pl, const struct rprof_sample *sample, size_t size)
{
	struct addresses *a;

	if (!record_is_whole(sample, size)) {
		pl->bad_records++;
		return;
	}
	a = addresses_of(pl, sample->tgid);
	if (a == NULL) {
		pl->bad_records++;
		return;
	}
	namer_add(pl->namer, a->process, sample, size);
	store_named(pl, false);
}

void pipeline_flush(struct pipeline *pl)
{
	namer_flush(pl->namer);
	store_named(pl, true);
}

void pipeline_stats(const struct pipeline *pl, struct pipeline_stats *out)
{
	out->stored = *store_stats(pl->store);
	out->bad_records = pl->bad_records;
}
