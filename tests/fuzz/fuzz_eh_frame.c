/*
 * .eh_frame: the table that is made of a section, against a search through the section itself; and
 * a walk by that table over memory that says anything.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/unwind_check.h"

#include "symbolizer/cfi.h"
#include "symbolizer/unwind.h"

enum { MAX_PROBES = 24, MAX_ENTRIES = 512, MAX_FRAMES = 128 };

struct probe {
	uint64_t vaddr, start;
	const struct unwind_rule *got;
	struct unwind_rule now; /* the rule that a run has in force up to its next row */
	bool passed, seen, same;
};

static int take_row(void *arg, uint32_t off, const struct unwind_rule *rule)
{
	struct probe *p = arg;

	if (p->start + off <= p->vaddr)
		p->now = *rule;
	return 0;
}

/* Does an FDE of the section that holds the address have this rule there? */
static void probe_entry(const struct eh_frame *eh, const struct eh_entry *fde, struct probe *p)
{
	struct eh_entry entry;
	struct cfi_state initial;
	struct eh_cie cie;
	struct eh_fde range;
	size_t off = fde->cie_off;

	if (fde->cie_off == SIZE_MAX || !eh_frame_next(eh, &off, &entry) || entry.kind != EH_CIE ||
	        !eh_parse_cie(eh, &entry, &cie) || cfi_init(eh, &cie, &initial) != 0 ||
	        !eh_parse_fde(eh, fde, &cie, &range) || p->vaddr < range.start ||
	        p->vaddr >= range.end)
		return;
	p->start = range.start;
	p->now = (struct unwind_rule){0};
	if (cfi_run(eh, &cie, &initial, &range, take_row, p) != 0)
		return;
	p->seen = true;
	p->same |= memcmp(&p->now, p->got, sizeof(p->now)) == 0;
}

static void probe(const struct eh_frame *eh, const struct unwind_table *t, uint64_t vaddr)
{
	static const struct unwind_rule none;
	struct probe p = {.vaddr = vaddr, .got = unwind_table_find(t, vaddr)};
	struct eh_entry entry;
	size_t off = 0;

	for (int i = 0; i < MAX_ENTRIES && eh_frame_next(eh, &off, &entry); i++)
		if (entry.kind == EH_FDE)
			probe_entry(eh, &entry, &p);
	if (off < eh->sz && eh_frame_next(eh, &off, &entry))
		return; /* not all was looked at */
	MUST(p.same || memcmp(p.got, &none, sizeof(none)) == 0);
	if (!p.seen)
		MUST(memcmp(p.got, &none, sizeof(none)) == 0);
}

struct memory {
	const struct unwind_table *table;
	struct feed feed;
};

static int read_word(void *ctx, uint64_t addr, uint64_t *value)
{
	struct memory *m = ctx;

	if (m->feed.n == 0)
		return -1;
	*value = feed_u64(&m->feed);
	return 0;
}

static bool find_table(void *ctx, uint64_t pc, enum mapping_kind *kind,
        const struct unwind_table **table, uint64_t *bias)
{
	struct memory *m = ctx;

	*kind = pc % 16 == 15 ? MAPPING_JIT : pc % 16 == 14 ? MAPPING_NO_TABLE : MAPPING_TABLE;
	*table = m->table;
	*bias = 0;
	return pc != 0;
}

static void walk(const struct unwind_table *t, uint64_t pc, struct feed f)
{
	struct memory m = {.table = t, .feed = f};
	struct unwind_source source = {&m, read_word, find_table};
	struct unwind_regs regs = {.pc = pc, .sp = feed_u64(&m.feed), .fp = feed_u64(&m.feed)};
	struct native_frame *frames = calloc(MAX_FRAMES, sizeof(*frames));
	struct unwind_walk w;

	unwind_walk(&source, &regs, frames, MAX_FRAMES, &w);
	MUST(w.nr >= 1 && w.nr <= MAX_FRAMES && w.outcome != WALK_NONE);
	/* Upwards, but for what a signal interrupted. */
	for (size_t i = 1; i < w.nr; i++)
		MUST(frames[i].sp & NATIVE_SP_INTERRUPTED ||
		        frames[i].sp > (frames[i - 1].sp & ~NATIVE_SP_INTERRUPTED));
	free(frames);
}

/* The section's address, the text's bounds, then the section. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	uint64_t vaddr = feed_u64(&f), lo = feed_u64(&f), hi = feed_u64(&f);
	struct unwind_table t = {0};
	struct eh_frame eh;
	size_t n, step;
	uint8_t *section = feed_bytes(&f, f.n, &n);

	eh = (struct eh_frame){section, n, vaddr};
	/* More than a real one's text costs time and shows nothing new. */
	if (lo < hi && hi >> 28 == 0 &&
	        unwind_table_build(&t, section, n, vaddr, lo, hi, NULL) == 0) {
		unwind_table_check(&t, lo, hi);
		step = t.nr_fdes / MAX_PROBES + 1;
		for (size_t i = 0; i < t.nr_fdes; i += step) {
			probe(&eh, &t, t.fdes[i].start);
			probe(&eh, &t, t.fdes[i].start + (t.fdes[i].end - t.fdes[i].start) / 2);
			probe(&eh, &t, t.fdes[i].end - 1);
			probe(&eh, &t, t.fdes[i].end);
			walk(&t, t.fdes[i].start + 1, (struct feed){section, n});
		}
		unwind_table_release(&t);
	}
	free(section);
	return 0;
}
