/*
 * Sums over the stacks of a recording: what is hot, which threads, how right. Each trigger has its
 * own: nanoseconds of CPU and calls are never added up.
 */
#ifndef PROFILE_AGGREGATE_H
#define PROFILE_AGGREGATE_H

#include "profile/label.h"
#include "profile/reader.h"
#include "profile/view.h"

struct hot_frame {
	uint32_t function;    /* of reader_function */
	uint64_t self, total; /* weight; total counts a stack once however often the function stands
	                         in it */
	uint64_t self_samples, total_samples;
};

struct hot_stack {
	uint64_t weight, nr_samples;
	size_t nr_functions;
	uint32_t *functions; /* root first, those that the view shows; owned */
};

struct thread_sum {
	const struct reader_thread *thread;
	uint64_t weight, nr_samples;
};

struct trigger_sum {
	const struct reader_trigger *trigger;
	uint64_t weight, nr_samples;
	uint64_t unseen; /* weight of stacks of which the view shows no frame */
	uint64_t outcomes[STACK_NR_OUTCOMES]; /* samples by enum stack_outcome; unknown ones are at
	                                         0 */
	uint64_t reasons[STACK_NR_REASONS];   /* samples by enum stack_reason */
	/* by enum stack_reason: where the native walks of truncated stacks ended */
	struct stack_cuts cuts[STACK_NR_REASONS];
	struct hot_frame *frames; /* all that were seen; by self, then total, descending */
	size_t nr_frames;
	struct hot_stack *stacks; /* the heaviest, descending; at most top */
	size_t nr_stacks, nr_distinct_stacks;
	struct thread_sum *threads; /* by weight, descending */
	size_t nr_threads;
};

struct aggregate {
	struct trigger_sum *triggers; /* those with samples, in the order of the recording */
	size_t nr_triggers;
	struct labels labels; /* what the functions are called */
};

/* top: how many stacks of each trigger to keep. Borrows from r. -errno of reader_each_stack. */
int aggregate_init(struct aggregate *a, struct reader *r, const struct reader_filter *filter,
        const struct view *view, size_t top, struct err *err);
void aggregate_release(struct aggregate *a);

#endif
