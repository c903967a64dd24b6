/* Pieces of a capture, laid over memory that cannot be read: all that comes back is the pieces'. */
#include "tests/fuzz/fuzz.h"

#include "symbolizer/overlay.h"

/* The first piece that holds all of [addr, addr + n), by going over them again. */
static const uint8_t *find(const uint8_t *pieces, size_t size, uint64_t addr, size_t n)
{
	struct capture_piece piece;

	for (size_t nr = 0; size >= sizeof(piece) && nr < OVERLAY_MAX_PIECES; nr++) {
		memcpy(&piece, pieces, sizeof(piece));
		pieces += sizeof(piece);
		size -= sizeof(piece);
		MUST(piece.size <= size);
		if (addr - piece.addr < piece.size && piece.size - (addr - piece.addr) >= n)
			return pieces + (addr - piece.addr);
		pieces += (piece.size + 7) & ~7ULL;
		size -= (piece.size + 7) & ~7ULL;
	}
	return NULL;
}

static void read_at(
        const struct overlay *o, const uint8_t *pieces, size_t size, uint64_t addr, size_t n)
{
	const uint8_t *want = find(pieces, size, addr, n);
	uint8_t *got = malloc(n);
	int rc = target_read(&o->target, addr, got, n);

	MUST((rc == 0) == (want != NULL && addr + n >= addr));
	MUST(rc != 0 || memcmp(got, want, n) == 0);
	free(got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	uint64_t addr = feed_u64(&f);
	size_t n = feed_u16(&f) % 512 + 1U, sz;
	uint8_t *pieces = feed_bytes(&f, f.n, &sz);
	struct overlay o;

	if (overlay_init(&o, NULL, pieces, sz) == 0) {
		read_at(&o, pieces, sz, addr, n);
		for (size_t i = 0; i < o.nr; i++) {
			read_at(&o, pieces, sz, o.v[i].addr, MIN(o.v[i].size, 4096) + 1);
			read_at(&o, pieces, sz, o.v[i].addr, 1);
			read_at(&o, pieces, sz, o.v[i].addr + o.v[i].size - 8, 8);
			read_at(&o, pieces, sz, o.v[i].addr + addr % 512, n);
		}
	}
	free(pieces);
	return 0;
}
