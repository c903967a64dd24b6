/*
 * One code for the program, one sentence for the person.
 *
 * A function that can fail returns 0 or a negative errno and, through a
 * `struct err *` that the caller owns (NULL is allowed), one sentence that names
 * the subject, the reason and, where there is one, the remedy. Only cli/ prints it.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/base.h"

enum { ERR_MSG_SZ = 640 };

struct err {
	int code; /* the negative errno that was returned with the sentence */
	char msg[ERR_MSG_SZ];
};

/* Stores code and sentence and returns code, so that a caller can write
 * `return err_set(err, -ENOENT, "...")`. A later call replaces the earlier sentence. */
int err_set(struct err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Puts "prefix: " before the sentence that is there. Returns err->code (0 when err is NULL). */
int err_prefix(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
