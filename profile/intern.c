#include "profile/intern.h"
#include "base/array.h"
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void intern_init(struct intern *t)
{
	*t = (struct intern){0};
}

void intern_release(struct intern *t)
{
	free(t->bytes);
	free(t->ends);
	free(t->slots);
	*t = (struct intern){0};
}

const void *intern_key(const struct intern *t, uint32_t id, size_t *key_sz)
{
	if (key_sz != NULL)
		*key_sz = t->ends[id] - t->ends[id - 1];
	return t->bytes + t->ends[id - 1];
}

static int intern_grow_slots(struct intern *t)
{
	size_t nr_slots = t->nr_slots != 0 ? t->nr_slots * 2 : 64;
	struct intern_slot *slots = calloc(nr_slots, sizeof(*slots));

	if (slots == NULL)
		return -ENOMEM;
	for (uint32_t id = 1; id <= t->nr; id++) {
		size_t key_sz;
		const void *key = intern_key(t, id, &key_sz);
		uint64_t hash = hash_bytes(key, key_sz, 0);
		size_t i = hash & (nr_slots - 1);

		while (slots[i].id != 0)
			i = (i + 1) & (nr_slots - 1);
		slots[i] = (struct intern_slot){.hash = (uint32_t)(hash >> 32), .id = id};
	}
	free(t->slots);
	t->slots = slots;
	t->nr_slots = nr_slots;
	return 0;
}

/* Makes room for one more key; the table is unchanged as a set when this fails. */
static int intern_reserve(struct intern *t, size_t key_sz)
{
	int rc;

	/* One byte more: a key of none needs an address as well. */
	rc = ARRAY_RESERVE(t->bytes, t->bytes_cap, t->bytes_len + key_sz + 1, SIZE_MAX / 2);
	if (rc == 0)
		rc = ARRAY_RESERVE(t->ends, t->ends_cap, (size_t)t->nr + 2, UINT32_MAX);
	if (rc != 0)
		return rc;
	t->ends[0] = 0;
	if (((size_t)t->nr + 1) * 4 > t->nr_slots * 3)
		return intern_grow_slots(t);
	return 0;
}

int intern_put(struct intern *t, const void *key, size_t key_sz, uint32_t *id, int *is_new)
{
	uint64_t hash = hash_bytes(key, key_sz, 0);
	uint32_t high = (uint32_t)(hash >> 32);
	size_t i;
	int rc;

	if (t->nr_slots != 0) {
		for (i = hash & (t->nr_slots - 1); t->slots[i].id != 0;
		        i = (i + 1) & (t->nr_slots - 1)) {
			size_t sz;
			const void *there;

			if (t->slots[i].hash != high)
				continue;
			there = intern_key(t, t->slots[i].id, &sz);
			if (sz != key_sz || (sz != 0 && memcmp(there, key, sz) != 0))
				continue;
			*id = t->slots[i].id;
			if (is_new != NULL)
				*is_new = 0;
			return 0;
		}
	}
	rc = intern_reserve(t, key_sz);
	if (rc != 0)
		return rc;
	for (i = hash & (t->nr_slots - 1); t->slots[i].id != 0;)
		i = (i + 1) & (t->nr_slots - 1);
	if (key_sz != 0)
		memcpy(t->bytes + t->bytes_len, key, key_sz);
	t->bytes_len += key_sz;
	t->nr++;
	t->ends[t->nr] = t->bytes_len;
	t->slots[i] = (struct intern_slot){.hash = high, .id = t->nr};
	*id = t->nr;
	if (is_new != NULL)
		*is_new = 1;
	return 0;
}
