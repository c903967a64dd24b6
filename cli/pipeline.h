/*
 * From a record of the kernel side to a sample of the recording: name the frames, stitch them,
 * store the stack.
 */
#ifndef CLI_PIPELINE_H
#define CLI_PIPELINE_H

#include "base/err.h"
#include "bpf/abi.h"
#include "cli/process.h"
#include "profile/recording.h"
#include "symbolizer/kallsyms.h"

struct pipeline;

struct pipeline_stats {
	uint64_t samples;
	uint64_t outcome[8]; /* by enum stack_outcome */
	uint64_t reason[32]; /* by enum stack_reason, of stacks that are not exact */
	uint64_t threads;
	uint64_t bad_records; /* of no known process, or malformed */
};

/* kallsyms may be NULL: kernel frames are addresses then. rate_hz 0: no CPU samples. */
int pipeline_new(struct recording *rec, const struct kallsyms *kallsyms, uint32_t rate_hz,
        struct pipeline **out, struct err *err);
void pipeline_free(struct pipeline *pl);
/* The process must have its id of the recording. It stays the caller's and must live as long as the
 * pipeline. */
int pipeline_add_process(struct pipeline *pl, struct process *p, struct err *err);

/*
 * Takes a record: its interpreter frames are named at once, the rest may wait until
 * pipeline_flush(), because the stitcher learns from the first samples how to place the frames of
 * all.
 */
void pipeline_add(struct pipeline *pl, const struct rprof_sample *sample, size_t size);
/* True when a native address of the record lies in no mapping that is known for its process. */
bool pipeline_needs_maps(struct pipeline *pl, const struct rprof_sample *sample, size_t size,
        struct process **process);
/*
 * Stores at most max of the samples that wait; SIZE_MAX: all, also those that still wait to learn.
 * True when more can be stored: between two calls the ring buffer should be drained, because naming
 * native code for the first time takes long and interpreter code must be named soon.
 */
bool pipeline_flush(struct pipeline *pl, size_t max);
void pipeline_stats(const struct pipeline *pl, struct pipeline_stats *out);

#endif
