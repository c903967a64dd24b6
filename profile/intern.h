/*
 * Keys of bytes to small numbers: the first key gets 1, the next new one 2, and so on. Keys are
 * compared whole, never by their hash alone: two stacks that share a hash must not become one.
 */
#ifndef PROFILE_INTERN_H
#define PROFILE_INTERN_H

#include "base/base.h"

struct intern_slot {
	uint32_t hash; /* the upper half: spares most comparisons */
	uint32_t id;   /* 0: free */
};

struct intern {
	char *bytes; /* owned: all keys, one behind the other */
	size_t bytes_len, bytes_cap;
	size_t *ends; /* owned: ends[id] is where key id ends and key id + 1 begins; ends[0] is 0 */
	size_t ends_cap;
	struct intern_slot *slots; /* owned; a power of two */
	size_t nr_slots;
	uint32_t nr; /* also the highest id */
};

void intern_init(struct intern *t);
void intern_release(struct intern *t);
/* The id of the key; *is_new (may be NULL) says whether it was not there before. 0, -ENOMEM, -E2BIG
 * (more ids than 32 bits). */
int intern_put(struct intern *t, const void *key, size_t key_sz, uint32_t *id, int *is_new);
/* The key of an id in [1, nr], borrowed until the next put; its size goes to *key_sz (may be NULL).
 */
const void *intern_key(const struct intern *t, uint32_t id, size_t *key_sz);

#endif
