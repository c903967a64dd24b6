/*
 * The kernel side of a recording: the BPF object with its maps, the events that trigger it, the
 * ring buffer. The only file that knows libbpf and the skeleton is session.c.
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "base/err.h"
#include "bpf/abi.h"
#include "cli/process.h"
#include <stdbool.h>

struct session;

struct session_options {
	uint32_t rate_hz;         /* CPU clock; 0: no CPU samples */
	const uint32_t *syscalls; /* numbers */
	size_t nr_syscalls;
};

/* What a session counts. All since its start. */
struct session_stats {
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
	uint64_t check_native, check_interp;     /* walks that differed in the kernel */
	uint64_t check_whole;                    /* records that differed once they were whole */
	uint64_t check_captures, check_capture;  /* captures compared, and those that differed */
	uint32_t verified_cpu, verified_syscall; /* instructions that the verifier went through */
};

/*
 * Loads the programs and the unwind tables of the processes; nothing fires yet. -EPERM: the
 * sentence names the capability or sysctl. -ENOTSUP: the kernel lacks BTF or BPF.
 */
int session_new(const struct session_options *options, struct process *const *processes,
        size_t nr_processes, struct session **out, struct err *err);
void session_free(struct session *s);

/* Tells the kernel side the mappings of a process again: after process_refresh_maps() returned 1.
 * -ENOSPC: the tables are full; what fits is loaded. */
int session_update_process(struct session *s, struct process *p, struct err *err);
void session_remove_process(struct session *s, struct process *p);

/* Makes the events fire. */
int session_start(struct session *s, struct err *err);
/* No event fires after this; what is in the ring buffer stays there. */
void session_stop(struct session *s);

/* For poll(): readable when the kernel side wants to be drained now. */
int session_ring_fd(const struct session *s);
/* For poll(): readable when a process mapped code. */
int session_sideband_fd(const struct session *s);
/* Who takes the records, in their order; each is valid during the call. */
struct session_sink {
	/* With all its frames. False: no more for now. */
	bool (*sample)(void *ctx, const struct rprof_sample *sample, size_t size);
	bool (*capture)(void *ctx, const struct rprof_capture *capture, size_t size);
	void *ctx;
};
/* Gives the sink what is in the buffer. True when the buffer is empty. */
bool session_drain(struct session *s, const struct session_sink *sink);
/* Reads the kernel's notes of new mappings; true when one of them is of a process with this pid. */
bool session_mapped(struct session *s, void (*fn)(void *ctx, int pid), void *ctx);
void session_stats(const struct session *s, struct session_stats *out);

#endif
