/*
 * The walks that the kernel side keeps, one for each thread, as user space has them: a record tells
 * only what differs from the thread's last walk (bpf/abi.h, struct rprof_sample), and here it
 * becomes whole again.
 */
#ifndef RECORD_KEPT_WALK_H
#define RECORD_KEPT_WALK_H

#include "base/base.h"
#include "bpf/abi.h"
#include <stdbool.h>

struct kept_walks;

/* nr_slots: as many as the kernel side has. 0 or -ENOMEM. */
int kept_walks_new(size_t nr_slots, struct kept_walks **out);
void kept_walks_free(struct kept_walks *k);

/* True when what the header counts lies within size bytes. */
bool record_is_whole(const struct rprof_sample *record, size_t size);
static inline const uint64_t *record_kernel(const struct rprof_sample *s)
{
	return (const uint64_t *)(s + 1);
}
static inline const uint64_t *record_native(const struct rprof_sample *s)
{
	return record_kernel(s) + s->nr_kernel;
}
static inline const struct interp_frame *record_interp(const struct rprof_sample *s)
{
	return (const struct interp_frame *)(record_native(s) + s->nr_native);
}

/*
 * Takes the records of the ring buffer in their order, every one. *whole is the record with all
 * frames and without a base, *whole_sz its size in bytes; it is the record itself or memory that is
 * valid until the next call. -EINVAL: no record; -ENODATA: the walk that it builds on is not the
 * one we have; -ENOMEM.
 */
int kept_walks_expand(struct kept_walks *k, const struct rprof_sample *record, size_t size,
        const struct rprof_sample **whole, size_t *whole_sz);

#endif
