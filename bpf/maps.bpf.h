/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The maps, and the scratch memory that one walk works in.
 *
 * All state of a walk lives in a map value, not on the BPF stack: the verifier follows scalars on
 * the stack one by one, and a walk of thousands of steps would never end for it.
 */
#ifndef BPF_MAPS_BPF_H
#define BPF_MAPS_BPF_H

/* Tests compile all of this for user space too: there tests/unit/bpf_user.h stands in for these. */
#ifdef __bpf__
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#define CORE        __attribute__((preserve_access_index))
#define LOADED_WITH const volatile
#endif
#include "bpf/vmlinux_min.h"
#include <stdbool.h>
#include "bpf/abi.h"

struct scratch;
static __always_inline int stack_read(struct scratch *s, __u64 addr, __u64 *out);

#define UNWIND_READ(ctx, addr, value) stack_read((struct scratch *)(ctx), (addr), (value))
#include "bpf/unwind_step.h"

/*
 * A part that the verifier goes through once, not once for each way to its calls: a function that
 * is not static, whose arguments are numbers and the scratch memory.
 */
#ifdef __bpf__
#define SUBPROGRAM __attribute__((noinline))
#else
#define SUBPROGRAM static __attribute__((noinline, unused))
#endif

/* Filled in by user space between open and load. */
LOADED_WITH __u64 rp_pidns_ino; /* of rprof: processes are named as it names them */

/* How many walks are kept, less one: a power of two less one. A walk's slot is tid & this. */
LOADED_WITH __u32 rp_kept_mask;

/* Set by user space at any time: from then on (CLOCK_MONOTONIC) nothing is sampled, whether user
 * space gets a processor then or not. 0: no end. */
volatile __u64 rp_end_ns;

#ifdef RPROF_CHECK
/* Which check of the fast walk is left out, to see that the comparison sees it. */
enum { CHECKED_OBJECTS = 32 }; /* known ones that are captured all the same in one run */
enum planted {
	PLANTED_RETURN_ADDRESS = 1,
	PLANTED_FRAME_POINTER = 2,
	PLANTED_INTERP_FRAME = 3,
	PLANTED_STAMPS = 4,    /* what was sent is good for ever */
	PLANTED_FULL = 5,      /* full collections free nothing old */
	PLANTED_COLLECTOR = 6, /* what the collector is doing now does not matter */
	PLANTED_NAMESPACE = 7, /* no process is found */
};
LOADED_WITH __u32 rp_planted;
#define IS_PLANTED(what) (rp_planted == (what))
#define IS_PLAIN(s)      ((s)->plain)
/* Objects that are taken for known are to be looked at all the same. */
#define IS_CHECKED(s) ((s)->cap.check_left != 0)
#else
#define IS_PLANTED(what) 0
#define IS_PLAIN(s)      0
#define IS_CHECKED(s)    0
#endif

/* Copy of a stretch of user memory: one read of 16 KiB costs what ten reads of a word do. */
enum { WINDOW_WORDS = 2048, WINDOW_SZ = WINDOW_WORDS * 8 };
struct user_window {
	__u64 base;
	__u64 size; /* bytes that are there, a multiple of 8 */
	__u64 word[WINDOW_WORDS];
};

/*
 * Rules by pc, so that a frame that was met before, or one beside it, costs one look-up in one
 * cache line: direct-mapped, per CPU. An entry holds for the addresses of its row in the table, in
 * one state of all mappings (the generation); user space counts a new one for each change.
 */
struct cached_rule {
	__u64 start;
	__u32 size;
	__u32 generation; /* 0: empty */
	struct unwind_rule rule;
};
enum { RULE_CACHE_SLOTS = 4096 };

/* A native frame of the last walk, with what its step to the next frame out read. */
struct kept_native {
	__u64 pc;
	__u64 sp;   /* while the frame runs; bit 0: pc was interrupted, not returned to */
	__u64 step; /* KEPT_STEP_* */
};
/*
 * A simple step: the CFA is the next frame's sp, a function of pc, sp and at most rbp; the return
 * address stands at ARCH_RA_OFF from the CFA, the saved rbp at a known distance below the CFA if at
 * all.
 */
#define KEPT_STEP_SIMPLE      1ULL
#define KEPT_STEP_USES_FP     2ULL                  /* the CFA was worked out from rbp */
#define KEPT_STEP_FP_SLOT(st) ((st) >> 16 & 0xffff) /* words below the CFA; 0: rbp is kept */
#define KEPT_STEP_FP_DIST(st) ((st) >> 32)          /* rbp - sp, with USES_FP */

/* An interpreter frame of the last walk. */
struct kept_interp {
	struct interp_frame frame;
	__u64 env_method; /* what stood in the environment; frame.method is what it leads to */
	__u32 code_stamp,
	        method_stamp; /* until when the objects are what was sent: capture.bpf.h */
};

/*
 * The last walk of a thread, as it was sent: outermost frame first, so that the part that stays is
 * in front. User space keeps the same.
 */
struct kept_walk {
	__u32 busy; /* a walk is at work here: nobody else may */
	__u32 seq;  /* of the record that was sent last */
	__u32 tgid, tid;
	__u32 generation; /* of the mappings of the native frames */
	__u32 nr_native, nr_interp;
	__u32 stamp; /* of young objects at the last walk; 0: the stamps have to be looked at */
	__u32 image, unused; /* what the interpreter frames are of: as in struct scratch */
	struct kept_native native[RPROF_MAX_KEPT_NATIVE];
	struct kept_interp interp[RPROF_MAX_KEPT_INTERP];
};

/*
 * What was captured, and until when it is good; two in a row are one set. The words are combined so
 * that a torn one fits no object: check = key ^ word.
 */
struct capture_slot {
	__u64 check;
	__u64 word; /* stamp << 32 | hash */
};
enum { CAPTURE_SLOTS_SHIFT = 16, CAPTURE_SLOTS = 1 << CAPTURE_SLOTS_SHIFT };
struct capture_slots {
	struct capture_slot slot[CAPTURE_SLOTS];
};

/* An object on its way into the ring. The pieces of one have room behind the last position. */
enum {
	CAPTURE_WORDS = 4096,
	CAPTURE_QUEUE_LEN = 16,
	CAPTURE_MAX_WANTED = 256,
	/* In one run so many objects are captured whatever it takes, more only until so long. */
	CAPTURE_LEAST = 64,
	CAPTURE_RUN_NS = 140 * 1000,
	CAPTURE_FILTER = 256,
};
enum { CAPTURE_RECORD_WORDS = 2 * CAPTURE_WORDS };

struct capture_state {
	__u64 reg[CAPTURE_REGS];
	__u64 hash;
	__u64 value; /* of a read that is not sent */
	__u32 pos;   /* words of rec in use */
	__u32 piece; /* word where the last piece's bytes begin */
	__u32 piece_sz;
	__u32 next; /* operation */
	__u32 ended, failed;
	__u32 life; /* enum capture_life */
	/* what the walk wants, and how far that is */
	__u32 run; /* number of this run of the program, 16 bits */
	__u32 nr_wanted, nr_looked;
	__u32 postponing;                    /* there are many: old ones come last */
	__u32 filter[CAPTURE_FILTER];        /* which of them a key with this hash is, perhaps */
	__u64 wanted[CAPTURE_MAX_WANTED];    /* keys */
	__u32 wanted_at[CAPTURE_MAX_WANTED]; /* whose it is: WANTED_* */
	__u64 key;                           /* of the one at work, with its parts */
	__u32 where, stamp, unsent;
	__u32 second;             /* the second time through them */
	__u32 young_unsent;       /* one is not captured that is not old */
	__u32 nr_queued, nr_done; /* of the parts that belong to its name */
#ifdef RPROF_CHECK
	__u32 check_bad, check_left;
#endif
	__u64 queued[CAPTURE_QUEUE_LEN]; /* key */
	union {
		struct rprof_capture head;
		__u64 word[CAPTURE_RECORD_WORDS];
	} rec;
};

_Static_assert(CAPTURE_WORDS + 3 + CAPTURE_MAX_READ / 8 <= CAPTURE_RECORD_WORDS,
        "a piece that begins at the last position fits");

enum { RECORD_WORDS = 32768, RECORD_HEADER_WORDS = sizeof(struct rprof_sample) / 8 };

_Static_assert(sizeof(struct rprof_sample) % 8 == 0, "frames follow the header word by word");
_Static_assert(RECORD_HEADER_WORDS + RPROF_MAX_KERNEL + RPROF_MAX_NATIVE + RPROF_MAX_INTERP * 4 <=
                       RECORD_WORDS,
        "the largest sample fits");

/* What is used in each walk stands together in front. */
struct scratch {
	__u32 pos;   /* words of rec in use */
	__u32 keep;  /* the kept walk is ours to change */
	__u64 value; /* of a read that went around a window */

	/* native walk */
	struct unwind_state u;
	__u64 step; /* of the frame that was left last: KEPT_STEP_* */
	__u64 leaf_sp;
	__u64 stack_end; /* where the kept walk's stack ends; 0: unknown */
	__u32 last_mapping;
	__u32 nr_native;
	__u32 native_outcome;
	__u32 kept_at;    /* number of kept frames that the walk has not passed yet */
	__u32 matching;   /* the frames from here on are the kept ones, so far */
	__u32 match_from; /* kept_at where that began */
	__u32 base_native;
	struct unwind_rule rule;

	/* interpreter walk */
	__u32 runtime; /* enum runtime_id: whose walk it is */
	char config[RPROF_CONFIG_SZ] __attribute__((aligned(8))); /* its struct NAME_proc */
	__u32 interp_outcome;
	__u32 nr_interp, nr_frames, base_interp, kept_interp;
	__u32 comparing;     /* from the root inwards, to see what is as it was kept */
	__u32 single_frames; /* the frames cannot be read in bulk */
	__u32 many_envs;     /* more environments were needed than the first few */
	__u32 interp_pos;
	__u64 frame_addr, frames_end;
	__u64 frames_sz; /* bytes of whole frames that fit into a window */
	__u64 interp_stack_lo, interp_stack_hi, env_end;
	/* what is good now; 0: nothing is */
	__u32 young_stamp, old_stamp;
	__u32 renew_stamp; /* old objects with this one are the same if they are old still */
	__u32 young_before,
	        old_before; /* before a collection that moves objects, which is at work */
	__u32 nr_captures;  /* in this run */
	__u32 capture_lost; /* one could not be sent */
	__u32 look_again;   /* one has no stamp */
	__u32 relook_at;    /* frames of the base that were not looked at again yet */
	__u32 plan, tag;
	__u32 image; /* of the tag and the exec: the next image may look the same to user space */
	__u64 gc_gen;
	union {
		struct interp_frame frame;
		__u64 frame_word[4];
	};
	__u64 env_method;             /* of frame */
	__u64 svar_addr, svar_method; /* what was in the place of a method, and what it led to */
	__u64 env[3];                 /* of an environment: method, outer, flags */
	__u64 context[INTERP_CONTEXT_SZ / 8]; /* the head of the execution context */

	union {
		struct rprof_sample head;
		__u64 word[RECORD_WORDS];
	} rec;
	struct kept_native new_native[RPROF_MAX_NATIVE]; /* as in rec */
	__u64 new_env_method[RPROF_MAX_INTERP];
	__u64 new_stamps[RPROF_MAX_KEPT_INTERP]; /* code << 32 | method, outermost frame first */
	struct capture_state cap;
	struct user_window stack, frames, envs;
	struct cached_rule rules[RULE_CACHE_SLOTS];
#ifdef RPROF_CHECK
	__u32 plain; /* the walk that is made now reads words one by one, without caches */
	__u32 check_nr, check_outcome, check_bad;
	__u64 check_sum;
#endif
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

enum { RING_SZ = 4 << 20 };
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_SZ);
} rp_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RPROF_NR_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} rp_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct syscall_set);
} rp_syscalls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct capture_slots);
} rp_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* one for each process; set before load */
	__type(key, __u32);
	__type(value, struct capture_plan);
} rp_plans SEC(".maps");

/* The last entry has no owner and stays empty: for walks that find theirs taken. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2); /* set before load */
	__type(key, __u32);
	__type(value, struct kept_walk);
} rp_kept SEC(".maps");

static __always_inline void count(__u32 counter)
{
	__u64 *v = bpf_map_lookup_elem(&rp_counters, &counter);

	if (v)
		(*v)++;
}

/* Bytes in the ring buffer for which user space is woken. */
enum { RING_WAKE_SZ = 1 << 19 };
/* With less room than this no walk is begun. */
enum { RING_SPARE_SZ = 1 << 14 };

__u64 rp_woken_at; /* how much had been put into the ring buffer then */

/* The buffer holds more than it should, and user space was not woken for that a moment ago: with
 * each record it would be for nothing. (A race between two CPUs costs one more.) */
static __always_inline bool ring_fills(void)
{
	__u64 end;

	if (bpf_ringbuf_query(&rp_ring, BPF_RB_AVAIL_DATA) < RING_WAKE_SZ)
		return false;
	end = bpf_ringbuf_query(&rp_ring, BPF_RB_PROD_POS);
	if (end - rp_woken_at < RING_WAKE_SZ / 4)
		return false;
	rp_woken_at = end;
	return true;
}

/* Has room for no more than a few records: they would only be lost. */
static __always_inline bool ring_is_full(void)
{
	return bpf_ringbuf_query(&rp_ring, BPF_RB_AVAIL_DATA) > RING_SZ - RING_SPARE_SZ;
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

/* Appends s->frame, an interpreter frame; the caller sees to it that they are RPROF_MAX_INTERP at
 * most. */
static __always_inline void interp_emit(struct scratch *s)
{
	record_word(s, s->frame_word[0]);
	record_word(s, s->frame_word[1]);
	record_word(s, s->frame_word[2]);
	record_word(s, s->frame_word[3]);
	s->nr_interp++;
}

/* Notes that an object of the frame was not captured; at: its number from the outermost one. */
static __always_inline void walk_unsent(struct scratch *s, __u32 at, __u32 bit)
{
	__u32 pos = s->interp_pos + (s->nr_frames - 1 - at) * 4 + 3;

	if (pos < RECORD_WORDS)
		s->rec.word[pos] |= (__u64)bit << 32;
}

/* A word around all windows. 0 or -1. */
static __always_inline int user_read(struct scratch *s, __u64 addr, __u64 *out)
{
	s->rec.head.reads++;
	return bpf_probe_read_user(out, sizeof(*out), (const void *)addr) ? -1 : 0;
}

/* Copies size bytes (at most a window's, a multiple of 8) from start. 0, or -1 and an empty window.
 */
static __always_inline int window_fill(
        struct scratch *s, struct user_window *w, __u64 start, __u64 size)
{
	if (size > WINDOW_SZ)
		size = WINDOW_SZ;
	s->rec.head.reads++;
	w->size = 0;
	if (bpf_probe_read_user(w->word, size, (const void *)start))
		return -1;
	w->base = start;
	w->size = size;
	return 0;
}

static __always_inline __u64 window_word(const struct user_window *w, __u64 off)
{
	return w->word[off >> 3 & (WINDOW_WORDS - 1)];
}

/* Where the page ends that addr is in. */
static __always_inline __u64 page_end(__u64 addr)
{
	return (addr | (RPROF_PAGE_SZ - 1)) + 1;
}

#endif
