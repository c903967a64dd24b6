/*
 * Reads a recording, on any machine and without the process; also one whose recorder was killed or
 * is still writing.
 *
 * The file is hostile: every number in it is checked before it is used. Pointers handed out are
 * borrowed and live as long as the reader, those of a callback as long as the call.
 */
#ifndef PROFILE_READER_H
#define PROFILE_READER_H

#include "base/err.h"
#include "profile/recording.h"

struct reader;

/* -ENOENT, -EACCES, -EISDIR: the file cannot be read; -EBADMSG: no recording, or a damaged one;
 * -EPROTONOSUPPORT: written by a newer rprof; -EBUSY, -ENOMEM, -EIO. The file and its directory
 * need not be writable. */
int reader_open(const char *path, struct reader **out, struct err *err);
void reader_free(struct reader *r); /* NULL is allowed */

struct reader_meta {
	const char *key, *value;
};

struct reader_process {
	int pid;
	uint64_t start_time;
	const char *comm, *command_line, *runtime, *runtime_description; /* NULL: unknown */
};

struct reader_thread {
	uint32_t id;
	int tid;
	const struct reader_process *process;
	const char *comm, *runtime_name; /* NULL: unknown */
};

struct reader_trigger {
	uint32_t id;
	const char *name, *unit; /* never NULL */
};

struct reader_loss {
	const char *what;
	uint64_t count;
};

/* Arrays in the order of their ids (1 ...); meta and losses by name. */
const struct reader_meta *reader_metas(const struct reader *r, size_t *nr);
const struct reader_process *reader_processes(const struct reader *r, size_t *nr);
const struct reader_thread *reader_threads(const struct reader *r, size_t *nr);
const struct reader_trigger *reader_triggers(const struct reader *r, size_t *nr);
const struct reader_loss *reader_losses(const struct reader *r, size_t *nr);
/* Function ids run from 1 to this. */
uint32_t reader_nr_functions(const struct reader *r);
/* A frame of the function, with line and addresses 0. function in [1, reader_nr_functions]. */
struct frame reader_function(const struct reader *r, uint32_t function);

/* Zero and NULL mean: any. */
struct reader_filter {
	int pid, tid;
	const char *trigger; /* its name */
};

struct reader_stack {
	const struct reader_thread *thread; /* and thread->process */
	const struct reader_trigger *trigger;
	uint8_t outcome, reason;     /* as stored: an unknown number is possible */
	uint64_t nr_samples, weight; /* sums */
	uint64_t time_ns; /* of the one sample for reader_each_sample, else of the first */
	uint32_t id;      /* of the stack of frames alone; 0: the empty one */
	size_t nr_frames;
	const struct frame *frames; /* root first */
	const uint32_t *functions; /* nr_frames; equal ids are the same function at whatever line or
	                              address */
	const uint32_t *stacks; /* nr_frames; id of the stack up to and with this frame, none above
	                           the last one's */
};

/* Anything but 0 ends the iteration and is returned. */
typedef int reader_stack_fn(const struct reader_stack *stack, void *ctx);

/* Once for each distinct (stack, thread, trigger, outcome, reason), in the order of their first
 * samples. filter may be NULL. */
int reader_each_stack(struct reader *r, const struct reader_filter *filter, reader_stack_fn *fn,
        void *ctx, struct err *err);
/* Once for each sample, in the order of the recording; nr_samples is 1. */
int reader_each_sample(struct reader *r, const struct reader_filter *filter, reader_stack_fn *fn,
        void *ctx, struct err *err);

#endif
