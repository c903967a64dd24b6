/*
 * What the fuzz targets share. A target is one libFuzzer program, tests/fuzz/fuzz_NAME.c: it takes
 * bytes that somebody else may have written, hands them to the reader of that kind, and holds what
 * comes of it against what the reader's header promises. Its seeds are made by tests/fuzz/seeds.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include "base/base.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise. One that is broken is a crash to libFuzzer, which keeps the input. */
#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #cond);         \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* The input, eaten from its front. Behind its end all is zero. */
struct feed {
	const uint8_t *p;
	size_t n;
};

static inline uint64_t feed_uint(struct feed *f, size_t bytes)
{
	uint64_t v = 0;
	size_t n = MIN(bytes, f->n);

	if (n > 0)
		memcpy(&v, f->p, n);
	f->p += n;
	f->n -= n;
	return v;
}

static inline uint8_t feed_u8(struct feed *f)
{
	return (uint8_t)feed_uint(f, 1);
}

static inline uint16_t feed_u16(struct feed *f)
{
	return (uint16_t)feed_uint(f, 2);
}

static inline uint32_t feed_u32(struct feed *f)
{
	return (uint32_t)feed_uint(f, 4);
}

static inline uint64_t feed_u64(struct feed *f)
{
	return feed_uint(f, 8);
}

/* Up to n bytes in memory of their own, so that a read behind them is seen. To be freed. */
static inline uint8_t *feed_bytes(struct feed *f, size_t n, size_t *got)
{
	uint8_t *copy;

	*got = MIN(n, f->n);
	copy = malloc(*got);
	if (*got > 0)
		memcpy(copy, f->p, *got);
	f->p += *got;
	f->n -= *got;
	return copy;
}

#endif
