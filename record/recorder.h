/*
 * One recording of processes, from the first look at them to the closed file. It prints nothing and
 * knows no signal: what there is to say comes back as errors and facts.
 */
#ifndef RECORD_RECORDER_H
#define RECORD_RECORDER_H

#include "base/err.h"
#include "record/kernel.h"
#include "record/pipeline.h"
#include "record/trigger.h"
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct recorder;

/* What the strings and lists point to must live as long as the recorder. */
struct recorder_options {
	const pid_t *pids;
	size_t nr_pids; /* at least 1, at most PIPELINE_MAX_PROCESSES */
	struct trigger_options triggers;
	uint64_t duration_ns; /* 0: until it is to stop, or the last process has exited */
	const char *path;     /* NULL: made of the first process's name and pid, and of the time */
	const char *command;  /* as the recording shall name it */
	const volatile sig_atomic_t *stop; /* not 0: end it */
	/* Called some ten times a second while events fire; may be NULL. */
	void (*progress)(void *ctx, const struct recorder *r);
	void *ctx;
};

/* Where it went wrong: who starts a recorder may want to tell apart what the same code says. */
enum recorder_step {
	RECORDER_MEMORY = 1,
	RECORDER_ATTACH, /* opening a process: codes of process_new() */
	RECORDER_LOAD,   /* the kernel side: codes of kernel_new() */
	RECORDER_START,  /* codes of kernel_start() */
	RECORDER_OUTPUT, /* the file; what was committed is safe */
};

struct recorder_facts {
	const char *path; /* borrowed from the recorder */
	uint32_t rate_hz;
	uint64_t duration_ns; /* of sampling: until now, or until its end */
	uint64_t own_cpu_ns;  /* of the whole program, since events fire */
	uint64_t lost;        /* samples, in all; these are of which kind: */
	uint64_t unread;      /* were left in the buffer when the time to end was over */
	/* and kernel.lost and kernel.missed */
	uint64_t table_losses; /* libraries for whose unwind tables there was no room */
	bool all_exited;
	struct pipeline_stats pipeline;
	struct kernel_stats kernel;
};

/* Opens the processes, loads the kernel side and creates the file; no event fires yet. On failure
 * *step says where, and no file is left. */
int recorder_new(const struct recorder_options *options, struct recorder **out,
        enum recorder_step *step, struct err *err);
/* Records until the end and closes the file. Once. */
int recorder_run(struct recorder *r, enum recorder_step *step, struct err *err);
/* A file in which nothing was recorded is removed: recorder_run() was not called or did not start.
 */
void recorder_free(struct recorder *r);

void recorder_facts(const struct recorder *r, struct recorder_facts *out);
/* After recorder_run(). -ENODATA: of a process that used CPU time there is no sample, and the
 * sentence says why that may be (unsampled.h). */
int recorder_unsampled(const struct recorder *r, struct err *err);

#endif
