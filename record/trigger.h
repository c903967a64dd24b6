/*
 * What makes samples. Each trigger is one row of the table in trigger.c, one program of
 * bpf/rprof.bpf.c, and an attach function in kernel.c where those that are there do not do.
 */
#ifndef RECORD_TRIGGER_H
#define RECORD_TRIGGER_H

#include "bpf/abi.h"
#include "symbolizer/frame.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the kernel side makes the program run. */
enum trigger_attach {
	ATTACH_CLOCK,    /* a clock of each CPU; rate_hz of struct trigger_options */
	ATTACH_SYSCALLS, /* the entry of system calls; those of struct trigger_options */
};

/* What one event weighs, in the trigger's unit, where the record leaves that open. */
enum trigger_weight {
	WEIGHT_ONE,
	WEIGHT_PERIOD,    /* of the clock, in ns */
	WEIGHT_IN_RECORD, /* known when the event ends (time off the CPU): never left open */
};

struct trigger {
	enum rprof_trigger number;
	const char *name;    /* in recordings; with the call behind a colon, if it has calls */
	const char *unit;    /* of weights, in recordings: "ns", "calls" */
	const char *program; /* of bpf/rprof.bpf.c */
	enum trigger_attach attach;
	enum trigger_weight weight;
	bool has_calls; /* a sample has the number of a system call */
};

enum { NR_TRIGGERS = 2 };
extern const struct trigger triggers[NR_TRIGGERS];

/* What is sampled. Without a rate no clock, without system calls none of these. */
struct trigger_options {
	uint32_t rate_hz;
	const uint32_t *syscalls; /* numbers, below RPROF_MAX_SYSCALL */
	size_t nr_syscalls;
};
bool trigger_is_on(const struct trigger *t, const struct trigger_options *options);

/* NULL: this build knows no such trigger. */
const struct trigger *trigger_find(uint32_t number);
/* Of a sample with this number of a system call, in a recording. */
void trigger_name(const struct trigger *t, uint32_t call, char *out, size_t out_sz);
/* What the event is to its stack: the innermost frame. False: nothing. f has no string of its own
 * but its name, which may stand in name. */
bool trigger_frame(
        const struct trigger *t, uint32_t call, struct frame *f, char *name, size_t name_sz);
uint64_t trigger_weight(const struct trigger *t, const struct trigger_options *options,
        const struct rprof_sample *s);

#endif
