/* A recording as one HTML file that needs nothing else: profile/html/ with the data inside. */
#ifndef PROFILE_FLAMEGRAPH_H
#define PROFILE_FLAMEGRAPH_H

#include "base/err.h"
#include "profile/reader.h"
#include <stdio.h>

struct flamegraph_options {
	const char *title;   /* NULL: made from the recording */
	const char *trigger; /* the one that is shown first, by name; NULL: the first */
	int tid;             /* the thread that is shown first; 0: all */
};

struct flamegraph;

/* Reads all that is needed from the recording, which must outlive *out. -ENODATA: no samples;
 * -EINVAL: the recording has no such trigger or thread. */
int flamegraph_new(struct reader *reader, const struct flamegraph_options *options,
        struct flamegraph **out, struct err *err);
void flamegraph_free(struct flamegraph *fg); /* NULL is allowed */
/* 0, or what went wrong with out. */
int flamegraph_write(struct flamegraph *fg, FILE *out, struct err *err);
/* How many stacks differ in more than their weight. */
size_t flamegraph_nr_stacks(const struct flamegraph *fg);

#endif
