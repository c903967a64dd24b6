#include "symbolizer/gc_place.h"

/* No function that enters the collector is seen: another thread collects, or its code is not known.
 */
static size_t place_of_none(const struct stitch_item *items, size_t first, size_t nr,
        const struct stitch_native *natives, bool native_root)
{
	/* What is seen of a cut stack is inside of it. */
	if (!native_root)
		return first;
	/* An extension's frames outside of the interpreter's own have called it, those inside are
	 * called by it. */
	for (size_t i = first; i < nr; i++)
		if (natives[items[i].index].runtime)
			return i;
	return nr;
}

/*
 * The collector is not entered twice (gc.c, gc_enter: "during_gc != 0" is a bug). So if functions
 * that enter it call each other directly, the innermost one did: the others had not yet, or had
 * left it (heap_prepare with gc_marks_continue inlined, which then calls gc_start). If other frames
 * stand between them it cannot be told: the outer one may have, and runs an extension's function
 * that asks for memory; or it has left the collector, and the inner one entered it again.
 */
bool gc_place(const struct stitch_item *items, size_t nr, const struct stitch_native *natives,
        bool native_root, size_t *at)
{
	size_t first = nr, entry = nr;
	bool certain = true;

	while (first > 0 && !items[first - 1].interp)
		first--;
	for (size_t i = first; i < nr; i++) {
		if (!natives[items[i].index].enters_gc)
			continue;
		if (entry == nr || i == entry + 1)
			entry = i;
		else
			certain = false;
	}
	if (entry == nr) {
		*at = place_of_none(items, first, nr, natives, native_root);
		return false;
	}
	*at = entry;
	return certain;
}
