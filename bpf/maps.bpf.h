/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The maps, and the scratch memory that one walk works in.
 *
 * All state of a walk lives in a map value, not on the BPF stack: the verifier follows scalars on
 * the stack one by one, and a walk of thousands of steps would never end for it.
 */
#ifndef BPF_MAPS_BPF_H
#define BPF_MAPS_BPF_H

#include "bpf/vmlinux_min.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "bpf/abi.h"
#include "runtimes/ruby/ruby_abi.h"

/* Filled in by user space between open and load. */
const volatile __u64 rp_pidns_dev,
        rp_pidns_ino; /* of rprof: processes are named as it names them */

/*
 * Copy of one page of user memory. Pages, not windows around an address: a page is readable or it
 * is not, while a copy across the end of a stack would fail as a whole.
 */
struct user_page {
	__u64 base; /* 1: nothing here */
	__u64 word[RPROF_PAGE_SZ / 8];
};

/*
 * Rules by pc, so that a frame that was met before costs one look-up in one cache line:
 * direct-mapped, per CPU. An entry holds for one state of all mappings (the generation); user space
 * counts a new one for each change.
 */
struct cached_rule {
	__u64 pc;
	__u32 generation; /* 0: empty */
	__u32 unused;
	struct unwind_rule rule;
};
enum { RULE_CACHE_SLOTS = 4096 };

enum { RECORD_WORDS = 32768, RECORD_HEADER_WORDS = sizeof(struct rprof_sample) / 8 };

_Static_assert(sizeof(struct rprof_sample) % 8 == 0, "frames follow the header word by word");
_Static_assert(
        RECORD_HEADER_WORDS + RPROF_MAX_KERNEL + RPROF_MAX_NATIVE * 2 + RPROF_MAX_INTERP * 4 <=
                RECORD_WORDS,
        "the largest sample fits");

struct scratch {
	union {
		struct rprof_sample head;
		__u64 word[RECORD_WORDS];
	} rec;
	__u32 pos; /* words of rec in use */

	/* native walk */
	__u64 pc, sp, fp;
	__u32 interrupted; /* pc is where the thread was interrupted, not a return address */
	__u32 last_mapping;
	__u32 nr_native;
	__u32 native_outcome;
	struct user_page stack_page;

	/* interpreter walk */
	struct ruby_proc ruby;
	__u32 has_ruby;
	__u32 interp_outcome;
	__u32 nr_interp;
	__u64 frame_addr, frames_end;
	__u64 interp_stack_lo, interp_stack_hi;
	__u64 gc_gen;
	__u32 new_code;
	__u64 context[INTERP_CONTEXT_SZ / 8]; /* the head of the execution context */
	__u64 env[3];                         /* of an environment that is not on the VM stack */
	struct user_page frame_page, env_page;

	struct cached_rule rules[RULE_CACHE_SLOTS];
};

struct rows_chunk {
	__u32 row[UNWIND_CHUNK_ROWS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32); /* tgid */
	__type(value, struct rprof_proc);
} rp_procs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries,
	        2); /* two for each process: one valid, one being written; set before load */
	__type(key, __u32);
	__type(value, struct rprof_mappings);
} rp_mappings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32); /* tgid */
	__type(value, struct ruby_proc);
} rp_ruby SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct rows_chunk);
} rp_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct unwind_page);
} rp_pages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct unwind_rule);
} rp_rules SEC(".maps");

/* Two for each CPU: a clock tick may interrupt the walk at a system call. Set before load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct scratch);
} rp_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} rp_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RPROF_NR_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} rp_counters SEC(".maps");

/* Which system calls are wanted: a bit for each number. */
enum { RPROF_MAX_SYSCALL = 1024 };
struct syscall_set {
	__u64 bit[RPROF_MAX_SYSCALL / 64];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct syscall_set);
} rp_syscalls SEC(".maps");

/*
 * Code and method addresses that were sent, direct-mapped: a hint that says whether user space has
 * to look at once, so a race or a collision costs a wake-up or a delay of one drain, nothing else.
 */
enum { SEEN_SLOTS = 16384 };
struct seen_table {
	__u64 slot[SEEN_SLOTS];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct seen_table);
} rp_seen SEC(".maps");

static __always_inline void count(__u32 counter)
{
	__u64 *v = bpf_map_lookup_elem(&rp_counters, &counter);

	if (v)
		(*v)++;
}

/* Appends a word to the record; the limits of the walks keep pos below RECORD_WORDS. */
static __always_inline void record_word(struct scratch *s, __u64 v)
{
	__u32 pos = s->pos;

	if (pos < RECORD_WORDS) {
		s->rec.word[pos] = v;
		s->pos = pos + 1;
	}
}

/* One word of user memory, through a page that is copied when it is not there yet. 0 or -1. */
static __always_inline int page_read(
        struct scratch *s, struct user_page *page, __u64 addr, __u64 *out)
{
	__u64 base = addr & ~(__u64)(RPROF_PAGE_SZ - 1);

	if (addr & 7) {
		s->rec.head.reads++;
		return bpf_probe_read_user(out, sizeof(*out), (const void *)addr) ? -1 : 0;
	}
	if (page->base != base) {
		s->rec.head.reads++;
		if (bpf_probe_read_user(page->word, RPROF_PAGE_SZ, (const void *)base)) {
			page->base = 1;
			return -1;
		}
		page->base = base;
	}
	*out = page->word[(addr >> 3) & (RPROF_PAGE_SZ / 8 - 1)];
	return 0;
}

/*
 * The same for words that stand together: checks once, and says where in page->word they begin. -1:
 * they are not within one page, or not readable; page_read() tells which.
 */
static __always_inline int page_find(
        struct scratch *s, struct user_page *page, __u64 addr, __u32 nr_words, __u32 *at)
{
	__u64 base = addr & ~(__u64)(RPROF_PAGE_SZ - 1);

	if ((addr & 7) != 0 || (addr & (RPROF_PAGE_SZ - 1)) + nr_words * 8 > RPROF_PAGE_SZ)
		return -1;
	if (page->base != base) {
		s->rec.head.reads++;
		if (bpf_probe_read_user(page->word, RPROF_PAGE_SZ, (const void *)base)) {
			page->base = 1;
			return -1;
		}
		page->base = base;
	}
	*at = (addr >> 3) & (RPROF_PAGE_SZ / 8 - 1);
	return 0;
}

static __always_inline __u64 page_word(const struct user_page *page, __u32 at)
{
	return page->word[at & (RPROF_PAGE_SZ / 8 - 1)];
}

#endif
