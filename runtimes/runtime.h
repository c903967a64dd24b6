/*
 * The interface of an interpreter. One folder below runtimes/ implements it; nothing outside of
 * that folder knows a name of that interpreter.
 *
 * The order of use: attach() once per process; walker_config() gives the bytes for the kernel-side
 * walker; for each sample frame_class() says what each interpreter frame is (pure, no reads),
 * resolve() names it (from what captured() was given), native_role() says what the interpreter's
 * own code is.
 */
#ifndef RUNTIMES_RUNTIME_H
#define RUNTIMES_RUNTIME_H

#include "base/buf.h"
#include "base/err.h"
#include "bpf/abi.h"
#include "runtimes/list.h"
#include "symbolizer/dso.h"
#include "symbolizer/frame.h"
#include "symbolizer/maps.h"
#include "symbolizer/stitch.h"
#include "symbolizer/target.h"

struct runtime; /* one attached process; each runtime has its own */

/* What an interpreter frame is to the stitcher. */
struct interp_desc {
	uint8_t class;    /* enum stitch_interp_class */
	uint8_t ends_run; /* an activation of the interpreter loop begins with this frame (FINISH,
	                     by the exact rule) */
};

enum {
	INTERP_RESOLVED = 1,   /* name is right */
	INTERP_UNVERIFIED = 2, /* an object may have been freed and its memory used again before it
	                          could be read: it, or what it would add to the name, is missing */
	INTERP_UNREADABLE = 4, /* the same for one that made no sense */
	INTERP_SKIP_NEXT = 8,  /* the next outer frame is the same method's (rescue, ensure): Ruby
	                          >= 3.4 does not show it */
};

/* When a sample was taken, as far as the interpreter's collector goes: of struct rprof_sample. */
struct interp_moment {
	uint64_t time_ns;
	uint64_t gc_gen;
	uint32_t unsent_old_stamp;
};

struct interp_info {
	struct frame frame; /* strings live until the runtime is freed */
	uint64_t func_addr; /* of a C function (also of a block written in C): its address; 0:
	                       unknown */
	uint32_t flags;     /* INTERP_* */
};

struct runtime_ops {
	/* "ruby": also the language of its frames in recordings, see frame_language_is_valid() */
	const char *name;
	uint32_t id; /* enum runtime_id: by which the kernel side knows the walk */

	/*
	 * 0: *out is attached, to be freed with free(). -ENOENT: no such interpreter in this
	 * process. -ENOTSUP: a release that is not supported; the sentence names it. Else: it is
	 * there but cannot be read; why goes to err.
	 */
	int (*attach)(const struct target *target, const struct maps *maps, struct dso_cache *dsos,
	        struct runtime **out, struct err *err);
	void (*free)(struct runtime *rt);

	/* What the kernel-side walk needs to know of the process (struct ruby_proc for Ruby):
	 * config_sz bytes, at most RPROF_CONFIG_SZ. */
	size_t config_sz;
	void (*walker_config)(const struct runtime *rt, void *out);

	void (*frame_class)(
	        const struct runtime *rt, const struct interp_frame *f, struct interp_desc *out);

	/* The plan by which the kernel side captures what names objects. False: it cannot be made.
	 * NULL: the walk wants no captures. */
	bool (*capture_plan)(const struct runtime *rt, struct capture_plan *out);

	/* A capture of the kernel side, size bytes in all: frames of samples behind it in the ring
	 * are named by it. NULL with capture_plan alone. */
	void (*captured)(struct runtime *rt, const struct rprof_capture *capture, size_t size);

	/*
	 * Names a frame. leaf: its code may be what runs, with no call since. What was not captured
	 * is read now, and the runtime compares it with what the collector has done since. Always
	 * fills *out; trouble is in flags, also of a name of which only a part is missing.
	 */
	void (*resolve)(struct runtime *rt, const struct interp_frame *f, bool leaf,
	        const struct interp_moment *when, struct interp_info *out);

	/* What the code at pc, an address in the process, is to the stitcher. */
	enum stitch_native_role (*native_role)(const struct runtime *rt, uint64_t pc);
	/* What the code at pc is called by its role ("vm_exec_core"), for files without symbols;
	 * NULL: no role. May itself be NULL. */
	const char *(*native_name)(const struct runtime *rt, uint64_t pc);
	/*
	 * Addresses in the process to which C functions return that the interpreter called as
	 * methods: struct stitch_sites. NULL, or 0 found: the stitcher learns them.
	 */
	size_t (*call_sites)(const struct runtime *rt, uint64_t *out, size_t max);
	/* Is func_addr a function that sets the garbage collector going, and whose activation stays
	 * on the stack until it is done? NULL, or false for all: not known. */
	bool (*enters_gc)(const struct runtime *rt, uint64_t func_addr);
	/* The frame that stands for the collector in a sample with this gc_gen: "(GC marking)", a
	 * string that lives for ever. NULL: it is called by what it is in any language. */
	const char *(*gc_name)(const struct runtime *rt, uint64_t gc_gen);
	/* Is the file an extension: a library that the interpreter loaded as code of the program?
	 * NULL: none is. */
	bool (*is_extension)(const struct runtime *rt, struct dso *dso);
	/* The ELF file that is the interpreter. */
	const struct dso *(*dso)(const struct runtime *rt);

	/* The name that the program gave to the thread of this execution context (of struct
	 * rprof_sample: not NULL if the walk finds some); "" when none. out is NUL-terminated. */
	void (*thread_name)(struct runtime *rt, uint64_t context, char *out, size_t n);

	/* "ruby 3.1.2p20 (2022-04-12 ...)" */
	const char *(*description)(const struct runtime *rt);
	/* For `rprof info`: what was found, where each fact about the layout came from, JIT, as
	 * lines of text "key: value" (json false) or members of a JSON object without its braces.
	 */
	void (*describe)(const struct runtime *rt, struct buf *out, bool json);
};

/* NULL-terminated. */
extern const struct runtime_ops *const runtimes[];

#define RUNTIME_DECLARE(id, ID, name) extern const struct runtime_ops name##_runtime;
RUNTIMES(RUNTIME_DECLARE)
#undef RUNTIME_DECLARE

/* Has the kernel side a walk for this runtime, by the same configuration? config_sz: of the walk of
 * each id below nr; 0: there is none. -EINVAL: no. */
int runtime_check_walk(
        const struct runtime_ops *ops, const uint32_t *config_sz, size_t nr, struct err *err);

#endif
