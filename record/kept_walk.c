#include "record/kept_walk.h"
#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A thread's last walk; its frames stand outermost first, so that what stays is in front. */
struct kept_walk {
	uint32_t tgid, tid, seq;
	size_t nr_native, cap_native;
	uint64_t *native;
	size_t nr_interp, cap_interp;
	struct interp_frame *interp;
};

struct kept_walks {
	size_t nr_slots;
	struct kept_walk *slots;
	struct rprof_sample *whole; /* of the largest size; made when first needed */
};

int kept_walks_new(size_t nr_slots, struct kept_walks **out)
{
	struct kept_walks *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return -ENOMEM;
	k->nr_slots = nr_slots;
	k->slots = calloc(nr_slots, sizeof(*k->slots));
	if (k->slots == NULL) {
		free(k);
		return -ENOMEM;
	}
	*out = k;
	return 0;
}

void kept_walks_free(struct kept_walks *k)
{
	if (k == NULL)
		return;
	for (size_t i = 0; i < k->nr_slots; i++) {
		free(k->slots[i].native);
		free(k->slots[i].interp);
	}
	free(k->slots);
	free(k->whole);
	free(k);
}

bool record_is_whole(const struct rprof_sample *record, size_t size)
{
	return size >= sizeof(*record) && record->nr_kernel <= RPROF_MAX_KERNEL &&
	       record->nr_native <= RPROF_MAX_NATIVE && record->nr_interp <= RPROF_MAX_INTERP &&
	       size >= sizeof(*record) + record->nr_kernel * sizeof(uint64_t) +
	                       record->nr_native * sizeof(uint64_t) +
	                       record->nr_interp * sizeof(struct interp_frame);
}

/* What the kernel side does with its copy when it has sent the record (native_keep, ruby_keep). */
static int keep(struct kept_walk *kept, const struct rprof_sample *s)
{
	const struct interp_frame *interp = record_interp(s);
	const uint64_t *native = record_native(s);
	size_t nr;

	if (s->native_outcome == WALK_ROOT) {
		nr = MIN(s->base_native + s->nr_native, (size_t)RPROF_MAX_KEPT_NATIVE);
		if (ARRAY_RESERVE(kept->native, kept->cap_native, nr, RPROF_MAX_KEPT_NATIVE) != 0)
			return -ENOMEM;
		for (size_t at = s->base_native; at < nr; at++)
			kept->native[at] = native[s->base_native + s->nr_native - 1 - at];
		kept->nr_native = nr;
	}
	if (s->interp_outcome == WALK_ROOT) {
		nr = MIN(s->base_interp + s->nr_interp, (size_t)RPROF_MAX_KEPT_INTERP);
		if (ARRAY_RESERVE(kept->interp, kept->cap_interp, nr, RPROF_MAX_KEPT_INTERP) != 0)
			return -ENOMEM;
		for (size_t at = s->base_interp; at < nr; at++)
			kept->interp[at] = interp[s->base_interp + s->nr_interp - 1 - at];
		kept->nr_interp = nr;
	}
	return 0;
}

/* The record with the frames of its base, in k->whole. */
static size_t complete(
        struct kept_walks *k, const struct kept_walk *kept, const struct rprof_sample *s)
{
	struct rprof_sample *whole = k->whole;
	struct interp_frame *interp;
	uint64_t *native;

	memcpy(whole, s, sizeof(*s) + s->nr_kernel * sizeof(uint64_t));
	native = (uint64_t *)record_native(whole);
	memcpy(native, record_native(s), s->nr_native * sizeof(*native));
	native += s->nr_native;
	for (size_t i = s->base_native; i-- > 0;)
		*native++ = kept->native[i];
	whole->nr_native += s->base_native;
	interp = (struct interp_frame *)record_interp(whole);
	memcpy(interp, record_interp(s), s->nr_interp * sizeof(*interp));
	interp += s->nr_interp;
	for (size_t i = s->base_interp; i-- > 0;)
		*interp++ = kept->interp[i];
	whole->nr_interp += s->base_interp;
	whole->base_native = 0;
	whole->base_interp = 0;
	return (size_t)((char *)interp - (char *)whole);
}

int kept_walks_expand(struct kept_walks *k, const struct rprof_sample *record, size_t size,
        const struct rprof_sample **whole, size_t *whole_sz)
{
	struct kept_walk *kept = NULL;
	int rc = 0;

	if (!record_is_whole(record, size))
		return -EINVAL;
	if (record->flags & SAMPLE_F_KEPT) {
		if (record->keep_slot >= k->nr_slots)
			return -EINVAL;
		kept = &k->slots[record->keep_slot];
	}
	if (record->base_native != 0 || record->base_interp != 0) {
		if (kept == NULL || kept->seq != record->keep_seq - 1 ||
		        kept->tgid != record->tgid || kept->tid != record->tid ||
		        record->base_native > kept->nr_native ||
		        record->base_interp > kept->nr_interp ||
		        record->base_native + record->nr_native > RPROF_MAX_NATIVE ||
		        record->base_interp + record->nr_interp > RPROF_MAX_INTERP)
			return -ENODATA;
		if (k->whole == NULL)
			k->whole = malloc(sizeof(*record) + RPROF_MAX_KERNEL * sizeof(uint64_t) +
			                  RPROF_MAX_NATIVE * sizeof(uint64_t) +
			                  RPROF_MAX_INTERP * sizeof(struct interp_frame));
		if (k->whole == NULL)
			return -ENOMEM;
		*whole_sz = complete(k, kept, record);
		*whole = k->whole;
	} else {
		*whole = record;
		*whole_sz = size;
	}
	if (kept == NULL)
		return 0;
	/* Behind a record that is missing, what a cut walk leaves alone is not what we have. */
	if (kept->seq != record->keep_seq - 1 || kept->tgid != record->tgid ||
	        kept->tid != record->tid) {
		kept->tgid = record->tgid;
		kept->tid = record->tid;
		kept->nr_native = 0;
		kept->nr_interp = 0;
	}
	rc = keep(kept, record);
	/* What cannot be kept is not built on: its number stays behind. */
	if (rc == 0)
		kept->seq = record->keep_seq;
	return 0;
}
