/* What `rprof report` says, as text and as JSON. */
#ifndef PROFILE_REPORT_H
#define PROFILE_REPORT_H

#include "base/buf.h"
#include "profile/aggregate.h"

enum { REPORT_STACK_LINES = 24 }; /* of one stack in the text; JSON has all */

struct report_options {
	size_t top;    /* frames, stacks and threads to show of each trigger */
	size_t stacks; /* at most as many as were kept by aggregate_init */
};

/* Append to b; failures are in b->failed. */
void report_text(struct buf *b, const struct reader *r, const struct aggregate *a,
        const struct report_options *o);
/* One object; docs/recording.md has its form. */
void report_json(struct buf *b, const struct reader *r, const struct aggregate *a,
        const struct report_options *o);

/* "1.23 s", "45.6 ms", "17 calls": a weight for people. */
void report_weight(char *out, size_t out_sz, uint64_t weight, const char *unit);

#endif
