/* The strings of a file, each kept once. */
#include "symbolizer/dso_internal.h"
#include "base/array.h"
#include <stdlib.h>
#include <string.h>

void string_pool_init(struct string_pool *pool)
{
	*pool = (struct string_pool){0};
	hash64_init(&pool->by_hash);
}

void string_pool_release(struct string_pool *pool)
{
	for (size_t i = 0; i < pool->nr; i++)
		free(pool->v[i]);
	free(pool->v);
	hash64_release(&pool->by_hash);
	*pool = (struct string_pool){0};
}

const char *string_pool_add(struct string_pool *pool, const char *s)
{
	uint64_t key = hash_bytes(s, strlen(s), 0);
	const uint64_t *found = hash64_find(&pool->by_hash, key);
	char *copy;

	if (found != NULL && strcmp(pool->v[*found], s) == 0)
		return pool->v[*found];
	if (ARRAY_RESERVE(pool->v, pool->cap, pool->nr + 1, UINT32_MAX) != 0)
		return NULL;
	copy = strdup(s);
	if (copy == NULL)
		return NULL;
	/* Without its entry in the hash a string is merely not found again. */
	(void)hash64_put(&pool->by_hash, key, pool->nr);
	pool->v[pool->nr++] = copy;
	return copy;
}
