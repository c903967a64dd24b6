/*
 * Native and interpreter frames in any number and order. Whatever they are: each frame is in the
 * stack at most once, each list keeps its order, nothing that is shown is lost unless the result
 * says so, and the lists that pair keep each activation's frames with its run.
 */
#include "tests/fuzz/fuzz.h"

#include "symbolizer/gc_place.h"
#include "symbolizer/stitch.h"

enum { MAX_NATIVES = 96, MAX_INTERPS = 96 };

struct stacks {
	struct stitch_native *natives;
	struct stitch_interp *interps;
	struct stitch_input in;
};

/* Few addresses: frames must meet. */
static void natives_read(struct stacks *s, struct feed *f, size_t nr)
{
	s->natives = calloc(nr, sizeof(*s->natives));
	for (size_t i = 0; i < nr; i++) {
		uint8_t a = feed_u8(f), b = feed_u8(f);

		s->natives[i] = (struct stitch_native){
		        .pc = a & 15,
		        .func_addr = a >> 4,
		        .role = b & 3,
		        .runtime = b & 4,
		        .enters_gc = b & 8,
		};
	}
}

static void interps_read(struct stacks *s, struct feed *f, size_t nr)
{
	s->interps = calloc(nr, sizeof(*s->interps));
	for (size_t i = 0; i < nr; i++) {
		uint8_t a = feed_u8(f);

		s->interps[i] = (struct stitch_interp){
		        .func_addr = a >> 4,
		        .class = (a & 3) % 3,
		        .ends_run = a & 4,
		};
	}
}

static void sites_read(struct stitch_sites *sites, struct feed *f, uint8_t nr)
{
	*sites = (struct stitch_sites){.nr = nr % (STITCH_MAX_SITES + 1), .complete = nr & 0x80};
	for (size_t i = 0; i < sites->nr; i++) {
		uint8_t a = feed_u8(f);

		sites->addr[i] = a & 15;
		sites->func_addr[i] = a >> 4;
	}
}

static void check(const struct stitch_input *in, enum stitch_result result,
        const struct stitch_item *items, size_t nr)
{
	size_t native = in->nr_natives, interp = in->nr_interps, shown = 0, nr_natives = 0;
	bool unpaired = result == STITCH_OFF_STACK || result == STITCH_MISPAIRED;
	size_t at;

	MUST(nr <= in->nr_natives + in->nr_interps);
	for (size_t i = 0; i < nr; i++) {
		size_t *next = items[i].interp ? &interp : &native;

		/* Root first, so both lists are walked from their ends; that also says once. */
		MUST(items[i].index < *next);
		*next = items[i].index;
		nr_natives += !items[i].interp;
		MUST(!items[i].interp || in->interps[items[i].index].class != STITCH_HIDDEN);
	}
	for (size_t i = 0; i < in->nr_interps; i++)
		shown += in->interps[i].class != STITCH_HIDDEN;
	MUST(nr - nr_natives == shown);
	MUST(nr_natives == (unpaired ? MIN(in->nr_natives, (size_t)1) : in->nr_natives));
	MUST((in->native_root && in->interp_root) || result == STITCH_PARTIAL ||
	        result == STITCH_OFF_STACK);
	gc_place(items, nr, in->natives, in->native_root, &at);
	MUST(at <= nr);
}

/* stitch.h: the n-th activation from the root owns the n-th run from the root. */
static void check_pairs(const struct stitch_input *in, const struct stitch_item *items, size_t nr)
{
	size_t entries = 0, runs = 0;

	for (size_t i = 0; i < nr; i++) {
		const struct stitch_interp *f = &in->interps[items[i].index];

		if (!items[i].interp) {
			entries += in->natives[items[i].index].role == STITCH_ENTRY;
			continue;
		}
		/* Or pushed from C, before its mark is set. */
		runs += f->ends_run ||
		        (f->class == STITCH_CODE && items[i].index + 1 < in->nr_interps &&
		                f[1].class != STITCH_CODE);
		MUST(f->class != STITCH_CODE || runs == entries);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	struct stitch_item *items;
	struct stitch_sites sites;
	struct stacks s = {0};
	enum stitch_result result;
	uint8_t flags = feed_u8(&f), nr_sites = feed_u8(&f);
	size_t nr_natives = feed_u8(&f) % MAX_NATIVES, nr_interps = feed_u8(&f) % MAX_INTERPS, nr;
	bool hidden_end = false;

	sites_read(&sites, &f, nr_sites);
	natives_read(&s, &f, nr_natives);
	interps_read(&s, &f, nr_interps);
	for (size_t i = 0; i < nr_interps; i++)
		hidden_end |= s.interps[i].class != STITCH_CODE && s.interps[i].ends_run;
	s.in = (struct stitch_input){
	        .natives = s.natives,
	        .nr_natives = nr_natives,
	        .native_root = !(flags & 1),
	        .interps = s.interps,
	        .nr_interps = nr_interps,
	        .interp_root = !(flags & 2),
	        .off_stack = flags & 4,
	};
	items = calloc(nr_natives + nr_interps, sizeof(*items));
	for (int i = 0; i < 2; i++) {
		stitch_learn(&s.in, &sites);
		MUST(sites.nr <= STITCH_MAX_SITES);
		result = stitch(&s.in, &sites, items, &nr);
		MUST(sites.nr <= STITCH_MAX_SITES);
		check(&s.in, result, items, nr);
		if ((result == STITCH_EXACT || result == STITCH_UNPLACED) && !hidden_end)
			check_pairs(&s.in, items, nr);
	}
	free(items);
	free(s.natives);
	free(s.interps);
	return 0;
}
