/*
 * Makes one allocation of this program fail: what its libraries ask for counts too. For one source
 * file of a test program, which then calls its own malloc(), calloc(), realloc() and
 * reallocarray(); under a sanitizer these go on to the sanitizer's.
 *
 *	for (size_t nth = 1;; nth++) {
 *		alloc_fail(nth);
 *		... what is tested ...
 *		if (!alloc_failed())
 *			break;
 *	}
 */
#ifndef TESTS_UNIT_FAILING_ALLOC_H
#define TESTS_UNIT_FAILING_ALLOC_H

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

static size_t alloc_countdown; /* until the one that fails; 0: none does */
static bool alloc_has_failed;

/* From now on the nth allocation fails, counted from 1, and no other; 0: none does. */
static inline void alloc_fail(size_t nth)
{
	alloc_countdown = nth;
	alloc_has_failed = false;
}

/* Has it been asked for? No other fails after this call. */
static inline bool alloc_failed(void)
{
	alloc_countdown = 0;
	return alloc_has_failed;
}

static inline bool alloc_fails_now(void)
{
	if (alloc_countdown == 0 || --alloc_countdown != 0)
		return false;
	alloc_has_failed = true;
	errno = ENOMEM;
	return true;
}

static inline void *alloc_next(const char *name)
{
	void *fn = dlsym(RTLD_NEXT, name);

	if (fn == NULL)
		abort();
	return fn;
}

void *malloc(size_t n)
{
	static void *(*next)(size_t);

	if (next == NULL)
		next = (void *(*)(size_t))alloc_next("malloc");
	return alloc_fails_now() ? NULL : next(n);
}

void *calloc(size_t nr, size_t n)
{
	static void *(*next)(size_t, size_t);

	if (next == NULL)
		next = (void *(*)(size_t, size_t))alloc_next("calloc");
	return alloc_fails_now() ? NULL : next(nr, n);
}

void *realloc(void *p, size_t n)
{
	static void *(*next)(void *, size_t);

	if (next == NULL)
		next = (void *(*)(void *, size_t))alloc_next("realloc");
	return alloc_fails_now() ? NULL : next(p, n);
}

void *reallocarray(void *p, size_t nr, size_t n)
{
	size_t bytes;

	if (__builtin_mul_overflow(nr, n, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, bytes);
}

#endif
