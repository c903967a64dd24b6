/* What a recording ends with: how much, how well, at what cost, and what to do next. */
#ifndef CLI_SUMMARY_H
#define CLI_SUMMARY_H

#include "record/pipeline.h"
#include "record/kernel.h"
#include <stdio.h>

struct summary {
	const char *path;
	uint64_t duration_ns, own_cpu_ns, table_losses;
	uint64_t unread; /* samples that were left in the buffer */
	uint32_t rate_hz;
	bool all_exited;
	bool unsampled; /* an error follows: of a process that used CPU time there is no sample */
	struct pipeline_stats pipeline;
	struct kernel_stats kernel;
};

void summary_print(const struct summary *s, FILE *out);
void summary_print_json(const struct summary *s, FILE *out);

#endif
