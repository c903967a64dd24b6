/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the kernel-side walk of Ruby's control frames needs to know of one process.
 * Filled by runtimes/ruby/ruby.c at attach, read by runtimes/ruby/ruby_walk.bpf.h.
 *
 * In struct interp_frame (bpf/abi.h): pc = cfp->pc, code = cfp->iseq (an imemo_ifunc in an IFUNC
 * frame, 0 in a CFUNC frame), method = ep[-2] of the local environment, or of the first bmethod
 * environment on the way to it: an imemo of kind ment, svar or cref, or false; flags = ep[0] of the
 * frame's own environment.
 */
#ifndef RUBY_ABI_H
#define RUBY_ABI_H

#include "bpf/abi.h"
#include <stdbool.h>

/* Frame flags and magics, ep[0]: vm_core.h, enum vm_frame_env_flags, the same from 2.7 to 4.1-dev.
 */
#define VM_FRAME_MAGIC_METHOD 0x11110001
#define VM_FRAME_MAGIC_BLOCK  0x22220001
#define VM_FRAME_MAGIC_CLASS  0x33330001
#define VM_FRAME_MAGIC_TOP    0x44440001
#define VM_FRAME_MAGIC_CFUNC  0x55550001
#define VM_FRAME_MAGIC_IFUNC  0x66660001
#define VM_FRAME_MAGIC_EVAL   0x77770001
#define VM_FRAME_MAGIC_RESCUE 0x78880001
#define VM_FRAME_MAGIC_DUMMY  0x79990001
#define VM_FRAME_MAGIC_MASK   0x7fff0001
#define VM_FRAME_FLAG_FINISH  0x0020
#define VM_FRAME_FLAG_BMETHOD 0x0040
#define VM_FRAME_FLAG_CFRAME  0x0080
#define VM_ENV_FLAG_LOCAL     0x0002
/* The collector's note in an environment on the heap, which threads may share: it says nothing of
 * the frame and changes while another thread is interrupted. */
#define VM_ENV_FLAG_WB_REQUIRED 0x0008

/* The low two bits of rb_objspace's flags: gc.c, enum gc_mode, the same from 2.7 to 4.0. */
enum { RUBY_GC_MARKING = 1, RUBY_GC_SWEEPING = 2, RUBY_GC_COMPACTING = 3 };
#define RUBY_GC_DURING_GC         (1U << 5) /* there too */
#define RUBY_GC_DURING_COMPACTING (1U << 6) /* 2.7 to 4.0 */
/* gc_gen: count << 3 | RUBY_GEN_COLLECTING | mode. */
#define RUBY_GEN_COLLECTING 4U

/* Kinds of objects that are captured: the plan is ruby_plan.c's. */
enum {
	RUBY_CAPTURE_CODE = 0,   /* an iseq or an ifunc */
	RUBY_CAPTURE_METHOD = 1, /* what an environment names as method entry */
	RUBY_CAPTURE_CLASS = 2,
	RUBY_CAPTURE_ID = 3,
	RUBY_CAPTURE_PATH = 4, /* the pathobj of an iseq */
	NR_RUBY_CAPTURES = 5,
};

/*
 * Where a frame's method entry is found (vm_insnhelper.c, rb_vm_frame_method_entry): an environment
 * is ep[-2] method, ep[-1] outer environment, ep[0] flags. Only some have a method; the way to it
 * leads outwards.
 */
static inline __attribute__((always_inline)) bool ruby_env_has_method(uint64_t flags)
{
	return (flags & (VM_ENV_FLAG_LOCAL | VM_FRAME_FLAG_BMETHOD)) != 0;
}

enum { RUBY_MAX_EP_HOPS = 32 }; /* outwards, in search of a method */

/* The outer environment's address, of ep[-1] (vm_core.h, VM_ENV_PREV_EP: the low bits are a mark).
 */
static inline __attribute__((always_inline)) uint64_t ruby_env_outer(uint64_t word)
{
	return word & ~3ULL;
}

/* The flags word of an object: enum ruby_value_type, value_type.h; enum imemo_type,
 * internal/imemo.h; the same from 2.7 to 4.0. */
#define RUBY_T_IMEMO     0x1a
#define RUBY_T_MASK      0x1f
#define RUBY_IMEMO_SHIFT 12
#define RUBY_IMEMO_MASK  (0xf << RUBY_IMEMO_SHIFT)
#define RUBY_IMEMO(type) (RUBY_T_IMEMO | (type) << RUBY_IMEMO_SHIFT)
enum {
	imemo_cref = 1,
	imemo_svar = 2,
	imemo_ifunc = 4,
	imemo_ment = 6,
	imemo_iseq = 7,
};

/*
 * In the place of a method entry may stand what $~ and $_ of the method are in, an svar, and the
 * entry in that, or nothing (vm_insnhelper.c, lep_svar_write; internal/imemo.h, struct vm_svar:
 * flags, cref_or_me, ...).
 */
static inline __attribute__((always_inline)) bool ruby_is_svar(uint64_t flags)
{
	return (flags & (RUBY_T_MASK | RUBY_IMEMO_MASK)) == RUBY_IMEMO(imemo_svar);
}
enum { RUBY_SVAR_METHOD = 1 }; /* the svar's word that has the entry */

/* ---- until when objects are the same -------------------------------------------------- */

/*
 * Stamps (bpf/capture.bpf.h) that are good in a state of the collector; 0: none is.
 *
 * What is in use is freed only once the next collection has marked, and an old object only by a
 * full one (gc.c, gc_start, gc_marks_start, gc_sweep; 2.7 to 3.3). So while it marks, the numbers
 * of the collection before hold. It counts before it sets the mode, and sets the mode before it
 * counts which kind it is; until then it has not begun, for us. While it moves objects nothing is
 * certain. Another thread may see one of these words as it was and the other as it is, so it knows
 * nothing while a collection begins or ends. A collection that moves objects counts twice, so
 * nothing is renewed behind it.
 */
struct ruby_stamps {
	uint32_t young, old;
	uint32_t renew; /* an old object with this one is the same if it is old still: one full
	                   collection has passed, and none behind it */
	/* of what was good before a collection that moves objects, while that is at work */
	uint32_t young_before, old_before;
};

struct ruby_gc_state {
	uint32_t flags; /* of rb_objspace */
	uint32_t
	        minor_flag; /* the bit of them that says that this or the last one is no full one */
	bool own; /* the thread that is interrupted is the one that collects: nothing changes */
	uint64_t count, minors, majors, moves;
};

static inline __attribute__((always_inline)) struct ruby_stamps ruby_stamps_of(
        const struct ruby_gc_state *gc)
{
	struct ruby_stamps st = {0};
	uint64_t begun = gc->minors + gc->majors; /* collections whose kind is known */
	uint32_t mode = gc->flags & 3, young, old, moves = gc->flags & RUBY_GC_DURING_COMPACTING;
	uint32_t marking = mode == RUBY_GC_MARKING, minor = (gc->flags & gc->minor_flag) != 0;

	if (gc->own) {
		if (begun != gc->count && begun + 1 != gc->count)
			return st;
		if (begun != gc->count)
			marking = 0;
		/* Before it sweeps nothing has moved. */
		if (mode == 0 || mode == RUBY_GC_MARKING)
			moves = 0;
	} else if (begun != gc->count ||
	           (gc->flags & (RUBY_GC_DURING_GC | 3)) == RUBY_GC_DURING_GC) {
		return st;
	}
	young = (uint32_t)(begun + 1) << 1;
	old = (uint32_t)(gc->majors + gc->moves + 1) << 1 | 1;
	if (moves || mode == RUBY_GC_COMPACTING) {
		/* It is a full one, and is counted as a move at its end. */
		st.young_before = young - 2;
		st.old_before = old - 2;
		return st;
	}
	if (marking) {
		young -= 2;
		old -= minor ? 0 : 2;
	} else if (!minor && begun == gc->count) {
		st.renew = old - 2;
	}
	st.young = young;
	st.old = old;
	return st;
}

enum ruby_ec_source {
	RUBY_EC_TP_OFFSET = 1, /* ec = *(fsbase + tp_off) */
	RUBY_EC_DTV =
	        2, /* ec = *(dtv[module] + tls_off); dtv = *(fsbase + 8), 16-byte entries (glibc) */
};

struct ruby_proc {
	uint32_t ec_source; /* enum ruby_ec_source */
	uint32_t tls_module;
	int64_t tp_off;
	uint64_t tls_off;

	/* offsets in rb_execution_context_t; all below INTERP_CONTEXT_SZ */
	uint16_t ec_vm_stack, ec_vm_stack_size, ec_cfp, ec_thread;
	uint16_t ec_machine_stack_start, ec_machine_stack_maxsize;
	uint16_t thread_ractor;  /* rb_thread_t.ractor */
	uint16_t ractor_running; /* rb_ractor_t: the thread that holds the GVL (threads.gvl.owner,
	                            threads.sched.running) */

	/* rb_control_frame_t */
	uint16_t cfp_sz, cfp_pc, cfp_iseq, cfp_ep;
	uint16_t cfp_jit_return; /* 0: the release has no such field */

	/* garbage collector: vm = *vm_ptr_addr, objspace = *(vm + vm_objspace) */
	uint16_t objspace_flags; /* byte offset of the byte with during_gc = bit 5, mode = bits 0-1
	                          */
	uint16_t objspace_gc_count;  /* size_t profile.count; 0: unknown */
	uint16_t objspace_minors;    /* size_t profile.minor_gc_count, major_gc_count,
	                                compact_count; 0: unknown */
	uint16_t objspace_minor_bit; /* of the flags: during_minor_gc */
	uint32_t vm_objspace;
	uint64_t objspace_addr; /* the object space is allocated once: its address, 0: unknown */

	/* code, absolute addresses: [lo, hi) */
	uint64_t vm_exec_lo, vm_exec_hi;
	uint64_t vm_core_lo, vm_core_hi;
	uint64_t text_lo, text_hi; /* the interpreter's whole code */
	uint64_t jit_lo, jit_sz;   /* what the JIT has reserved; 0: none */
};

#endif
