/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The walk of Ruby's control frames, from the thread's own execution context in its TLS. It does
 * not depend on the native walk in any way.
 *
 * A control frame is filled before ec->cfp names it (vm_insnhelper.c, vm_push_frame; since 3.0 with
 * a signal fence), so ec->cfp always names a complete frame. Frames go up from ec->cfp to the end
 * of the VM stack; the environments that they point to lie below them on the same stack, or on the
 * heap once they escaped.
 *
 * 1. ruby_frames_find() reads the execution context through the thread pointer, and in it where the
 *    VM stack lies and ec->cfp: how many frames there are is known before one is read.
 *
 * 2. ruby_gc_state() asks what the collector is doing: until when objects are what they are now
 * (the stamps), and whether this is the thread that collects.
 *
 * 3. Frames of one number from the root are compared with those that were kept of the last walk,
 *    from the root inwards (s->comparing): ruby_compare() a few at once, where both the frames and
 *    their environments lie in the windows, else ruby_frame_read() one by one. The first that
 *    differs ends that; those outside of it are sent as a number, base_interp.
 *
 * 4. The others are read from the leaf out (ruby_step()): pc and code of the frame, and from its
 *    environment flags and method. A block's method stands in an environment further out, to which
 *    ruby_method_find() goes; in its place may stand what holds $~ (ruby_svar_read()).
 *
 * 5. ruby_look() sees for each whether user space has got its code and its method, by their stamps,
 *    and notes those that it has not. If a collection has passed, ruby_look_again() does the same
 * for the base. capture_wanted() copies them into the ring.
 *
 * 6. The new frames are put in front of the base in the kept walk (ruby_keep()).
 */
#ifndef RUBY_WALK_BPF_H
#define RUBY_WALK_BPF_H

#include "bpf/capture.bpf.h"
#include "bpf/stack.bpf.h"
#include "runtimes/ruby/ruby_abi.h"
#include "runtimes/ruby/ruby_jit_abi.h"

enum {
	RUBY_MAX_CFP_SZ = 128,
	RUBY_ENV_SZ = 24,      /* ep[-2] method, ep[-1] outer environment, ep[0] flags */
	RUBY_ENVS_BELOW = 512, /* copied below an environment: those of the frames outside of it */
	COMPARED_AT_ONCE = 16,
	RUBY_ENVS_FIRST = 2048, /* so much at once from the leaf on: mostly little is new */
};

struct ruby_loop {
	struct scratch *s;
	struct kept_walk *kept;
};

/* What user space said of this process. */
static __always_inline const struct ruby_proc *ruby(const struct scratch *s)
{
	return (const struct ruby_proc *)s->config;
}

/* The word of the copied execution context at an offset that user space checked. */
static __always_inline __u64 ruby_ec_word(const struct scratch *s, __u16 off)
{
	return s->context[(off >> 3) & (INTERP_CONTEXT_SZ / 8 - 1)];
}

/* Address of this thread's execution context; 0: none (a thread of a library, Ruby's timer thread).
 * -1: unreadable. */
static __always_inline int ruby_ec_find(struct scratch *s, __u64 tp, __u64 *ec)
{
	__u64 dtv, block;

	if (ruby(s)->ec_source == RUBY_EC_TP_OFFSET)
		return user_read(s, tp + ruby(s)->tp_off, ec);
	if (user_read(s, tp + ARCH_TCB_DTV_OFF, &dtv) ||
	        user_read(s, dtv + ARCH_DTV_ENTRY_SZ * (__u64)ruby(s)->tls_module, &block))
		return -1;
	/* -1: not there yet (glibc, sysdeps/generic/dl-dtv.h). */
	if (block == 0 || block == ~0ULL) {
		*ec = 0;
		return 0;
	}
	return user_read(s, block + ruby(s)->tls_off, ec);
}

/* Moves the window to the environments around ep, which is on the VM stack: those of outer frames
 * lie below, those of inner ones above. */
SUBPROGRAM int ruby_envs_fill(struct scratch *s, __u64 ep)
{
	__u64 start, end = ep + 8, below = RUBY_ENVS_BELOW;

	if (!s)
		return -1;
	if (s->comparing) {
		if (s->env_end > end)
			end = s->env_end;
		if (end > ep + WINDOW_SZ - RUBY_ENVS_BELOW - RUBY_ENV_SZ)
			end = ep + WINDOW_SZ - RUBY_ENVS_BELOW - RUBY_ENV_SZ;
	} else {
		below = s->many_envs ? WINDOW_SZ - RUBY_ENV_SZ : RUBY_ENVS_FIRST;
		s->many_envs = 1;
	}
	start = ep - 16 - below;
	if (start < s->interp_stack_lo || start > ep)
		start = s->interp_stack_lo;
	return window_fill(s, &s->envs, start, end - start);
}

/* The three words at ep - 16 into s->env. move: the window may be moved there. 0 or -1. */
static __always_inline int ruby_env_read(struct scratch *s, __u64 ep, int move)
{
	__u64 off = ep - 16 - s->envs.base;

	if (off >= s->envs.size || s->envs.size - off < RUBY_ENV_SZ || ep & 7) {
		if (!move || ep < s->interp_stack_lo + 16 || ep >= s->interp_stack_hi || ep & 7)
			goto single;
		if (ruby_envs_fill(s, ep))
			goto single;
		off = ep - 16 - s->envs.base;
	}
	s->env[0] = window_word(&s->envs, off);
	s->env[1] = window_word(&s->envs, off + 8);
	s->env[2] = window_word(&s->envs, off + 16);
	return 0;
single:
	s->rec.head.reads++;
	return bpf_probe_read_user(s->env, sizeof(s->env), (const void *)(ep - 16)) ? -1 : 0;
}

/* Moves the window to the frames around cfp. */
SUBPROGRAM int ruby_frames_fill(struct scratch *s, __u64 cfp)
{
	__u64 start = cfp, end;

	if (!s)
		return -1;
	end = cfp + ruby(s)->cfp_sz;
	if (s->nr_frames * (__u64)ruby(s)->cfp_sz <= s->frames_sz) {
		start = s->frame_addr;
		end = s->frames_end;
	} else if (s->comparing) {
		start = end - s->frames_sz;
		if (start < s->frame_addr || start > cfp)
			start = s->frame_addr;
	} else {
		end = s->frames_end - (__u64)s->base_interp * ruby(s)->cfp_sz;
		if (end - start > s->frames_sz)
			end = start + s->frames_sz;
	}
	if (!s->single_frames && window_fill(s, &s->frames, start, end - start) == 0)
		return 0;
	s->single_frames = 1;
	return window_fill(s, &s->frames, cfp, ruby(s)->cfp_sz);
}

/* A block's method stands in the environment of its method, or of the bmethod on the way
 * (vm_insnhelper.c, rb_vm_frame_method_entry): goes there from the environment in s->env. Returns
 * INTERP_F_*. */
SUBPROGRAM int ruby_method_find(struct scratch *s)
{
	if (!s)
		return INTERP_F_EP_FAULT;
	for (int hop = 0; hop < RUBY_MAX_EP_HOPS; hop++) {
		if (ruby_env_has_method(s->env[2]))
			return 0;
		if (ruby_env_read(s, ruby_env_outer(s->env[1]), 0))
			return INTERP_F_EP_FAULT;
	}
	return ruby_env_has_method(s->env[2]) ? 0 : INTERP_F_EP_HOPS;
}

/* An svar (ruby_is_svar()) is young and as new as the call, so what it holds is sent in its stead.
 */
SUBPROGRAM int ruby_svar_read(struct scratch *s)
{
	if (!s)
		return -1;
	/* The blocks of a method have the same. */
	if (s->env_method != s->svar_addr) {
		s->rec.head.reads++;
		if (bpf_probe_read_user(s->env, 16, (const void *)s->env_method))
			return -1;
		s->svar_addr = s->env_method;
		s->svar_method = s->env_method;
		if (ruby_is_svar(s->env[0]))
			s->svar_method = s->env[RUBY_SVAR_METHOD];
	}
	s->frame.method = s->svar_method;
	return 0;
}

/* Has user space got this method as it is? Then it is none of the objects that stand in its place.
 */
static __always_inline bool ruby_method_is_known(struct scratch *s, __u64 addr)
{
	struct capture_slots *slots;
	__u32 zero = 0;

	slots = bpf_map_lookup_elem(&rp_slots, &zero);
	return slots &&
	       capture_is_good(
	               s, capture_recall(slots, capture_key(s, RUBY_CAPTURE_METHOD, addr)) >> 32);
}

/* The frame at cfp into s->frame. 0 or -1. */
SUBPROGRAM int ruby_frame_read(struct scratch *s, __u64 cfp)
{
	__u32 extra = 0;
	__u64 off, ep;

	if (!s)
		return -1;
	s->env_method = 0;
	off = cfp - s->frames.base;
	if (off >= s->frames.size || s->frames.size - off < ruby(s)->cfp_sz) {
		if (ruby_frames_fill(s, cfp))
			return -1;
		off = cfp - s->frames.base;
	}
	s->frame.pc = window_word(&s->frames, off + ruby(s)->cfp_pc);
	s->frame.code = window_word(&s->frames, off + ruby(s)->cfp_iseq);
	s->frame.method = 0;
	s->frame.flags = 0;
	ep = window_word(&s->frames, off + ruby(s)->cfp_ep);
	if (ruby(s)->cfp_jit_return && window_word(&s->frames, off + ruby(s)->cfp_jit_return))
		extra |= INTERP_F_JIT;
	if (ruby_env_read(s, ep, 1)) {
		extra |= INTERP_F_EP_FAULT;
	} else {
		s->frame.flags = (__u32)s->env[2] & ~VM_ENV_FLAG_WB_REQUIRED;
		if (!ruby_env_has_method(s->env[2]))
			extra |= ruby_method_find(s);
		if (!(extra & (INTERP_F_EP_FAULT | INTERP_F_EP_HOPS)))
			s->env_method = s->env[0];
	}
	s->frame.method = s->env_method;
	s->frame.extra = extra;
	if (s->env_method == 0)
		return 0;
	if (!ruby_method_is_known(s, s->env_method))
		ruby_svar_read(s);
	return 0;
}

/* The code that names a frame. A block that is written in C has none: its object is made for one
 * call and is never shown. */
static __always_inline __u64 ruby_named_code(const struct interp_frame *frame)
{
	return (frame->flags & VM_FRAME_MAGIC_MASK) == VM_FRAME_MAGIC_IFUNC ? 0 : frame->code;
}

/* Until when user space has got an object of a frame; 0: it is to be looked at. */
static __always_inline __u32 ruby_stamp(
        struct scratch *s, struct capture_slots *slots, __u32 kind, __u64 object)
{
	__u32 stamp;

	if (object == 0)
		return CAPTURE_STAMP_FOREVER;
	stamp = capture_recall(slots, capture_key(s, kind, object)) >> 32;
	return capture_is_good(s, stamp) ? stamp : 0;
}

/* The objects of s->frame, which is new. 0, or -1: too much is new. */
SUBPROGRAM int ruby_look(struct scratch *s, __u32 at)
{
	struct capture_slots *slots;
	__u32 code, method, zero = 0;
	__u64 named;

	slots = bpf_map_lookup_elem(&rp_slots, &zero);
	if (!s || !slots)
		return -1;
	named = ruby_named_code(&s->frame);
	code = ruby_stamp(s, slots, RUBY_CAPTURE_CODE, named);
	method = ruby_stamp(s, slots, RUBY_CAPTURE_METHOD, s->frame.method);
	if (at < RPROF_MAX_KEPT_INTERP)
		s->new_stamps[at] = (__u64)code << 32 | method;
	if ((code == 0 || (IS_CHECKED(s) && named)) &&
	        capture_want(s, capture_key(s, RUBY_CAPTURE_CODE, named), at))
		s->frame.extra |= INTERP_F_CODE_UNSENT;
	if ((method == 0 || (IS_CHECKED(s) && s->frame.method)) &&
	        capture_want(s, capture_key(s, RUBY_CAPTURE_METHOD, s->frame.method),
	                at | WANTED_METHOD))
		s->frame.extra |= INTERP_F_METHOD_UNSENT;
	if (s->frame.extra & (INTERP_F_CODE_UNSENT | INTERP_F_METHOD_UNSENT)) {
		s->rec.head.flags |= SAMPLE_F_UNSENT;
		s->cap.young_unsent = 1;
	}
	return 0;
}

/*
 * As many frames as are what was kept, up to a number: a function's return costs more than a frame
 * does. Stops before what is not in the windows, needs more than one step to its method, or is
 * not as it was.
 */
static __always_inline void ruby_compare(struct scratch *s, const struct kept_walk *kept)
{
	__u64 off, size = s->frames.size, ep, env_base = s->envs.base + 16, env_size = s->envs.size;
	__u64 flags, method;
	__u32 at = s->base_interp, sz = ruby(s)->cfp_sz, extra;
	const struct kept_interp *k;

	off = s->frames_end - (__u64)(at + 1) * sz - s->frames.base;
	for (int n = 0; n < COMPARED_AT_ONCE; n++) {
		if (at >= s->kept_interp || off >= size || size - off < sz)
			break;
		k = &kept->interp[at & (RPROF_MAX_KEPT_INTERP - 1)];
		ep = window_word(&s->frames, off + ruby(s)->cfp_ep) - env_base;
		if (ep >= env_size || env_size - ep < RUBY_ENV_SZ || ep & 7)
			break;
		flags = window_word(&s->envs, ep + 16);
		method = window_word(&s->envs, ep);
		if (!ruby_env_has_method(flags)) {
			ep = ruby_env_outer(window_word(&s->envs, ep + 8)) - env_base;
			if (ep >= env_size || env_size - ep < RUBY_ENV_SZ || ep & 7)
				break;
			method = window_word(&s->envs, ep);
			if (!ruby_env_has_method(window_word(&s->envs, ep + 16)))
				break;
		}
		extra = 0;
		if (ruby(s)->cfp_jit_return &&
		        window_word(&s->frames, off + ruby(s)->cfp_jit_return))
			extra = INTERP_F_JIT;
		if (k->env_method != method || k->frame.method != method ||
		        k->frame.flags != ((__u32)flags & ~VM_ENV_FLAG_WB_REQUIRED) ||
		        k->frame.extra != extra ||
		        k->frame.code != window_word(&s->frames, off + ruby(s)->cfp_iseq))
			break;
		if (k->frame.pc != window_word(&s->frames, off + ruby(s)->cfp_pc) &&
		        !IS_PLANTED(PLANTED_INTERP_FRAME))
			break;
		off -= sz;
		at++;
	}
	s->base_interp = at;
}

static __always_inline int ruby_end(struct scratch *s, __u32 outcome)
{
	s->interp_outcome = outcome;
	return 1;
}

/*
 * One frame. First from the outermost frame inwards, as long as they are what was kept; then from
 * the leaf outwards to the first of those.
 */
static long ruby_step(__u32 i, void *ctx)
{
	struct ruby_loop *loop = ctx;
	struct scratch *s = loop->s;
	const struct kept_interp *kept;
	__u32 at = s->base_interp, nr;
	__u64 cfp;

	if (s->comparing) {
		ruby_compare(s, loop->kept);
		if (s->base_interp == s->nr_frames)
			return ruby_end(s, WALK_ROOT);
		if (s->base_interp != at && s->base_interp < s->kept_interp)
			return 0;
		cfp = s->frames_end - (__u64)(s->base_interp + 1) * ruby(s)->cfp_sz;
		kept = &loop->kept->interp[s->base_interp & (RPROF_MAX_KEPT_INTERP - 1)];
		if (ruby_frame_read(s, cfp) == 0 && s->base_interp < s->kept_interp &&
		        kept->frame.pc == s->frame.pc && kept->frame.code == s->frame.code &&
		        kept->frame.method == s->frame.method &&
		        kept->frame.flags == s->frame.flags &&
		        kept->frame.extra == s->frame.extra) {
			s->base_interp++;
			if (s->base_interp == s->nr_frames)
				return ruby_end(s, WALK_ROOT);
			if (s->base_interp < s->kept_interp)
				return 0;
		}
		s->comparing = 0;
		return 0;
	}
	nr = s->nr_interp;
	if (nr >= RPROF_MAX_INTERP)
		return ruby_end(s, WALK_LIMIT);
	cfp = s->frame_addr + (__u64)nr * ruby(s)->cfp_sz;
	if (ruby_frame_read(s, cfp))
		return ruby_end(s, WALK_UNREADABLE);
	ruby_look(s, s->nr_frames - 1 - nr);
	s->new_env_method[nr] = s->env_method;
	interp_emit(s);
	if (nr + 1 + s->base_interp >= s->nr_frames)
		return ruby_end(s, WALK_ROOT);
	return 0;
}

static long ruby_keep(__u32 i, void *ctx)
{
	struct ruby_loop *loop = ctx;
	struct scratch *s = loop->s;
	__u32 at = s->base_interp + s->nr_interp - 1 - i, pos = s->interp_pos + i * 4;
	struct kept_interp *kept = &loop->kept->interp[at & (RPROF_MAX_KEPT_INTERP - 1)];
	__u64 flags;

	if (at >= RPROF_MAX_KEPT_INTERP || pos > RECORD_WORDS - 4 || i >= RPROF_MAX_INTERP)
		return 0;
	kept->frame.pc = s->rec.word[pos];
	kept->frame.code = s->rec.word[pos + 1];
	kept->frame.method = s->rec.word[pos + 2];
	flags = s->rec.word[pos + 3];
	kept->frame.flags = (__u32)flags;
	kept->frame.extra = (__u32)(flags >> 32);
	kept->env_method = s->new_env_method[i];
	kept->code_stamp = s->new_stamps[at] >> 32;
	kept->method_stamp = s->new_stamps[at];
	return 0;
}

/*
 * Frames of the base, from the innermost one outwards: their words are what they were, and their
 * objects may be others since a collection has passed.
 */
static long ruby_look_again(__u32 i, void *ctx)
{
	struct ruby_loop *loop = ctx;
	struct scratch *s = loop->s;
	struct kept_interp *kept = NULL;
	struct capture_slots *slots;
	__u32 at = s->relook_at, zero = 0;
	bool full = false;
	__u64 named;

	for (int n = 0; n < COMPARED_AT_ONCE; n++) {
		if (at == 0)
			break;
		kept = &loop->kept->interp[(at - 1) & (RPROF_MAX_KEPT_INTERP - 1)];
		if (!capture_is_good(s, kept->code_stamp) ||
		        !capture_is_good(s, kept->method_stamp) || IS_CHECKED(s))
			break;
		at--;
	}
	s->relook_at = at;
	slots = bpf_map_lookup_elem(&rp_slots, &zero);
	if (at == 0 || !kept || !slots)
		return 1;
	/* Another frame of the same may have been looked at. */
	named = ruby_named_code(&kept->frame);
	if (!capture_is_good(s, kept->code_stamp))
		kept->code_stamp = ruby_stamp(s, slots, RUBY_CAPTURE_CODE, named);
	if (!capture_is_good(s, kept->method_stamp))
		kept->method_stamp = ruby_stamp(s, slots, RUBY_CAPTURE_METHOD, kept->frame.method);
	if (kept->code_stamp == 0 || (IS_CHECKED(s) && named))
		full |= capture_want(s, capture_key(s, RUBY_CAPTURE_CODE, named),
		                (at - 1) | WANTED_BASE) != 0;
	if (kept->method_stamp == 0 || (IS_CHECKED(s) && kept->frame.method))
		full |= capture_want(s, capture_key(s, RUBY_CAPTURE_METHOD, kept->frame.method),
		                (at - 1) | WANTED_BASE | WANTED_METHOD) != 0;
	if (full) {
		s->rec.head.base_unsent = at;
		s->rec.head.flags |= SAMPLE_F_UNSENT;
		s->cap.young_unsent = 1;
		return 1;
	}
	s->relook_at = at - 1;
	return 0;
}

/* What the collector is doing. */
static __always_inline void ruby_gc_state(struct scratch *s, __u64 thread)
{
	__u64 flags_word = 0, again = 0, ractor, running, objspace = ruby(s)->objspace_addr;
	__u64 off = ruby(s)->objspace_flags, count_off = ruby(s)->objspace_gc_count;
	__u64 minors_off = ruby(s)->objspace_minors, first = off & ~7ULL, last, count = 0;
	struct ruby_stamps stamps;
	struct ruby_gc_state gc;
	__u32 flags;

	if (!objspace)
		return;
	/* The flags stand first, the counts behind them (struct rb_objspace). All in one read:
	 * nothing is in that window yet. */
	last = count_off;
	if (last < minors_off + 16)
		last = minors_off + 16;
	if (((count_off | minors_off) & 7) != 0 || last < first || last - first >= WINDOW_SZ ||
	        window_fill(s, &s->frames, objspace + first, last - first + 8))
		return;
	flags_word = window_word(&s->frames, 0);
	flags = (__u32)(flags_word >> ((off & 7) * 8));
	if (count_off > first)
		count = window_word(&s->frames, count_off - first);
	gc.flags = IS_PLANTED(PLANTED_COLLECTOR) ? 0 : flags;
	gc.minor_flag = 1U << (ruby(s)->objspace_minor_bit & 31);
	gc.count = count;
	gc.minors = window_word(&s->frames, minors_off - first);
	gc.majors = window_word(&s->frames, minors_off + 8 - first);
	gc.moves = window_word(&s->frames, minors_off + 16 - first);
	s->frames.size = 0;
	s->gc_gen = count << 3 | (flags & 3);
	/* The flag is the VM's; the thread that collects is the one with the GVL. */
	gc.own = false;
	if (flags & RUBY_GC_DURING_GC) {
		s->gc_gen |= RUBY_GEN_COLLECTING;
		gc.own = !ruby(s)->ractor_running ||
		         (user_read(s, thread + ruby(s)->thread_ractor, &ractor) == 0 &&
		                 user_read(s, ractor + ruby(s)->ractor_running, &running) == 0 &&
		                 running == thread);
	}
	if (gc.own)
		s->rec.head.flags |= SAMPLE_F_IN_GC;
	if (count_off <= first || minors_off <= first)
		return;
	/* To another thread the words may be of two moments, unless the flags are the same behind
	 * the counts. */
	if (!gc.own && (user_read(s, objspace + first, &again) || again != flags_word))
		return;
	stamps = ruby_stamps_of(&gc);
	s->young_stamp = stamps.young;
	s->old_stamp = stamps.old;
	s->renew_stamp = stamps.renew;
	s->young_before = stamps.young_before;
	s->old_before = stamps.old_before;
	if (IS_PLANTED(PLANTED_FULL) && s->old_stamp)
		s->old_stamp = 3;
}

/* Does the stack pointer lie in the machine stack that this context names? In a fiber switch it
 * does not: the machine stack is switched before the context (cont.c, fiber_setcontext,
 * fiber_restore_thread). */
static __always_inline void ruby_check_stack(struct scratch *s, __u64 sp)
{
	__u64 start = ruby_ec_word(s, ruby(s)->ec_machine_stack_start);
	__u64 size = ruby_ec_word(s, ruby(s)->ec_machine_stack_maxsize);

	/* The sizes that Ruby knows leave out guard pages and the frames above the start. */
	if (start == 0 || size == 0)
		return;
	if (sp > start + RPROF_PAGE_SZ || sp + size + (1 << 20) < start)
		s->rec.head.flags |= SAMPLE_F_OFF_STACK;
}

/* Finds the thread's control frames: s->frame_addr .. s->frames_end. WALK_NONE, or why there are
 * none. */
static __always_inline __u32 ruby_frames_find(struct scratch *s, __u64 tp)
{
	__u64 ec = 0, size, sz = ruby(s)->cfp_sz;

	if (ruby_ec_find(s, tp, &ec))
		return WALK_UNREADABLE;
	if (ec == 0)
		return WALK_NO_CONTEXT;
	s->rec.head.context = ec;
	s->rec.head.reads++;
	if (bpf_probe_read_user(s->context, sizeof(s->context), (const void *)ec))
		return WALK_UNREADABLE;
	s->interp_stack_lo = ruby_ec_word(s, ruby(s)->ec_vm_stack);
	/* A thread that starts or ends has no VM stack (vm.c, rb_ec_clear_vm_stack) and no frames.
	 */
	if (s->interp_stack_lo == 0)
		return WALK_NO_CONTEXT;
	size = ruby_ec_word(s, ruby(s)->ec_vm_stack_size);
	s->frame_addr = ruby_ec_word(s, ruby(s)->ec_cfp);
	if (size > 1 << 28 || s->frame_addr < s->interp_stack_lo || sz < 8 || sz > RUBY_MAX_CFP_SZ)
		return WALK_BAD_CONTEXT;
	s->interp_stack_hi = s->interp_stack_lo + size * 8;
	s->frames_end = s->interp_stack_hi;
	if (s->frame_addr > s->frames_end)
		return WALK_BAD_CONTEXT;
	size = s->frames_end - s->frame_addr;
	if (size % sz != 0)
		return WALK_BAD_CONTEXT;
	s->nr_frames = size / sz;
	s->frames_sz = WINDOW_SZ / sz * sz;
	return WALK_NONE;
}

static __always_inline void ruby_walk(struct scratch *s, __u64 tp, struct kept_walk *kept)
{
	struct ruby_loop loop = {.s = s, .kept = kept};
	__u32 nr;
	__u64 ep;

	s->comparing = 0;
	s->single_frames = 0;
	s->many_envs = 0;
	s->svar_addr = 0;
	s->frames.size = 0;
	s->envs.size = 0;
	s->env_end = 0;
	s->interp_outcome = ruby_frames_find(s, tp);
	if (s->interp_outcome != WALK_NONE)
		return;
	ruby_gc_state(s, ruby_ec_word(s, ruby(s)->ec_thread));
	ruby_check_stack(s, s->leaf_sp);
	s->interp_outcome = WALK_ROOT;
	if (s->nr_frames == 0) {
		/* User space keeps no frames then either. */
		if (s->keep)
			kept->nr_interp = 0;
		return;
	}
	if (kept->image != s->image && s->keep) {
		kept->image = s->image;
		kept->nr_interp = 0;
	}
	s->kept_interp = kept->nr_interp;
	if (s->kept_interp > s->nr_frames)
		s->kept_interp = s->nr_frames;
	if (s->kept_interp != 0 && s->kept_interp <= RPROF_MAX_KEPT_INTERP &&
	        s->nr_frames <= RPROF_MAX_INTERP) {
		s->comparing = 1;
		/* The innermost environment lies highest: up to there there are some. */
		if (s->nr_frames * (__u64)ruby(s)->cfp_sz <= s->frames_sz)
			ruby_frames_fill(s, s->frame_addr);
		if (s->frames.base == s->frame_addr && s->frames.size != 0)
			ep = window_word(&s->frames, ruby(s)->cfp_ep);
		else if (user_read(s, s->frame_addr + ruby(s)->cfp_ep, &ep))
			ep = s->interp_stack_hi;
		if (ep < s->interp_stack_hi)
			s->env_end = ep + 8;
	}
	s->interp_outcome = WALK_LIMIT;
	bpf_loop(RPROF_MAX_INTERP + RPROF_MAX_KEPT_INTERP + 2, ruby_step, &loop, 0);
	/* Not to the root, so without what stands there. */
	if (s->interp_outcome != WALK_ROOT)
		s->base_interp = 0;
	if (IS_CHECKED(s) || kept->stamp == 0 || kept->stamp != s->young_stamp) {
		s->relook_at = s->base_interp;
		bpf_loop(RPROF_MAX_KEPT_INTERP, ruby_look_again, &loop, 0);
	}
	capture_wanted(s, kept);
	if (s->interp_outcome == WALK_ROOT && s->keep) {
		bpf_loop(s->nr_interp, ruby_keep, &loop, 0);
		nr = s->base_interp + s->nr_interp;
		kept->nr_interp = nr < RPROF_MAX_KEPT_INTERP ? nr : RPROF_MAX_KEPT_INTERP;
		kept->stamp = s->young_stamp;
		if (s->look_again || s->rec.head.flags & SAMPLE_F_UNSENT)
			kept->stamp = 0;
	}
}

/* What the JIT has reserved it makes executable piece by piece, which nothing tells us of. */
static __always_inline int ruby_jit_covers(const struct scratch *s, __u64 pc)
{
	return pc - ruby(s)->jit_lo < ruby(s)->jit_sz;
}

/* Is it behind an indirect call in the interpreter's code? vm_exec and vm_exec_core call the JIT's
 * code, and what the compiler has not put into them (vm_sendish of Debian's 3.1). */
static __always_inline int ruby_calls_jit(struct scratch *s, __u64 ra)
{
	__u64 before;

	if (ra - 8 < ruby(s)->text_lo || ra >= ruby(s)->text_hi)
		return 0;
	return user_read(s, ra - 8, &before) == 0 && ruby_jit_is_called(before);
}

/*
 * Out of YJIT's code, which has no CFI: the return address lies above the three registers that the
 * entry pushes. Values of the language may have been pushed above those, for the time of a call:
 * then it is the first word that could be one, which none of them can.
 */
SUBPROGRAM int ruby_jit_step(struct scratch *s)
{
	__u64 ra = 0, code;
	int word = RUBY_JIT_SAVED;

	if (!s)
		return UNWIND_STEP_UNREADABLE;
	/* The leaf may be where they are pushed or popped. */
	if (s->u.interrupted && user_read(s, s->u.pc, &code) == 0)
		word = ruby_jit_saved(code);
	for (; word < 64; word++) {
		if (stack_read(s, s->u.sp + word * 8, &ra))
			return UNWIND_STEP_UNREADABLE;
		if (ruby_calls_jit(s, ra)) {
			/* The first word that it may be: that word alone decides. */
			s->step = word == RUBY_JIT_SAVED ? KEPT_STEP_SIMPLE : 0;
			s->u.pc = ra;
			s->u.sp += (word + 1) * 8;
			s->u.interrupted = 0;
			return UNWIND_STEP_NEXT;
		}
	}
	return UNWIND_STEP_NO_CFI;
}

#include "runtimes/ruby/ruby_check.bpf.h"

#endif
