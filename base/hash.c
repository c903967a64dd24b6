#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014). */
uint64_t hash_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed)
{
	const unsigned char *p = data;
	uint64_t h = hash_mix(seed ^ n);

	while (n >= 8) {
		uint64_t w;

		memcpy(&w, p, 8);
		h = hash_mix(h ^ w);
		p += 8;
		n -= 8;
	}
	if (n != 0) {
		uint64_t w = 0;

		memcpy(&w, p, n);
		h = hash_mix(h ^ w);
	}
	return h;
}

void hash64_init(struct hash64 *h)
{
	*h = (struct hash64){0};
}

void hash64_release(struct hash64 *h)
{
	free(h->slots);
	*h = (struct hash64){0};
}

void hash64_clear(struct hash64 *h)
{
	if (h->slots != NULL)
		memset(h->slots, 0, h->nr_slots * sizeof(*h->slots));
	h->nr = 0;
}

static struct hash64_slot *slot_for(struct hash64_slot *slots, size_t nr_slots, uint64_t key)
{
	size_t i = hash_mix(key) & (nr_slots - 1);

	while (slots[i].used && slots[i].key != key)
		i = (i + 1) & (nr_slots - 1);
	return &slots[i];
}

uint64_t *hash64_find(const struct hash64 *h, uint64_t key)
{
	struct hash64_slot *s;

	if (h->nr_slots == 0)
		return NULL;
	s = slot_for(h->slots, h->nr_slots, key);
	return s->used ? &s->value : NULL;
}

static int hash64_grow(struct hash64 *h)
{
	size_t nr_slots = h->nr_slots != 0 ? h->nr_slots * 2 : 64;
	struct hash64_slot *slots = calloc(nr_slots, sizeof(*slots));
	size_t i;

	if (slots == NULL)
		return -ENOMEM;
	for (i = 0; i < h->nr_slots; i++)
		if (h->slots[i].used)
			*slot_for(slots, nr_slots, h->slots[i].key) = h->slots[i];
	free(h->slots);
	h->slots = slots;
	h->nr_slots = nr_slots;
	return 0;
}

int hash64_put(struct hash64 *h, uint64_t key, uint64_t value)
{
	struct hash64_slot *s;
	int rc;

	if (h->nr * 4 >= h->nr_slots * 3) {
		rc = hash64_grow(h);
		if (rc != 0)
			return rc;
	}
	s = slot_for(h->slots, h->nr_slots, key);
	if (!s->used)
		h->nr++;
	*s = (struct hash64_slot){.key = key, .value = value, .used = true};
	return 0;
}
