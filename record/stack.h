/*
 * From a named sample to the stack that is stored: which frames it has, in which order, and how far
 * it can be trusted. Pure: it reads no process, writes no recording, and is tested on samples that
 * are made up.
 */
#ifndef RECORD_STACK_H
#define RECORD_STACK_H

#include "bpf/abi.h"
#include "profile/recording.h"
#include "record/address.h"
#include "runtimes/runtime.h"
#include <stdbool.h>

/* What is known of one interpreter frame of a sample. */
struct named_frame {
	struct interp_info info; /* of a hidden frame: nothing but flags */
	uint8_t class;           /* enum interp_class */
	bool ends_run;           /* struct interp_desc */
};

/* A sample of which all is known that can be. */
struct stack_input {
	const struct rprof_sample *sample; /* with all frames: kept_walks_expand() */
	/* One for each frame of the sample, leaf first. What one interpreter frame says of another
	 * is written to it: make one stack of them. */
	struct named_frame *interps;
	struct address *const *natives;
	struct address *const *kernel;
	struct frame gc;            /* of the collector, if it runs */
	struct stitch_sites *sites; /* of the process; may be added to */
};

struct stack_frame {
	const struct frame *frame; /* borrowed from what the stack was made of */
	uint32_t *id;              /* address_frame.id; NULL: there is no such room */
};

struct stack {
	struct stack_frame *frames; /* root first; owned */
	size_t nr_frames;
	uint8_t outcome;         /* enum stack_outcome */
	uint8_t reason;          /* enum stack_reason */
	const char *cut_library; /* the file whose code a native walk that was cut ended in; NULL:
	                            it was not, or there is none */
	/* room for one sample, owned */
	struct stitch_native *natives;
	struct stitch_interp *interps;
	struct stitch_item *items;
	struct frame gc;
};

/* Room for the largest sample. 0 or -ENOMEM. */
int stack_init(struct stack *st);
void stack_release(struct stack *st);
/* Fills frames, outcome, reason and cut_library; valid until the next call. */
void stack_make(struct stack *st, const struct stack_input *in);
/* Only teaches in->sites, for stacks that are made afterwards. */
void stack_learn(struct stack *st, const struct stack_input *in);

#endif
