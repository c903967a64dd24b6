/* The process that records of the ring are of in fuzz_pipeline.c, and what lies where in it. */
#ifndef TESTS_FUZZ_MADE_UP_H
#define TESTS_FUZZ_MADE_UP_H

enum {
	MADE_UP_PID = 0x7ffffff0, /* beyond what a kernel gives out: nothing is in /proc */
	MADE_UP_TAG = 1,
	MADE_UP_RELEASE = 0x030308, /* RUBY_VERSION() */
	/* A libruby is mapped here. That this is its entry, and that its loop, is made up, too. */
	MADE_UP_BASE = 0x10000000,
	MADE_UP_ENTRY = MADE_UP_BASE + 0x100000,
	MADE_UP_LOOP = MADE_UP_BASE + 0x101000,
	MADE_UP_SITE = MADE_UP_BASE + 0x102000,
	MADE_UP_GC = MADE_UP_BASE + 0x103000,
	MADE_UP_FUNC_SZ = 0x1000,
	MADE_UP_FILE = 0x401100, /* code of a file that is not there */
	MADE_UP_JIT = 0x500100,
	MADE_UP_ISEQ = 0x100000, /* objects */
	MADE_UP_BODY = 0x100100,
	MADE_UP_STRING = 0x100300,
	MADE_UP_METHOD = 0x100400,
	MADE_UP_CODE = 0x100500,
	MADE_UP_CONTEXT = 0x100600,
};

#endif
