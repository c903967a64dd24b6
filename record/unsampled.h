/*
 * Processes that used CPU time while the CPUs were sampled, and of which there is no sample. A
 * recording of them says nothing, which reads as "it was idle": that must not pass for a result.
 */
#ifndef RECORD_UNSAMPLED_H
#define RECORD_UNSAMPLED_H

#include "base/err.h"
#include <stdbool.h>

struct process;

/* So many samples are expected before their absence means something. */
enum { UNSAMPLED_MIN_EXPECTED = 10 };

static inline bool is_unsampled(uint64_t nr_samples, uint64_t cpu_ns, uint32_t rate_hz)
{
	return nr_samples == 0 && rate_hz != 0 &&
	       cpu_ns >= UNSAMPLED_MIN_EXPECTED * 1000000000ULL / rate_hz;
}

/* Reads the process's CPU time: first right after sampling began, then now and then, since it
 * cannot be read any more once the process is gone; last before sampling ends. */
void unsampled_note(struct process *p);
/* The first process of which there should be samples, or NULL. */
const struct process *unsampled_find(struct process *const *processes, size_t nr, uint32_t rate_hz);
/* The sentence: which process, what may be the cause, what to do. lost: samples that were taken;
 * no_user: events on threads of the kernel. */
void unsampled_explain(const struct process *p, uint64_t lost, uint64_t no_user, struct err *err);

#endif
