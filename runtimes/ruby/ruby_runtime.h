/*
 * One attached Ruby process: what the files of this folder share. Nothing outside of it includes
 * this.
 */
#ifndef RUBY_RUNTIME_H
#define RUBY_RUNTIME_H

#include "base/hash.h"
#include "runtimes/ruby/ruby_abi.h"
#include "runtimes/ruby/ruby_decode.h"
#include "runtimes/ruby/ruby_layout.h"
#include "runtimes/ruby/ruby_object.h"
#include "runtimes/runtime.h"
#include "symbolizer/target.h"

enum {
	RUBY_MAX_JIT = 8,
	RUBY_MAX_GC_ENTRIES = 16,
	RUBY_MAX_COLD = 8,
	RUBY_MAX_THREADS = 4096,
};

struct ruby_range {
	uint64_t lo, hi; /* addresses in the process, [lo, hi) */
};

/* Where a fact came from, for `rprof info`. */
struct ruby_sources {
	const char *ec, *vm, *objspace, *vm_exec, *vm_core, *ids;
};

struct ruby_cache;

struct runtime {
	struct target target; /* a copy: pid and read function; the pidfd is the caller's */
	struct dso *dso;
	uint64_t bias;
	const struct ruby_layout *l;
	char version[16];
	char description[256];

	struct ruby_proc proc;
	struct ruby_ec_code ec_code;
	struct ruby_sources from;
	uint64_t vm, main_thread;
	unsigned int nr_threads;

	struct ruby_range exec_cold[RUBY_MAX_COLD], core_cold[RUBY_MAX_COLD];
	size_t nr_exec_cold, nr_core_cold;
	struct ruby_range jit[RUBY_MAX_JIT];
	size_t nr_jit;
	uint64_t gc_entries[RUBY_MAX_GC_ENTRIES]; /* functions that enter the collector */
	size_t nr_gc_entries;

	struct ruby_objects objects; /* how to read strings, classes, IDs */
	struct ruby_cache *cache;    /* ruby_names.c; owned */
};

/* ruby_sites.c */
/* Return addresses (in the process) of the interpreter's calls of C functions. Returns how many. */
size_t ruby_call_sites(const struct runtime *rt, uint64_t *out, size_t max);
/* Pure: offsets in text behind such calls. */
size_t ruby_call_sites_decode(const uint8_t *text, size_t n, uint64_t *offsets, size_t max);
/* Fills rt->gc_entries; none when the code does not tell. */
void ruby_gc_entries_find(struct runtime *rt);
bool ruby_enters_gc(const struct runtime *rt, uint64_t func_addr);
/* Pure: *at is the first place in text, at `from` or behind it, where during_gc is set (or cleared)
 * in the byte of flags at flags_off of the object space. False: there is none. */
bool ruby_during_gc_decode(
        const uint8_t *text, size_t n, uint8_t flags_off, bool set, size_t from, size_t *at);

/* ruby_attach.c */
int ruby_attach(const struct target *target, const struct maps *maps, struct dso_cache *dsos,
        struct runtime **out, struct err *err);
/* ruby_frames.c: the control frames of an execution context as the kernel-side walker sends them,
 * leaf first. Stable only while the thread does not run. The count, or -errno: -EFAULT, -EINVAL
 * when it is no execution context. */
int ruby_frames_read(const struct runtime *rt, uint64_t ec, struct interp_frame *out, size_t max);
/* The context that thread th runs in now. 0 or -errno. */
int ruby_thread_ec(const struct runtime *rt, uint64_t th, uint64_t *ec);
/* All threads of all ractors. How many of out[max] were filled. */
size_t ruby_threads_read(const struct runtime *rt, uint64_t *out, size_t max);

/* ruby_names.c */
int ruby_cache_new(struct ruby_cache **out);
void ruby_cache_free(struct ruby_cache *cache);
void ruby_captured(struct runtime *rt, const struct rprof_capture *capture, size_t size);
/* ruby_plan.c */
bool ruby_plan(const struct runtime *rt, struct capture_plan *out);
/* ruby_resolve.c */
void ruby_resolve(struct runtime *rt, const struct interp_frame *f, bool leaf,
        const struct interp_moment *when, struct interp_info *out);
void ruby_frame_class(
        const struct runtime *rt, const struct interp_frame *f, struct interp_desc *out);
/* ruby_gc.c */
/* What the kernel side sends as gc_gen, read now. 0 or -errno. */
int ruby_gc_gen(const struct runtime *rt, uint64_t *gen);

#endif
