/* Pieces that were copied, over a process's memory as it is now. */
#include "symbolizer/overlay.h"
#include "tests/unit/tap.h"

#include <errno.h>

static unsigned int nr_reads;

static int read_below(const struct target *t, uint64_t addr, void *out, size_t n)
{
	nr_reads++;
	memset(out, 'B', n);
	return addr >= 0x9000 ? -EFAULT : 0;
}

static const struct target below = {.pid = 1, .pidfd = -1, .read = read_below};

/* Two pieces: 12 bytes at 0x1000, 8 at 0x2000. */
static const struct {
	struct capture_piece first;
	char a[16];
	struct capture_piece second;
	char b[8];
} pieces = {{0x1000, 12}, "abcdefghijkl", {0x2000, 8}, "mnopqrst"};

TEST(what_a_piece_holds_is_read_from_it)
{
	struct overlay o;
	char out[16] = "";

	REQUIRE(overlay_init(&o, &below, &pieces, sizeof(pieces)) == 0);
	nr_reads = 0;
	CHECK_EQ(target_read(&o.target, 0x1000, out, 12), 0);
	CHECK(memcmp(out, "abcdefghijkl", 12) == 0);
	CHECK_EQ(target_read(&o.target, 0x1004, out, 8), 0);
	CHECK(memcmp(out, "efghijkl", 8) == 0);
	CHECK_EQ(target_read(&o.target, 0x2000, out, 8), 0);
	CHECK(memcmp(out, "mnopqrst", 8) == 0);
	CHECK_EQ(nr_reads, 0);
	CHECK_EQ(o.nr_below, 0);
}

TEST(what_no_piece_holds_whole_is_read_below_and_counted)
{
	struct overlay o;
	char out[16] = "";

	REQUIRE(overlay_init(&o, &below, &pieces, sizeof(pieces)) == 0);
	CHECK_EQ(target_read(&o.target, 0x1000, out, 13), 0);
	CHECK(memcmp(out, "BBBBBBBBBBBBB", 13) == 0);
	CHECK_EQ(target_read(&o.target, 0xfff, out, 2), 0);
	CHECK_EQ(target_read(&o.target, 0x2008, out, 1), 0);
	CHECK_EQ(o.nr_below, 3);
	CHECK_EQ(target_read(&o.target, 0x9000, out, 8), -EFAULT);
}

TEST(without_a_target_below_there_is_nothing_else)
{
	struct overlay o;
	char out[8];

	REQUIRE(overlay_init(&o, NULL, &pieces, sizeof(pieces)) == 0);
	CHECK_EQ(target_read(&o.target, 0x2000, out, 8), 0);
	CHECK_EQ(target_read(&o.target, 0x3000, out, 8), -EFAULT);
}

TEST(pieces_that_are_cut_or_too_long_are_refused)
{
	struct capture_piece huge = {0x1000, ~0ULL}, seven = {0x1000, 7};
	struct overlay o;

	for (size_t n = 1; n < sizeof(pieces); n++)
		if (n != sizeof(pieces.first) + sizeof(pieces.a))
			CHECK_EQ(overlay_init(&o, &below, &pieces, n), -EINVAL);
	CHECK_EQ(overlay_init(&o, &below, &huge, sizeof(huge)), -EINVAL);
	CHECK_EQ(overlay_init(&o, &below, &seven, sizeof(seven)), -EINVAL);
	CHECK_EQ(overlay_init(&o, &below, &pieces, 0), 0);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
