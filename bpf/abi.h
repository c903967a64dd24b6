/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the kernel side and user space both see: limits, the unwind tables in their maps,
 * and the record of one sample. Fixed-width types only; no include but the one for them.
 */
#ifndef BPF_ABI_H
#define BPF_ABI_H

#ifdef __bpf__
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef signed int int32_t;
typedef signed long long int64_t;
#else
#include <stdint.h>
#endif

enum {
	RPROF_MAX_KERNEL = 127,       /* kernel frames: the kernel's own default limit */
	RPROF_MAX_NATIVE = 2048,      /* native frames */
	RPROF_MAX_INTERP = 6144,      /* interpreter frames */
	RPROF_MAX_KEPT_NATIVE = 1024, /* outermost frames of a thread's last walk that are kept */
	RPROF_MAX_KEPT_INTERP = 2048,
	RPROF_MAX_MAPPINGS = 1024, /* executable mappings of one process */
	RPROF_CONFIG_SZ = 192,   /* what a walk needs to know of an interpreter's process: bytes */
	INTERP_CONTEXT_SZ = 256, /* bytes of an execution context that a walk copies */
	RPROF_PAGE_SZ = 4096,
	UNWIND_CHUNK_ROWS = 16384, /* rows in one value of the rows map: 64 KiB */
	UNWIND_PAGE_SHIFT = 16,    /* one page of an unwind table covers 64 KiB of text */
};

/* ---- unwind tables ------------------------------------------------------------------ */

/*
 * A row of a page: the low 16 bits of the address where a rule begins to hold, and the rule's
 * index in its file's dictionary. Rows of a page ascend, the first one stands at low == 0
 * (carried over from the page before), and a page never straddles a chunk.
 */
#define UNWIND_ROW(low, rule) ((uint32_t)(low) | (uint32_t)(rule) << 16)
#define UNWIND_ROW_LOW(row)   ((row)&0xffff)
#define UNWIND_ROW_RULE(row)  ((row) >> 16)

enum unwind_cfa {
	CFA_INVALID =
	        0,    /* no CFI covers this address, or it cannot be expressed: the walk is cut */
	CFA_SP,       /* CFA = rsp + cfa_off */
	CFA_FP,       /* CFA = rbp + cfa_off */
	CFA_PLT,      /* .plt: CFA = rsp + 8 + ((pc & 15) >= cfa_off ? 8 : 0) */
	CFA_SIGFRAME, /* rt_sigreturn trampoline: registers from the ucontext at rsp */
	CFA_FP_DEREF, /* CFA = *(rbp + cfa_off): DRAP of a realigned stack */
	CFA_SP_DEREF, /* CFA = *(rsp + cfa_off) */
};

enum unwind_fp {
	FP_SAME = 0,  /* rbp is the caller's */
	FP_AT_CFA,    /* saved at CFA + fp_off */
	FP_AT_FP,     /* saved at rbp + fp_off (expression of a realigned stack) */
	FP_UNDEFINED, /* lost */
};

enum unwind_ra {
	RA_AT_CFA = 0, /* return address at CFA + ra_off (always -8 in compiled code) */
	RA_END,        /* undefined: this is the outermost frame */
};

struct unwind_rule {
	int32_t cfa_off;
	int32_t fp_off;
	int32_t ra_off;
	uint8_t cfa_kind; /* enum unwind_cfa */
	uint8_t fp_kind;  /* enum unwind_fp */
	uint8_t ra_kind;  /* enum unwind_ra */
	uint8_t flags;    /* UNWIND_F_* */
};

enum { UNWIND_F_SIGNAL = 1 }; /* the caller was interrupted: its pc is looked up as it is */

/* Where a 64-KiB page of a file's text has its rows: row[first .. first+nr) of chunk. */
struct unwind_page {
	uint32_t chunk;
	uint16_t first;
	uint16_t nr; /* 0: no rule in this page */
};

/* ---- processes ---------------------------------------------------------------------- */

enum mapping_kind {
	MAPPING_TABLE = 0,    /* unwind tables are loaded */
	MAPPING_NO_TABLE = 1, /* a file without .eh_frame: frame-pointer step, checked */
	MAPPING_JIT = 2,      /* executable, anonymous: code of a JIT */
};

/* One executable mapping. A table address is pc - bias. */
struct rprof_mapping {
	uint64_t start, end; /* [start, end) in the process */
	uint64_t bias;
	uint32_t page0;    /* index in the pages map of the page that holds table address 0 */
	uint32_t nr_pages; /* from table address 0 */
	uint32_t rule0;    /* first rule of the file's dictionary in the rules map */
	uint32_t kind;     /* enum mapping_kind */
};

struct rprof_mappings {
	uint32_t nr;
	uint32_t
	        generation; /* not 0; no other table of the session, of any process, has the same */
	struct rprof_mapping m[RPROF_MAX_MAPPINGS]; /* ascending, disjoint */
};

/* Value of the process map, keyed by tgid (as rprof's PID namespace numbers it). */
struct rprof_proc {
	uint32_t mappings; /* index in the mappings map of the table that is valid now */
	uint32_t runtime;  /* which interpreter it runs: enum runtime_id, runtimes/list.h */
	uint32_t plan;     /* index in the plans map */
	uint32_t tag;      /* of the interpreter: another after an exec. Not 0, below 4096 */
	uint64_t config[RPROF_CONFIG_SZ / 8]; /* the runtime's own: struct NAME_proc */
};

/* ---- what names an object: captures -------------------------------------------------- */

/*
 * The walk meets objects of an interpreter (code, methods) whose names user space has to know, and
 * that may be gone before user space could read them. So it copies what names an object into the
 * ring, before the sample. How is an interpreter's affair, told by a plan: a program of the
 * operations below, which user space fills. It has one entry for each kind of object; an object may
 * queue others that belong to its name. The kernel side knows neither kinds nor layouts.
 *
 * A capture holds pieces of the process's memory with their addresses, so user space can lay them
 * over its own reads of the process (symbolizer/overlay.h) and read the name as if nothing had
 * happened since.
 */
enum {
	CAPTURE_MAX_OPS = 256,
	CAPTURE_KINDS = 8,
	CAPTURE_REGS = 16,
	CAPTURE_MAX_STEPS = 512,   /* operations for one object */
	CAPTURE_MAX_READ = 16384,  /* bytes of one piece */
	CAPTURE_READ_WORDS = 32,   /* of CAPTURE_READ */
	CAPTURE_STRING_HEAD = 64,  /* bytes read of a string object at once, at least 40 */
	CAPTURE_MAX_STRING = 4095, /* of its characters */
	CAPTURE_ARRAY_HEAD = 40,
	CAPTURE_MAX_TABLE = 256, /* entries that CAPTURE_FIND looks at */
};

/*
 * r[]: registers; r[0] is the object to begin with. The piece: what was read last. c: the operation
 * to go on with when memory cannot be read, or is not as it should be; 0: give up.
 */
enum capture_code {
	CAPTURE_END = 0,
	CAPTURE_GIVE_UP,  /* it is no such object */
	CAPTURE_READ,     /* n bytes at r[a] + off; those of the words in `words` count (see hash),
	                     the first one masked by imm */
	CAPTURE_READ_VAR, /* r[b] bytes at r[a], at most imm; b's flag CAPTURE_UNCOUNTED */
	CAPTURE_STRING,   /* a string object at r[a]: struct capture_layout */
	CAPTURE_ELEMENT, /* r[b] = element r[n] of an array object at r[a]: struct capture_layout */
	CAPTURE_FIND,    /* r[a] = the third word of that entry of the piece, of three words each,
	                    whose second is imm; else c */
	CAPTURE_LOAD,    /* r[a] = (word of the piece at off >> b) & imm */
	CAPTURE_SET,     /* r[a] = imm */
	CAPTURE_SHIFT,   /* r[a] = (r[b] >> n) & imm */
	CAPTURE_SCALE,   /* r[a] = (r[b] + off) / n * imm + words */
	CAPTURE_ADD,     /* r[a] = r[b] + r[n] */
	CAPTURE_SUB,     /* r[a] = r[b] - r[n] */
	CAPTURE_JUMP,    /* to c */
	CAPTURE_IF_EQ,   /* r[a] == imm: to c */
	CAPTURE_IF_ABOVE, /* r[a] > imm: to c */
	CAPTURE_IF_IN,    /* r[a] < 64 and that bit of imm is set: to c */
	CAPTURE_IF_ADDR,  /* r[a] may be an object's address: to c */
	CAPTURE_LASTING,  /* all bits of imm are set in the piece's first word: the object lives
	                     until a full collection */
	CAPTURE_BRIEF,    /* it may be named otherwise at any time */
	CAPTURE_FOREVER,  /* its name never changes */
	CAPTURE_QUEUE,    /* object r[a] of kind b belongs to this one */
};
#define CAPTURE_UNCOUNTED 1

struct capture_op {
	uint8_t code; /* enum capture_code */
	uint8_t a, b, c;
	uint32_t n;
	uint32_t off;
	uint32_t words;
	uint64_t imm;
};

/* Of an object with a counted sequence: its first word says whether that stands in the object. */
struct capture_layout {
	uint64_t outside;   /* this bit is set: elsewhere; for arrays it is clear then */
	uint32_t len, ptr;  /* offsets; of an embedded one too, without len_mask */
	uint32_t embed;     /* offset */
	uint32_t len_shift; /* of the first word: the length of what is embedded */
	uint64_t len_mask;  /* 0: it stands at len */
};

struct capture_plan {
	uint32_t nr_ops;
	uint32_t start[CAPTURE_KINDS]; /* the first operation for each kind */
	uint32_t aged_kinds; /* bits: r[0] is an address, in whose first word lasting_mask says
	                        whether the object is old */
	uint64_t lasting_mask;
	struct capture_layout string, array;
	uint64_t moved_mask, moved_type; /* an object whose first word has this type under the mask
	                                    is where its word moved_to says */
	uint32_t moved_to, unused;
	struct capture_op op[CAPTURE_MAX_OPS];
};

/* ---- the record of one sample -------------------------------------------------------- */

/* What each record begins with. */
enum rprof_record_type { RECORD_SAMPLE = 1, RECORD_CAPTURE = 2 };
struct rprof_record {
	uint32_t type; /* enum rprof_record_type */
	uint32_t size; /* bytes, with this */
};

/* One piece of a capture; followed by the bytes, and by what makes them a multiple of 8. */
struct capture_piece {
	uint64_t addr;
	uint64_t size; /* bytes */
};

enum {
	CAPTURE_F_OLD = 1, /* the collection before this moment found it alive */
};

/* Followed by pieces. From here on a frame that names the object is named by this. */
struct rprof_capture {
	struct rprof_record record;
	uint32_t tgid;
	uint32_t tag;       /* as in struct rprof_proc */
	uint64_t object;    /* address, or whatever names it in its kind */
	uint32_t kind;      /* of the plan */
	uint32_t flags;     /* CAPTURE_F_* */
	uint64_t time_ns;   /* of the sample in whose run it was captured */
	uint64_t gc_gen;    /* as in struct rprof_sample */
	uint32_t old_stamp; /* until when old objects are the same; 0: that is not certain */
	uint32_t unused;
};

/* What makes a sample; record/trigger.c has the rest of what is known of each. */
enum rprof_trigger {
	TRIGGER_CPU = 1,     /* the clock of the CPU */
	TRIGGER_SYSCALL = 2, /* the entry of a system call */
};

/* Which system calls are wanted: a bit for each number. */
enum { RPROF_MAX_SYSCALL = 1024 };
struct syscall_set {
	uint64_t bit[RPROF_MAX_SYSCALL / 64];
};

/* How a walk ended. Append only: the numbers are stored in recordings. */
enum walk_outcome {
	WALK_NONE = 0,        /* not walked: there was nothing of the kind */
	WALK_ROOT = 1,        /* the outermost frame was reached */
	WALK_LIMIT = 2,       /* more frames than the limit */
	WALK_NO_MAPPING = 3,  /* pc in no known executable mapping */
	WALK_NO_CFI = 4,      /* no unwind rule for pc */
	WALK_UNREADABLE = 5,  /* the stack could not be read (page not resident, bad address) */
	WALK_NO_PROGRESS = 6, /* the stack pointer did not move up */
	WALK_JIT = 7,         /* code of a JIT that could not be crossed */
	WALK_BAD_CONTEXT = 8, /* the interpreter's execution context made no sense */
	WALK_NO_CONTEXT = 9,  /* a thread without an execution context */
	WALK_NO_TABLE = 10,   /* no unwind table, and no frame pointer to follow */
};

/*
 * One native frame of a record: the pc as found, which is a return address but for the leaf and
 * behind a signal frame; those have the mark. (A pc with that bit is no user address.)
 */
#define NATIVE_INTERRUPTED (1ULL << 63)
#define NATIVE_PC(frame)   ((frame) & ~NATIVE_INTERRUPTED)

/* A native frame where its stack pointer matters: the walk in user space. */
struct native_frame {
	uint64_t pc;
	uint64_t sp; /* while the frame runs; bit 0 set: pc was interrupted, not returned to */
};
#define NATIVE_SP_INTERRUPTED 1ULL

/*
 * One interpreter frame; see runtimes/ruby/ruby_abi.h for what the words mean there.
 */
struct interp_frame {
	uint64_t pc;
	uint64_t code;   /* iseq, or ifunc of an IFUNC frame, or 0 */
	uint64_t method; /* what the environment names as method entry: me, cref, svar or 0 */
	uint32_t flags;  /* low half of ep[0] */
	uint32_t extra;  /* INTERP_F_* */
};

enum {
	INTERP_F_JIT = 1,      /* cfp->jit_return is set */
	INTERP_F_EP_HOPS = 2,  /* the local environment was not reached: method is unknown */
	INTERP_F_EP_FAULT = 4, /* the environment could not be read: flags and method are unknown */
	/* The object was not captured: too much was new in this run, or it could not be read. What
	   was captured at its address before may be another. */
	INTERP_F_CODE_UNSENT = 8,
	INTERP_F_METHOD_UNSENT = 16,
	INTERP_F_UNSENT = INTERP_F_CODE_UNSENT | INTERP_F_METHOD_UNSENT,
};

enum {
	SAMPLE_F_KERNEL = 1, /* the thread was in the kernel */
	SAMPLE_F_IN_GC = 2,  /* the interpreter said that it collects garbage */
	SAMPLE_F_UNSENT = 4, /* has an object that was not captured: base_unsent, and INTERP_F_*
	                        of its frames */
	SAMPLE_F_KEPT = 8,   /* the walk was kept: see struct rprof_sample */
	SAMPLE_F_OFF_STACK =
	        16, /* sp lies outside of the stack that the context names (fiber switch) */
	SAMPLE_F_EXITING = 32,      /* the thread is ending: its memory may be gone */
	SAMPLE_F_SIGNAL_STACK = 64, /* with OFF_STACK: sp lies in the stack of signal handlers */
};

/*
 * Followed by nr_kernel u64 (kernel pcs), nr_native u64 (native frames), nr_interp struct
 * interp_frame; leaf first.
 *
 * A thread's stack differs little from one sample to the next, so the kernel side keeps its last
 * walk, and a record holds only what differs: outside of the frames that follow stand the
 * base_native (base_interp) outermost frames of the walk that is kept in slot keep_slot, which was
 * sent as number keep_seq - 1. With SAMPLE_F_KEPT the walk then takes that one's place, as number
 * keep_seq: natively if native_outcome is WALK_ROOT, and interp frames if interp_outcome is; of
 * either no more than the RPROF_MAX_KEPT_* outermost frames. What ended otherwise has no base and
 * leaves the kept part as it was.
 *
 * Two samples of a thread that has left b for c meanwhile; r is the root:
 *
 *	record 7, base 0   a b m r     what both sides keep then, root first   r m b a
 *	record 8, base 2   d c         with the two outermost ones of 7        d c m r
 *	                               what both sides keep then               r m c d
 *
 * A record that is lost takes number 8 with it, so number 9 is whole: the kernel side forgets what
 * user space has not got, and user space refuses a base of another number than it has.
 */
struct rprof_sample {
	struct rprof_record record;
	uint64_t time_ns;    /* CLOCK_MONOTONIC */
	uint32_t tgid, tid;  /* as rprof's PID namespace numbers them */
	uint16_t trigger;    /* enum rprof_trigger */
	uint16_t flags;      /* SAMPLE_F_* */
	uint32_t syscall;    /* number of the call (TRIGGER_SYSCALL) */
	uint32_t generation; /* of the mappings */
	uint16_t nr_kernel, nr_native, nr_interp;
	uint16_t base_native, base_interp;
	uint8_t native_outcome, interp_outcome; /* enum walk_outcome */
	uint32_t tag;                           /* of the interpreter, as in struct rprof_proc */
	uint32_t unsent_old_stamp; /* all objects that were not captured were old then, and this was
	                              good; 0: they were not */
	uint16_t base_unsent; /* so many outermost frames may be of objects that were not captured
	                         (of the base); the rest says so itself */
	uint16_t keep_slot;
	uint32_t keep_seq;
	uint32_t reads;   /* reads of user memory that this walk made */
	uint32_t lookups; /* searches in the unwind tables */
	/* In the trigger's unit. A trigger that knows the weight when the record is made fills it
	   in (time off the CPU, when the thread runs again); 0: all its events weigh the same, see
	   trigger_weight(). */
	uint64_t weight;
	uint64_t context; /* address of the execution context, or 0 */
	uint64_t gc_gen;  /* what the interpreter's collector did, in its own encoding */
	char comm[16];
#ifdef RPROF_CHECK
	uint64_t check_sum; /* walk_sum() of the plain walk; 0: it was not made */
#endif
};

#ifdef RPROF_CHECK
/* Of all frames of a walk, leaf first: native frames, then the words of interpreter frames. */
static inline __attribute__((always_inline)) uint64_t walk_sum(uint64_t sum, uint64_t word)
{
	return (sum ^ word) * 0x100000001b3ULL + (sum >> 47);
}
#endif

/* Indexes of the per-CPU counters map. Append only. */
enum rprof_counter {
	COUNTER_SAMPLES,   /* records sent */
	COUNTER_LOST_RING, /* records dropped: the ring buffer was full */
	COUNTER_NO_USER,   /* no user registers: kernel thread or exiting */
	COUNTER_WAKEUPS,   /* records for which user space was woken */
	COUNTER_CAPTURES,  /* objects that were captured and sent */
	COUNTER_LOOKED_AT, /* objects that were captured and were as before */
	COUNTER_UNSENT,    /* samples with objects that were not captured */
	COUNTER_LONGEST,   /* ns: the longest run (its largest value on any CPU, not a sum) */
	/* of a build with RPROF_CHECK */
	COUNTER_CHECKED,        /* walks made twice */
	COUNTER_CHECK_NATIVE,   /* of these, with a difference in the native frames */
	COUNTER_CHECK_INTERP,   /* in the interpreter frames */
	COUNTER_CHECK_FRAMES,   /* frames compared */
	COUNTER_CHECK_CAPTURES, /* captures compared with plain reads, and objects taken for known
	                           that were captured all the same */
	COUNTER_CHECK_CAPTURE,  /* of these, with a difference */
	RPROF_NR_COUNTERS,
};

#endif
