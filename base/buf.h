/*
 * A growing byte buffer with a mandatory cap: what comes from a target process or a
 * file decides how much we would allocate, never how much we do allocate.
 *
 * data is always NUL-terminated behind len once anything was appended, so a buffer of
 * text can be handed to printf. A failed append leaves the content as it was and sets
 * `failed`, which stays set: a formatter may append without testing each call and ask once.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/base.h"
#include <stdbool.h>

struct buf {
	char *data; /* owned; NULL until the first append */
	size_t len; /* bytes in use, without the NUL */
	size_t cap; /* bytes allocated */
	size_t max; /* len never exceeds this */
	bool failed;
};

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b);
/* Empties the buffer, keeps the memory, clears failed. */
void buf_reset(struct buf *b);
/* 0, -ENOMEM or -E2BIG (over max). */
int buf_append(struct buf *b, const void *data, size_t n);
int buf_puts(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Appends s as a JSON string with its quotes. Bytes that are no UTF-8 become U+FFFD. s may be NULL:
 * then `null` is appended. */
int buf_json_str(struct buf *b, const char *s);
/* Reads a whole file (also one of /proc, whose size is 0) up to b->max. 0 or -errno. */
int buf_read_file(struct buf *b, const char *path);

#endif
