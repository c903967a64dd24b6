/*
 * The native walk in user space, on the same tables and the same step as the kernel's: the one
 * that tests hold against libdw. rprof itself walks in the kernel alone. Pure: memory and tables
 * come by callback.
 */
#ifndef SYMBOLIZER_UNWIND_H
#define SYMBOLIZER_UNWIND_H

#include "base/base.h"
#include "bpf/abi.h"
#include "symbolizer/unwind_table.h"
#include <stdbool.h>

struct unwind_source {
	void *ctx;
	/* The 8 bytes at addr. 0 or -errno. */
	int (*read)(void *ctx, uint64_t addr, uint64_t *value);
	/*
	 * The mapping that pc is in: its kind; and for MAPPING_TABLE the file's table, which takes
	 * pc - *bias. False: no executable mapping.
	 */
	bool (*find_table)(void *ctx, uint64_t pc, enum mapping_kind *kind,
	        const struct unwind_table **table, uint64_t *bias);
};

struct unwind_regs {
	uint64_t pc, sp, fp;
	bool interrupted; /* pc runs next; false: it is a return address */
};

struct unwind_walk {
	size_t nr; /* frames stored */
	enum walk_outcome outcome;
	uint64_t cut_pc; /* where it ended, if not at the root */
};

/* Stores up to max frames, leaf first, the one of regs included. */
void unwind_walk(const struct unwind_source *source, const struct unwind_regs *regs,
        struct native_frame *frames, size_t max, struct unwind_walk *walk);

#endif
