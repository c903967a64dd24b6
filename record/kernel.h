/*
 * The kernel side of a recording: the BPF object with its maps, the events that trigger it, the
 * ring buffer. The only file that knows libbpf and the skeleton is kernel.c.
 */
#ifndef RECORD_KERNEL_H
#define RECORD_KERNEL_H

#include "base/err.h"
#include "bpf/abi.h"
#include "record/process.h"
#include "record/trigger.h"
#include <stdbool.h>

struct kernel;

/* What is counted, since the start. */
struct kernel_stats {
	uint64_t samples, lost, no_user;
	uint64_t missed;           /* triggers that fired while another walk ran on the same CPU */
	uint64_t bpf_ns, bpf_runs; /* 0 when the kernel keeps no statistics */
	uint64_t ring_bytes;       /* that the records took */
	uint64_t reads;            /* of user memory, by the walks */
	uint64_t lookups;          /* searches in the unwind tables */
	uint64_t wakeups;          /* records that had user space woken */
	uint64_t captures;         /* objects that were captured and sent */
	uint64_t looked_at;        /* objects that were captured and as they had been sent */
	uint64_t unsent;           /* samples with objects that were not captured */
	uint64_t longest_ns;       /* the longest run of the program */
	uint64_t bad_records;      /* malformed, or without the walk that they build on */
	/* of a build with RPROF_CHECK */
	uint64_t checked, check_frames; /* walks made a second time, plainly; frames compared */
	uint64_t check_native, check_interp;    /* walks that differed in the kernel */
	uint64_t check_whole;                   /* records that differed once they were whole */
	uint64_t check_captures, check_capture; /* captures compared, and those that differed */
	/* Instructions that the verifier went through, of each trigger's program; 0: is off. */
	uint32_t verified[NR_TRIGGERS];
};

/*
 * Loads the programs and the unwind tables of the processes; nothing fires yet. -EPERM: the
 * sentence names the capability or sysctl. -ENOTSUP: the kernel lacks BTF or BPF.
 */
int kernel_new(const struct trigger_options *options, struct process *const *processes,
        size_t nr_processes, struct kernel **out, struct err *err);
void kernel_free(struct kernel *s);

/* Tells the kernel side the mappings of a process and its interpreter again: when its generation is
 * another than told_generation. -ENOSPC: the tables are full; what fits is loaded. */
int kernel_update_process(struct kernel *s, struct process *p, struct err *err);
void kernel_remove_process(struct kernel *s, struct process *p);

/* Makes the events fire, until end_ns (CLOCK_MONOTONIC; 0: until kernel_stop()): the kernel side
 * keeps that time by itself. */
int kernel_start(struct kernel *s, uint64_t end_ns, struct err *err);
/* No event fires after this; what is in the ring buffer stays there. */
void kernel_stop(struct kernel *s);

/* For poll(): readable when the kernel side wants to be drained now. */
int kernel_ring_fd(const struct kernel *s);
/* For poll(): readable when a process mapped code. */
int kernel_sideband_fd(const struct kernel *s);
/* Who takes the records, in their order; each is valid during the call. */
struct kernel_sink {
	/* With all its frames. */
	void (*sample)(void *ctx, const struct rprof_sample *sample, size_t size);
	void (*capture)(void *ctx, const struct rprof_capture *capture, size_t size);
	/* Asked after each record, be it understood or not. False: no more for now. */
	bool (*more)(void *ctx);
	void *ctx;
};
/* Gives the sink what is in the buffer, until it wants no more. True when the buffer is empty. */
bool kernel_drain(struct kernel *s, const struct kernel_sink *sink);
/* Reads the kernel's notes of new mappings; true when one of them is of a process with this pid. */
bool kernel_mapped(struct kernel *s, void (*fn)(void *ctx, int pid), void *ctx);
void kernel_stats(const struct kernel *s, struct kernel_stats *out);

#endif
