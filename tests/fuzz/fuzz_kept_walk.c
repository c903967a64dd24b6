/* Records of the ring that build on the walks before them: a run of them, of any counts, slots and
 * numbers. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/records.h"

#include "record/kept_walk.h"

enum { NR_SLOTS = 2, MAX_RECORDS = 64 };

static void check(
        const struct rprof_sample *record, const struct rprof_sample *whole, size_t whole_sz)
{
	MUST(record_is_whole(whole, whole_sz));
	MUST(whole->base_native == 0 && whole->base_interp == 0);
	MUST(whole->nr_kernel == record->nr_kernel);
	MUST(whole->nr_native == record->nr_native + record->base_native);
	MUST(whole->nr_interp == record->nr_interp + record->base_interp);
	MUST(memcmp(record_kernel(whole), record_kernel(record), record->nr_kernel * 8) == 0);
	/* The leaf side is the record's own. */
	MUST(memcmp(record_native(whole), record_native(record), record->nr_native * 8) == 0);
	MUST(memcmp(record_interp(whole), record_interp(record),
	             record->nr_interp * sizeof(struct interp_frame)) == 0);
	/* All of it is there to be read. */
	free(memcpy(malloc(whole_sz), whole, whole_sz));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	struct kept_walks *walks = NULL;
	const struct rprof_sample *whole;
	size_t whole_sz, sz;

	MUST(kept_walks_new(NR_SLOTS, &walks) == 0);
	for (int i = 0; i < MAX_RECORDS && f.n > 0; i++) {
		struct rprof_sample *record = record_read(&f, &sz);

		if (kept_walks_expand(walks, record, sz, &whole, &whole_sz) == 0)
			check(record, whole, whole_sz);
		free(record);
	}
	kept_walks_free(walks);
	return 0;
}
