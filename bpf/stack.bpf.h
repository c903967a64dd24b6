/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Words of the thread's stack, through a window: what each step of a native walk reads by. */
#ifndef BPF_STACK_BPF_H
#define BPF_STACK_BPF_H

#include "bpf/maps.bpf.h"

enum {
	STACK_BELOW = 64,   /* copied below the word that is asked for: saved registers */
	STACK_FIRST = 1024, /* at least so much at once, where the stack's end is unknown */
};

/*
 * A word of the stack that is not in the window: moves the window up. Where the thread's stack ends
 * is known from the walk that was kept; a copy that goes over the end of the memory fails as a
 * whole, and then one page is tried.
 */
SUBPROGRAM int stack_miss(struct scratch *s, __u64 addr)
{
	__u64 page = addr & ~(__u64)(RPROF_PAGE_SZ - 1), start = addr - STACK_BELOW, end;

	if (!s)
		return -1;
	if (addr & 7)
		return user_read(s, addr, &s->value);
	if (start < page && start < (s->leaf_sp & ~(__u64)(RPROF_PAGE_SZ - 1)))
		start = page;
	end = page_end(addr);
	if (s->stack.size != 0)
		end = (start + WINDOW_SZ) & ~(__u64)(RPROF_PAGE_SZ - 1);
	else if (end - addr < STACK_FIRST)
		end += RPROF_PAGE_SZ;
	if (s->stack_end > addr && s->stack_end - addr < 1 << 23)
		end = s->stack_end;
	if (end - start > WINDOW_SZ)
		end = start + WINDOW_SZ;
	if (window_fill(s, &s->stack, start, end - start) != 0 &&
	        window_fill(s, &s->stack, page, RPROF_PAGE_SZ) != 0)
		return -1;
	s->value = window_word(&s->stack, addr - s->stack.base);
	return 0;
}

static __always_inline int stack_read(struct scratch *s, __u64 addr, __u64 *out)
{
	__u64 off = addr - s->stack.base;

	if (IS_PLAIN(s))
		return bpf_probe_read_user(out, sizeof(*out), (const void *)addr) ? -1 : 0;
	if (off < s->stack.size && (addr & 7) == 0) {
		*out = window_word(&s->stack, off);
		return 0;
	}
	if (stack_miss(s, addr))
		return -1;
	*out = s->value;
	return 0;
}

#endif
