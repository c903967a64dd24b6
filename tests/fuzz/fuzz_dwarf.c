/* Debug information of any content, in a file that may be any, too: lines, inlined calls, members.
 */
#include "tests/fuzz/fuzz.h"

#include "symbolizer/dso.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MAX_FRAMES = 16, NR_PROBES = 64, MAX_INLINE = 64 };

static void check_at(struct dso *dso, uint64_t vaddr)
{
	struct frame frames[MAX_FRAMES], one;
	size_t nr = dso_resolve(dso, vaddr, frames, MAX_FRAMES);

	MUST(nr >= 1 && nr <= MAX_FRAMES);
	for (size_t i = 0; i < nr; i++) {
		MUST(frames[i].name != NULL && strlen(frames[i].name) < 1 << 20);
		MUST(frames[i].path == NULL || strlen(frames[i].path) < 1 << 20);
		MUST(frames[i].line <= INT32_MAX || frames[i].flags & FRAME_F_INLINED || i > 0);
		/* All but the last are inlined in the next; with too many the last is, too. */
		MUST(i + 1 == nr || frames[i].flags & FRAME_F_INLINED);
		MUST(i + 1 != nr || nr == MAX_FRAMES || !(frames[i].flags & FRAME_F_INLINED));
	}
	/* The same answer again, and for less room. */
	MUST(dso_resolve(dso, vaddr, &one, 1) == 1);
	MUST(one.line == frames[0].line && one.path == frames[0].path);
}

static void check(struct dso *dso, struct feed addrs)
{
	uint64_t vaddr, size;

	for (size_t i = 0; i < 4 && dso_text_segment(dso, i, &vaddr, &size); i++) {
		for (uint64_t k = 0; k < NR_PROBES; k++)
			check_at(dso, vaddr + (size < NR_PROBES * 4096 ? size * k / NR_PROBES : k));
	}
	for (size_t i = 0; i < 8 && addrs.n > 0; i++)
		check_at(dso, feed_u64(&addrs));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed addrs = {data + size - MIN(size, (size_t)64), MIN(size, 64)};
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct dso_cache *cache;
	struct dso *dso = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (write(fd, data, size) == (ssize_t)size && dso_cache_new(&cache) == 0) {
		if (dso_cache_get_path(cache, path, &dso, NULL) == 0)
			check(dso, addrs);
		dso_cache_free(cache);
	}
	close(fd);
	return 0;
}
