#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 16 };

int array_reserve(void *v_ptr, size_t *cap, size_t nr, size_t max, size_t elem_sz)
{
	size_t wanted = *cap <= max / 2 ? MAX(*cap * 2, (size_t)FIRST_CAP) : max;
	size_t v_sz;
	void *v;

	if (nr <= *cap)
		return 0;
	if (nr > max)
		return -E2BIG;
	wanted = MAX(MIN(wanted, max), nr);
	if (__builtin_mul_overflow(wanted, elem_sz, &v_sz) || v_sz > PTRDIFF_MAX)
		return -ENOMEM;
	/* v_ptr is a pointer to a pointer of some other type. */
	memcpy(&v, v_ptr, sizeof(v));
	v = realloc(v, v_sz);
	if (v == NULL)
		return -ENOMEM;
	memcpy(v_ptr, &v, sizeof(v));
	*cap = wanted;
	return 0;
}
