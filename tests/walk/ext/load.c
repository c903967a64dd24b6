/*
 * A library whose frames are FRAME_SIZE bytes larger: built twice, the same code stands at the same
 * offsets in both files, and only the rules of unwinding differ.
 */
#define ALONE __attribute__((noinline, noclone, noipa))

static volatile int sink;

ALONE static int level(int (*callback)(int), int levels, int n)
{
	volatile char room[FRAME_SIZE];

	room[n & 7] = 1;
	n = levels > 0 ? level(callback, levels - 1, n) : callback(n);
	sink += room[n & 7];
	return n;
}

__attribute__((visibility("default"))) int through(int (*callback)(int), int levels, int n)
{
	return level(callback, levels, n) + 1;
}
