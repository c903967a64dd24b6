/*
 * A target of which some memory is known already: pieces that were copied from the process at one
 * moment, laid over what is read from it now. What a piece holds is read from it, all else from the
 * target below.
 */
#ifndef SYMBOLIZER_OVERLAY_H
#define SYMBOLIZER_OVERLAY_H

#include "bpf/abi.h"
#include "symbolizer/target.h"

enum { OVERLAY_MAX_PIECES = 64 };

struct overlay {
	const struct target *below; /* borrowed; NULL: nothing is read below */
	struct {
		uint64_t addr, size;
		const uint8_t *bytes; /* borrowed from what overlay_init() was given */
	} v[OVERLAY_MAX_PIECES];
	size_t nr;
	unsigned int nr_below; /* reads that no piece held, in part or whole */
	struct target target;  /* to be given to readers */
};

/*
 * pieces: struct capture_piece, each followed by its bytes, n bytes in all; they come from a ring
 * that the kernel side fills, but are checked all the same. Both must live as long as *o, which
 * must not be moved. -EINVAL: they make no sense.
 */
int overlay_init(struct overlay *o, const struct target *below, const void *pieces, size_t n);

#endif
