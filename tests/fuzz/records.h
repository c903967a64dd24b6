/*
 * Records of the ring from an input: each is a size, how many bytes of a record follow, and these.
 * So an input is a run of records as the ring has them, and a mutation of a count or a size stays
 * one.
 */
#ifndef TESTS_FUZZ_RECORDS_H
#define TESTS_FUZZ_RECORDS_H

#include "tests/fuzz/fuzz.h"

#include "bpf/abi.h"

enum { RECORD_SZ_MAX = 1 << 15 };

/* Memory of exactly the record's size, 0 where the input has ended. To be freed. */
static inline struct rprof_sample *record_read(struct feed *f, size_t *size)
{
	uint16_t sz = feed_u16(f) % RECORD_SZ_MAX, given = feed_u16(f) % RECORD_SZ_MAX;
	size_t head = sizeof(struct rprof_record), got;
	uint8_t *bytes = feed_bytes(f, MIN(given, sz), &got);
	char *record = calloc(1, MAX((size_t)sz, head));

	memcpy(record, bytes, got);
	free(bytes);
	*size = MAX((size_t)sz, head);
	return (struct rprof_sample *)record;
}

#endif
