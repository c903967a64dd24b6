/* A program whose ELF files are seeds: inlined calls, a structure in another, calls of other
 * libraries. */
#include <stdio.h>
#include <stdlib.h>

struct outer {
	int first;
	union {
		long member;
		struct {
			char deep[3];
		} inner;
	};
};

static inline __attribute__((always_inline)) int innermost(struct outer *o)
{
	if (o->member > 3)
		o->first = rand();
	return (int)o->member;
}

static inline __attribute__((always_inline)) int middle(struct outer *o)
{
	int n = innermost(o);

	return n + puts("middle");
}

int caller(struct outer *o)
{
	char room[o->first];

	room[0] = (char)middle(o);
	return room[0] + innermost(o);
}

__attribute__((noinline, weak)) int other(struct outer *o)
{
	return caller(o) + caller(o + 1);
}

int main(int argc, char **argv)
{
	struct outer o = {.first = argc, .member = argc};

	return other(&o);
}
