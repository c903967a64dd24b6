#include "symbolizer/overlay.h"

#include "base/base.h"

#include <errno.h>
#include <string.h>

static int overlay_read(const struct target *t, uint64_t addr, void *out, size_t n)
{
	struct overlay *o = t->ctx;

	for (size_t i = 0; i < o->nr; i++) {
		uint64_t off = addr - o->v[i].addr;

		if (off >= o->v[i].size || o->v[i].size - off < n)
			continue;
		memcpy(out, o->v[i].bytes + off, n);
		return 0;
	}
	o->nr_below++;
	return o->below != NULL ? target_read(o->below, addr, out, n) : -EFAULT;
}

int overlay_init(struct overlay *o, const struct target *below, const void *pieces, size_t n)
{
	const uint8_t *at = pieces;

	*o = (struct overlay){.below = below};
	o->target = (struct target){
	        .pid = below != NULL ? below->pid : 0,
	        .pidfd = -1,
	        .read = overlay_read,
	        .ctx = o,
	};
	while (n > 0) {
		struct capture_piece piece;
		size_t padded;

		if (n < sizeof(piece))
			return -EINVAL;
		memcpy(&piece, at, sizeof(piece));
		at += sizeof(piece);
		n -= sizeof(piece);
		if (piece.size > n)
			return -EINVAL;
		padded = (piece.size + 7) & ~(size_t)7;
		if (padded > n)
			return -EINVAL;
		/* More than an object ever has: the rest is read below. */
		if (o->nr < OVERLAY_MAX_PIECES) {
			o->v[o->nr].addr = piece.addr;
			o->v[o->nr].size = piece.size;
			o->v[o->nr++].bytes = at;
		}
		at += padded;
		n -= padded;
	}
	return 0;
}
