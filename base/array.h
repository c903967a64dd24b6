/*
 * An array that grows. Its owner keeps three things, all zero for an empty array: the elements, to
 * be freed with free(), how many are in use, and how many there is room for.
 *
 *	struct x *v;
 *	size_t nr, cap;
 *	...
 *	rc = ARRAY_RESERVE(v, cap, nr + 1, NR_X_MAX);
 *	if (rc == 0)
 *		v[nr++] = x;
 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include "base/base.h"

/*
 * Makes room for nr elements in all; what is new holds anything. At least doubles, so that adding
 * one at a time is cheap. 0; -E2BIG: nr is above max; -ENOMEM. On failure the array is as it was.
 */
#define ARRAY_RESERVE(v, cap, nr, max) array_reserve(&(v), &(cap), (nr), (max), sizeof(*(v)))
int array_reserve(void *v_ptr, size_t *cap, size_t nr, size_t max, size_t elem_sz) MUST_CHECK;

#endif
