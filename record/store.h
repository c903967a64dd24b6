/*
 * Puts stacks into the recording: the ids of frames, threads and triggers, each asked for once.
 */
#ifndef RECORD_STORE_H
#define RECORD_STORE_H

#include "base/err.h"
#include "bpf/abi.h"
#include "profile/recording.h"
#include "record/stack.h"
#include "record/trigger.h"

struct store;

struct store_stats {
	uint64_t samples;
	uint64_t outcome[STACK_NR_OUTCOMES]; /* by enum stack_outcome */
	uint64_t reason[STACK_NR_REASONS]; /* by enum stack_reason, of stacks that are not exact */
	struct stack_cuts cuts[STACK_NR_REASONS]; /* likewise; borrowed from the processes' files */
	uint64_t threads;
};

/* Whose stack it is. */
struct store_thread {
	uint32_t process; /* its id in the recording */
	const char
	        *runtime_name; /* that the program gave to the thread, "": none; NULL: as before */
};

/* rec is borrowed. */
int store_new(struct recording *rec, const struct trigger_options *options, struct store **out,
        struct err *err);
void store_free(struct store *st);
/* Strings of interpreter frames must live as long as the store. -ENOMEM, -EINVAL (of
 * no known trigger), or what the recording says, which then fails: the sample is not stored. */
int store_add(struct store *st, const struct rprof_sample *s, const struct store_thread *thread,
        const struct stack *stack);
const struct store_stats *store_stats(const struct store *st);

#endif
