/*
 * The memory of a Ruby process as an input has it, and what is asked of it. What was read of a real
 * one makes the seeds (seed_ruby.c).
 *
 * An input is a struct world_head; memory_sz bytes of pieces (struct capture_piece, as in
 * captures); and then questions, each a struct world_frame or a struct world_capture with its
 * pieces behind it.
 */
#ifndef TESTS_FUZZ_WORLD_H
#define TESTS_FUZZ_WORLD_H

#include "tests/fuzz/fuzz.h"

#include "bpf/abi.h"
#include "symbolizer/target.h"

#include <errno.h>

enum { WORLD_MAX_PIECES = 4096 };

struct world_head {
	uint64_t release; /* RUBY_VERSION(); a bit above: it has a JIT */
	uint64_t base;    /* where libruby's first segment is mapped */
	uint64_t ids_addr, classpath_id, attached_id, objspace_addr, context;
	uint64_t memory_sz;
};

enum world_kind { WORLD_FRAME, WORLD_CAPTURE, NR_WORLD_KINDS };

struct world_frame {
	uint8_t kind, leaf;
	uint16_t unused;
	uint32_t old_stamp;
	uint64_t time_ns, gc_gen;
	struct interp_frame frame;
};

struct world_capture {
	uint8_t kind, object_kind;
	uint16_t size; /* of the pieces */
	uint32_t flags, old_stamp, unused;
	uint64_t object, time_ns, gc_gen;
};

struct world {
	struct world_head head;
	struct {
		uint64_t addr, size;
		const uint8_t *bytes;
	} v[WORLD_MAX_PIECES];
	size_t nr;
	struct feed all;
	struct target target;
	struct feed questions;
};

/* A part of the address space is full of the input, over and over: there an object may have any
 * length. */
static inline int read_endless(struct feed all, uint64_t addr, uint8_t *out, size_t n)
{
	if (addr >> 44 != 4 || all.n == 0)
		return -EFAULT;
	while (n > 0) {
		size_t at = addr % all.n, len = MIN(n, all.n - at);

		memcpy(out, all.p + at, len);
		out += len;
		addr += len;
		n -= len;
	}
	return 0;
}

/* As the kernel: all or nothing. A piece stands for itself: what lies across two cannot be read. */
static int world_read(const struct target *t, uint64_t addr, void *out, size_t n)
{
	const struct world *w = t->ctx;

	for (size_t i = 0; i < w->nr; i++) {
		uint64_t off = addr - w->v[i].addr;

		if (off >= w->v[i].size || w->v[i].size - off < n)
			continue;
		memcpy(out, w->v[i].bytes + off, n);
		return 0;
	}
	return read_endless(w->all, addr, out, n);
}

/* w must not be moved, and the input must live as long. False: there is no head. */
static inline bool world_init(struct world *w, struct feed input)
{
	struct feed memory;
	struct capture_piece piece;

	w->nr = 0;
	w->all = input;
	if (input.n < sizeof(w->head))
		return false;
	memcpy(&w->head, input.p, sizeof(w->head));
	input.p += sizeof(w->head);
	input.n -= sizeof(w->head);
	memory = (struct feed){input.p, MIN(w->head.memory_sz, input.n)};
	w->questions = (struct feed){input.p + memory.n, input.n - memory.n};
	while (memory.n >= sizeof(piece) && w->nr < WORLD_MAX_PIECES) {
		size_t skip;

		memcpy(&piece, memory.p, sizeof(piece));
		memory.p += sizeof(piece);
		memory.n -= sizeof(piece);
		piece.size = MIN(piece.size, memory.n);
		w->v[w->nr].addr = piece.addr;
		w->v[w->nr].size = piece.size;
		w->v[w->nr++].bytes = memory.p;
		skip = MIN((piece.size + 7) & ~7ULL, memory.n);
		memory.p += skip;
		memory.n -= skip;
	}
	w->target = (struct target){.pidfd = -1, .read = world_read, .ctx = w};
	return true;
}

/* The question's fixed part, zero where the input has ended. */
static inline void world_ask(struct world *w, void *question, size_t size)
{
	size_t n = MIN(size, w->questions.n);

	memset(question, 0, size);
	if (n > 0)
		memcpy(question, w->questions.p, n);
	w->questions.p += n;
	w->questions.n -= n;
}

#endif
