/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the program, the kernel side and user space know of the toy. */
#ifndef TOY_ABI_H
#define TOY_ABI_H

#include "bpf/abi.h"

enum { TOY_MAX_DEPTH = 16 };

struct toy_code {
	char name[24];
	uint64_t line;
};

struct toy_stack { /* outermost first */
	uint64_t depth;
	uint64_t code[TOY_MAX_DEPTH]; /* addresses of struct toy_code */
};

struct toy_proc {
	uint64_t stack_addr;
};

#endif
