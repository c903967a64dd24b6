/*
 * An open-addressing hash from 64-bit key to 64-bit value, and a hash of bytes.
 * Key 0 is a key like any other. Deleting single entries is not supported; clear is.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/base.h"
#include <stdbool.h>

struct hash64_slot {
	uint64_t key, value;
	bool used;
};

struct hash64 {
	struct hash64_slot *slots; /* owned */
	size_t nr, nr_slots;
};

void hash64_init(struct hash64 *h);
void hash64_release(struct hash64 *h);
void hash64_clear(struct hash64 *h);
/* A pointer to the value, valid until the next put; NULL when the key is not there. */
uint64_t *hash64_find(const struct hash64 *h, uint64_t key);
/* Inserts or replaces. 0 or -ENOMEM. */
int hash64_put(struct hash64 *h, uint64_t key, uint64_t value);

/* 64-bit hash of n bytes; seed lets a caller chain several pieces. Stable within one run only. */
uint64_t hash_bytes(const void *data, size_t n, uint64_t seed);
uint64_t hash_mix(uint64_t x);

#endif
