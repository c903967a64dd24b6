/*
 * A process that is recorded: who it is, its mappings, its interpreter, and what its native
 * addresses mean.
 */
#ifndef RECORD_PROCESS_H
#define RECORD_PROCESS_H

#include "base/err.h"
#include "base/hash.h"
#include "runtimes/runtime.h"
#include "symbolizer/dso.h"
#include "symbolizer/maps.h"
#include "symbolizer/stitch.h"
#include "symbolizer/target.h"

enum { MAX_INLINED = 16 };

/* What an address in a native stack is. */
struct native_info {
	struct stitch_native stitch; /* without pc */
	uint32_t nr_frames;
	struct frame *frames; /* owned; innermost (inlined) first; strings belong to the dso or live
	                         for ever */
	uint32_t *ids;        /* owned; of the recording, 0: not interned yet */
};

/* What a mapping was found to be. */
struct mapping_info {
	bool known, has_role;
	uint8_t kind; /* enum mapping_kind */
	uint8_t role; /* enum frame_role, if has_role */
	struct dso *dso;
};

struct process {
	struct target target;
	struct maps maps;
	struct mapping_info *mapped;   /* owned; of each of maps, or NULL */
	uint32_t generation;           /* of what addresses mean: counts changes of maps, and of the
	                                  interpreter */
	uint32_t told_generation;      /* the one that the kernel side has been told */
	struct dso_cache *dsos;        /* borrowed */
	const struct runtime_ops *ops; /* NULL: no interpreter */
	struct runtime *rt;
	uint32_t rt_tag;  /* of the interpreter, in records: another after an exec */
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
	struct stitch_sites sites;
	struct hash64 addresses; /* pc << 1 | interrupted -> index in infos */
	struct native_info *infos;
	size_t nr_infos, cap_infos;
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
/* The interpreter that records with this tag are of. NULL: none that is known; *ops is then, too.
 */
struct runtime *process_runtime(
        const struct process *p, uint32_t tag, const struct runtime_ops **ops);
/* Never fails: an address that nobody knows is an info with a name that says so. Valid until the
 * next call. */
struct native_info *process_native(struct process *p, uint64_t pc, bool interrupted);
/* True when pc lies in an executable mapping that we know. */
bool process_knows(const struct process *p, uint64_t pc);
/* What the mapping is to the walk; *dso is NULL for memory without a file. */
enum mapping_kind process_mapping_kind(
        struct process *p, const struct mapping *m, struct dso **dso);

#endif
