/*
 * A recording: an SQLite database (docs/recording.md has its schema). The writer interns frames and
 * stacks and commits when told to, so that a recorder that is killed loses what came after its last
 * commit and nothing else. The reader works without the process, on any machine.
 */
#ifndef PROFILE_RECORDING_H
#define PROFILE_RECORDING_H

#include "base/err.h"
#include "symbolizer/frame.h"
#include <stdbool.h>

/* Of a whole stack. Stored: append only. */
enum stack_outcome {
	STACK_EXACT = 1,     /* every frame in its true place */
	STACK_TRANSIENT = 2, /* caught at a moment when the interpreter's own account of a frame is
	                        not up to date: see stack_reason */
	STACK_TRUNCATED = 3, /* a part is missing: see stack_reason */
	STACK_NO_CONTEXT =
	        4, /* a thread that does not run the interpreter: native frames only, complete */
};

/* Why a stack is transient or truncated. Stored: append only. */
enum stack_reason {
	REASON_NONE = 0,
	REASON_PUSHING = 1,      /* a frame was pushed, its activation not yet begun */
	REASON_POPPING = 2,      /* a frame was popped, its activation not yet left */
	REASON_FIBER_SWITCH = 3, /* machine stack and execution context are of two fibers */
	REASON_MISPAIRED = 4,    /* activations and frames do not pair: not stitched */
	REASON_UNPLACED =
	        6, /* the call of a C function was not found: its frame may stand too far out */
	REASON_LATE_NAME = 5, /* a frame's code was freed before it could be named */
	REASON_LINE =
	        7, /* all frames are right; the line of one is unknown or another of its code */
	REASON_SIGNAL_STACK = 8, /* a signal handler's own stack was not followed to the thread's */
	REASON_NATIVE_LIMIT = 10, /* more native frames than the limit */
	REASON_INTERP_LIMIT = 11,
	REASON_NO_MAPPING = 12,
	REASON_NO_CFI = 13,
	REASON_UNREADABLE = 14,
	REASON_NO_PROGRESS = 15,
	REASON_JIT = 16,
	REASON_BAD_CONTEXT = 17,
	REASON_NO_TABLE = 18,
	REASON_GC_PLACE = 21, /* the collector runs, and where its frame stands is not certain */
	REASON_EXITING = 19,  /* the thread was ending: its memory was gone */
};
/* Room for all outcomes and reasons, and for some that are not yet there: a newer recorder's are
 * counted too. */
enum { STACK_NR_OUTCOMES = 8, STACK_NR_REASONS = 32 };
const char *stack_outcome_name(
        enum stack_outcome outcome); /* "exact", "transient", "truncated", "no-context" */
const char *stack_reason_name(
        enum stack_reason reason); /* "fiber-switch", "no-cfi", ...; NULL for REASON_NONE */
const char *stack_reason_text(enum stack_reason reason);  /* a half sentence for people */
bool stack_reason_is_transient(enum stack_reason reason); /* of STACK_TRANSIENT; else of
                                                             STACK_TRUNCATED */

/* The code that walks ended in: whose unwind information is missing. Strings are borrowed. */
struct stack_cuts {
	const char *library[8]; /* paths */
	uint64_t count[8];
	size_t nr;
	bool more; /* than are kept here */
};
void stack_cuts_add(struct stack_cuts *c, const char *library, uint64_t count);
/* Of so many per cent of the samples it is said what their mark means. */
#define STACK_MEANING_MIN_SHARE 1.0
struct buf;
/*
 * Appends what it means for a reader that stacks have this outcome and reason: a sentence without
 * its full stop. cuts: of stacks with this reason, or NULL. Nothing for exact stacks.
 */
void stack_meaning(struct buf *b, enum stack_outcome outcome, enum stack_reason reason,
        const struct stack_cuts *cuts);

struct recording; /* being written */

/* Refuses to overwrite a file that is no recording (-EEXIST); replaces a recording. The file
 * appears under its name at once. */
int recording_create(const char *path, struct recording **out, struct err *err);

/* Free-form facts: "command", "hostname", "kernel", "rprof_version", "started_at" (ISO 8601),
 * "rate_hz", "duration_ns", "bpf_run_ns", "bpf_runs", "recorder_cpu_ns" ... A key written again is
 * replaced. */
int recording_set_meta(struct recording *rec, const char *key, const char *value);

struct recording_process {
	int pid;
	uint64_t start_time;
	const char *comm, *command_line;
	const char *runtime;             /* "ruby", or NULL */
	const char *runtime_description; /* "ruby 3.1.2p20 ..." */
};
int recording_add_process(struct recording *rec, const struct recording_process *p, uint32_t *id);
/* A thread; again with other names: the names are replaced. */
int recording_add_thread(struct recording *rec, uint32_t process, int tid, const char *comm,
        const char *runtime_name, uint32_t *id);
/* "cpu" (unit "ns" per sample weight), "syscall:openat" (unit "calls"): name, unit, what one unit
 * of weight is. */
int recording_add_trigger(struct recording *rec, const char *name, const char *unit, uint32_t *id);

/* Interned: equal frames get the same id. -EINVAL: of a language that can't be called so. */
int recording_intern_frame(struct recording *rec, const struct frame *frame, uint32_t *id);
/* frames: root first. nr 0 is the empty stack. */
int recording_intern_stack(struct recording *rec, const uint32_t *frames, size_t nr, uint32_t *id);

struct recording_sample {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t thread, stack, trigger;
	uint64_t weight; /* in the trigger's unit */
	uint8_t outcome; /* enum stack_outcome */
	uint8_t reason;  /* enum stack_reason */
};
int recording_add_sample(struct recording *rec, const struct recording_sample *s);
/* A loss: what ("ring-buffer-full", "names-late", ...), how many since the start (replaces the
 * earlier figure). */
int recording_set_loss(struct recording *rec, const char *what, uint64_t count);

/* What was added is safe after this. -ENOSPC: the disk is full; what was committed before stays.
 * Errors of the functions above that come from SQLite are kept and returned here as well, with the
 * sentence. */
int recording_commit(struct recording *rec, struct err *err);
/* Commits, leaves one plain file (no -wal beside it) and frees, also when it fails. */
int recording_close(struct recording *rec, struct err *err);

#endif
