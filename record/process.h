/*
 * A process that is recorded: who it is, its mappings, and the interpreter that it runs, which an
 * exec changes.
 */
#ifndef RECORD_PROCESS_H
#define RECORD_PROCESS_H

#include "base/err.h"
#include "runtimes/runtime.h"
#include "symbolizer/dso.h"
#include "symbolizer/maps.h"
#include "symbolizer/target.h"

/* What a mapping was found to be. */
struct mapping_info {
	bool known, has_role;
	uint8_t kind;    /* enum mapping_kind: what it is to the walk */
	uint8_t role;    /* enum frame_role of what stands in it, if has_role */
	struct dso *dso; /* NULL: memory without a file, or one that cannot be read */
};

struct process {
	struct target target;
	struct maps maps;
	struct mapping_info *mapped;   /* owned; of each of maps */
	uint32_t generation;           /* of what addresses mean: counts changes of maps, and of the
	                                  interpreter */
	uint32_t told_generation;      /* the one that the kernel side has been told */
	struct dso_cache *dsos;        /* borrowed */
	const struct runtime_ops *ops; /* NULL: no interpreter */
	struct runtime *rt;
	uint32_t rt_tag;  /* of the interpreter, in records: another after an exec. Given by the
	                     kernel side when it is told of it; 0: not yet */
	uint64_t rt_addr; /* of its code: where another file stands after an exec */
	/* Interpreters of images before an exec: names that they gave out are still used. */
	struct {
		const struct runtime_ops *ops;
		struct runtime *rt;
		uint32_t tag;
	} retired[8];
	size_t nr_retired;
	bool lost_runtime; /* the process has exec'ed; process_reattach() may find the new image's
	                      interpreter */
	unsigned nr_reattached;
	bool exited;
	uint32_t id; /* in the recording */
	/* For unsampled.h: samples that were stored; CPU time since it was noted first. */
	uint64_t nr_samples, cpu_start_ns, cpu_ns;
	bool has_cpu_start;
	char comm[32];
	char *command_line; /* owned */
};

/* Opens the process and attaches to its interpreter. -ENOENT: it has none. See runtime_ops.attach
 * for the rest. */
int process_new(pid_t pid, struct dso_cache *dsos, struct process **out, struct err *err);
void process_free(struct process *p);
/* Reads the mappings again. 1: executable mappings changed, 0: they are the same, or -errno.
 * Whoever calls it leaves it to the recorder to tell the kernel side: the generation says that it
 * must. */
int process_refresh_maps(struct process *p, struct err *err);
/* After an exec: looks for the interpreter of the new image. 0: attached, else as process_new();
 * -EAGAIN: try again later. */
int process_reattach(struct process *p, struct err *err);
/* The interpreter that records with this tag are of. NULL: none that is known, and *ops is NULL. */
struct runtime *process_runtime(
        const struct process *p, uint32_t tag, const struct runtime_ops **ops);
/* m: one of the process's own mappings. What was found is good until they change. */
struct mapping_info *process_mapping(struct process *p, const struct mapping *m);

#endif
