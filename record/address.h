/*
 * What a native address is: the frames that stand at it, and what it is to the stitcher. Each
 * address of a sample is looked up once, and what was found is remembered until the process's
 * mappings or its interpreter change.
 */
#ifndef RECORD_ADDRESS_H
#define RECORD_ADDRESS_H

#include "base/hash.h"
#include "symbolizer/frame.h"
#include "symbolizer/stitch.h"

struct kallsyms;
struct process;
struct runtime;

enum { MAX_INLINED = 16 };

struct address_frame {
	struct frame frame; /* strings belong to the file or live as long as the address */
	uint32_t id;        /* room for whoever stores the frame; 0 at first */
};

struct address {
	struct stitch_native stitch;   /* without pc */
	bool known;                    /* it lies in executable memory that is known */
	uint32_t nr_frames;            /* 1 to MAX_INLINED */
	struct address_frame frames[]; /* innermost (inlined) first */
};

/* The addresses of one process, or those of the kernel. */
struct addresses {
	struct process *process;   /* borrowed; NULL: the kernel's */
	struct kallsyms *kallsyms; /* borrowed; may be NULL */
	uint32_t generation;       /* of the process, for which all this holds */
	struct hash64 by_key;      /* pc << 1 | interrupted -> struct address *, owned */
	struct stitch_sites sites; /* of the interpreter that the process runs */
	const struct runtime *rt;  /* which that is; borrowed */
};

void addresses_init(struct addresses *a, struct process *process);
/* Without kallsyms the frames are named by their addresses. */
void addresses_init_kernel(struct addresses *a, struct kallsyms *kallsyms);
void addresses_release(struct addresses *a);

/*
 * What the frames of a record are (record_native(), with their marks; record_kernel()), leaf first.
 * out has room for nr; all is valid until the next call. An address that nobody knows has a frame
 * whose name says so. 0 or -ENOMEM.
 */
int addresses_find(struct addresses *a, const uint64_t *frames, size_t nr, struct address **out);

#endif
