/*
 * Names the interpreter's frames of samples, and keeps those that have to wait. The kernel side
 * captures so many objects in one run and no more: the next samples of the thread bring the rest,
 * so a sample whose names are not there yet waits for those. What is named stands in a queue, in
 * the order in which it was named.
 */
#ifndef RECORD_NAMER_H
#define RECORD_NAMER_H

#include "record/process.h"
#include "record/stack.h"

/* A sample with its interpreter frames named. */
struct named_sample {
	const struct rprof_sample *sample; /* with all frames */
	struct named_frame *frames;        /* one for each of its interpreter frames, leaf first */
	struct process *process;           /* borrowed */
	/* Of the interpreter that names it: an exec may change the process's. NULL: nobody knows
	 * it, and its frames have no names. */
	const struct runtime_ops *ops;
	struct runtime *rt;
	bool has_thread_name; /* it was asked for */
	char thread_name[64]; /* that the program gave; "": none */
	/* the namer's own */
	bool is_copy;      /* sample, frames and this are owned by the queue */
	uint32_t nr_later; /* samples of its thread that have come since */
	size_t size;       /* of sample, in bytes */
	struct named_sample *next;
};

struct namer;

int namer_new(struct namer **out); /* 0 or -ENOMEM */
void namer_free(struct namer *n);
/*
 * Names a sample, and what waits for it. It is queued, or waits; if it is queued it is borrowed
 * from the caller until namer_keep(). The sample's counts must be right: record_is_whole().
 */
void namer_add(
        struct namer *n, struct process *process, const struct rprof_sample *sample, size_t size);
/* Nothing more will come: what waits is queued as it is. */
void namer_flush(struct namer *n);

/* The queue's first; NULL: it is empty. What follows it is ->next. */
struct named_sample *namer_first(const struct namer *n);
size_t namer_nr(const struct namer *n);
/* Takes the first one out of the queue. */
void namer_drop(struct namer *n);
/* Copies what is borrowed and stays in the queue. -ENOMEM: that sample is dropped. */
int namer_keep(struct namer *n);

/* The frame that stands for the collector in this sample, if it runs: "(GC marking)" or the like.
 */
struct frame named_gc(const struct named_sample *s);

#endif
