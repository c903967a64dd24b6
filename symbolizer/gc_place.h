/*
 * Where the frame of the garbage collector stands in a stack. The collector has no frame of its own
 * in either list that is stitched: that it runs is known, and which function entered it is told by
 * the native frames. A pure function.
 */
#ifndef SYMBOLIZER_GC_PLACE_H
#define SYMBOLIZER_GC_PLACE_H

#include "symbolizer/stitch.h"

/*
 * *at: the item before which the collector's frame goes (nr: behind the last). That is directly
 * outside of the native frame that entered the collector: outside of it stands who asked for
 * memory, inside of it all is the collector's. native_root: the native walk was not cut. False: the
 * place is not certain.
 */
bool gc_place(const struct stitch_item *items, size_t nr, const struct stitch_native *natives,
        bool native_root, size_t *at);

#endif
