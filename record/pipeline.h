/*
 * The path of one sample: from a record of the kernel side to a sample of the recording. What each
 * step does is in a file of its own: names (namer.h), native addresses (address.h), the stack
 * (stack.h), the recording (store.h).
 */
#ifndef RECORD_PIPELINE_H
#define RECORD_PIPELINE_H

#include "base/err.h"
#include "bpf/abi.h"
#include "profile/recording.h"
#include "record/process.h"
#include "record/store.h"
#include "symbolizer/kallsyms.h"

enum { PIPELINE_MAX_PROCESSES = 256 }; /* in one recording */

struct pipeline;

struct pipeline_stats {
	struct store_stats stored;
	uint64_t bad_records; /* of no known process, or without memory for them */
};

/* kallsyms may be NULL: kernel frames are addresses then. */
int pipeline_new(struct recording *rec, struct kallsyms *kallsyms,
        const struct trigger_options *options, struct pipeline **out, struct err *err);
void pipeline_free(struct pipeline *pl);
/* The process must have its id of the recording. It stays the caller's and must live as long as the
 * pipeline. */
int pipeline_add_process(struct pipeline *pl, struct process *p, struct err *err);

/* What names an object of an interpreter, for the samples that follow. */
void pipeline_capture(struct pipeline *pl, const struct rprof_capture *capture, size_t size);
/*
 * Stores a sample that is whole (kept_walks_expand()), now or later: it may have to wait for names,
 * and the first samples until it is learnt how to place their frames. The mappings of a process are
 * read again when a native address lies in none that is known: its generation tells.
 */
void pipeline_add(struct pipeline *pl, const struct rprof_sample *sample, size_t size);
/* Stores what waits: nothing more will come. */
void pipeline_flush(struct pipeline *pl);
void pipeline_stats(const struct pipeline *pl, struct pipeline_stats *out);

#endif
