/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The walk of Ruby's control frames, from the thread's own execution context in its TLS. It does
 * not depend on the native walk in any way.
 *
 * A control frame is filled before ec->cfp names it (vm_insnhelper.c, vm_push_frame; since 3.0 with
 * a signal fence), so ec->cfp always names a complete frame. Frames go up from ec->cfp to the end
 * of the VM stack; the environments that they point to lie below them on the same stack, or on the
 * heap once they escaped.
 */
#ifndef RUBY_WALK_BPF_H
#define RUBY_WALK_BPF_H

#include "bpf/maps.bpf.h"

/* The fields that are read lie in the first eight words of rb_control_frame_t, in all releases. */
enum { RUBY_CFP_WORDS = 8 };

struct ruby_loop {
	struct scratch *s;
};

/* The word of the copied execution context at an offset that user space checked. */
static __always_inline __u64 ruby_ec_word(const struct scratch *s, __u16 off)
{
	return s->context[(off >> 3) & (INTERP_CONTEXT_SZ / 8 - 1)];
}

static __always_inline int ruby_read(struct scratch *s, __u64 addr, __u64 *out)
{
	s->rec.head.reads++;
	return bpf_probe_read_user(out, sizeof(*out), (const void *)addr) ? -1 : 0;
}

/* Address of this thread's execution context; 0: none (a thread of a library, Ruby's timer thread).
 * -1: unreadable. */
static __always_inline int ruby_ec_find(struct scratch *s, __u64 tp, __u64 *ec)
{
	__u64 dtv, block;

	if (s->ruby.ec_source == RUBY_EC_TP_OFFSET)
		return ruby_read(s, tp + s->ruby.tp_off, ec);
	/* glibc, x86-64: tcbhead_t.dtv at 8, dtv_t of 16 bytes, -1 for a block that is not there
	 * yet (sysdeps/x86_64/nptl/tls.h, sysdeps/generic/dl-dtv.h). */
	if (ruby_read(s, tp + 8, &dtv) ||
	        ruby_read(s, dtv + 16 * (__u64)s->ruby.tls_module, &block))
		return -1;
	if (block == 0 || block == ~0ULL) {
		*ec = 0;
		return 0;
	}
	return ruby_read(s, block + s->ruby.tls_off, ec);
}

/* The three words below and at ep: method or cref, outer environment, flags. */
static __always_inline int ruby_env_read(
        struct scratch *s, __u64 ep, __u64 *method, __u64 *outer, __u64 *flags)
{
	__u32 at;

	if (ep >= s->interp_stack_lo + 16 && ep < s->interp_stack_hi) {
		if (page_find(s, &s->env_page, ep - 16, 3, &at) == 0) {
			*method = page_word(&s->env_page, at);
			*outer = page_word(&s->env_page, at + 1);
			*flags = page_word(&s->env_page, at + 2);
			return 0;
		}
		/* Highest word first: the next frame's environment lies below, so pages are copied
		 * once. */
		return page_read(s, &s->env_page, ep, flags) ||
		       page_read(s, &s->env_page, ep - 8, outer) ||
		       page_read(s, &s->env_page, ep - 16, method);
	}
	s->rec.head.reads++;
	if (bpf_probe_read_user(s->env, sizeof(s->env), (const void *)(ep - 16)))
		return -1;
	*method = s->env[0];
	*outer = s->env[1];
	*flags = s->env[2];
	return 0;
}

/* Notes that an object was sent; new_code says that user space has not seen it since memory was
 * last freed. */
static __always_inline void ruby_seen(struct scratch *s, struct seen_table *seen, __u64 addr)
{
	__u64 key = addr ^ (s->gc_gen << 48);
	__u32 slot = (__u32)(addr >> 3) ^ (__u32)(addr >> 17);

	slot &= SEEN_SLOTS - 1;
	if (seen->slot[slot] != key) {
		seen->slot[slot] = key;
		s->new_code = 1;
	}
}

static long ruby_step(__u32 i, void *ctx)
{
	struct ruby_loop *loop = ctx;
	struct scratch *s = loop->s;
	__u64 cfp = s->frame_addr, pc, code, ep, jit_return = 0;
	__u64 method = 0, outer = 0, flags = 0, env_flags;
	struct seen_table *seen;
	__u32 extra = 0, zero = 0, at;

	if (cfp >= s->frames_end) {
		s->interp_outcome = WALK_ROOT;
		return 1;
	}
	if (s->nr_interp >= RPROF_MAX_INTERP) {
		s->interp_outcome = WALK_LIMIT;
		return 1;
	}
	if (page_find(s, &s->frame_page, cfp, RUBY_CFP_WORDS, &at) == 0) {
		pc = page_word(&s->frame_page, at + (s->ruby.cfp_pc >> 3));
		code = page_word(&s->frame_page, at + (s->ruby.cfp_iseq >> 3));
		ep = page_word(&s->frame_page, at + (s->ruby.cfp_ep >> 3));
		if (s->ruby.cfp_jit_return)
			jit_return = page_word(&s->frame_page, at + (s->ruby.cfp_jit_return >> 3));
	} else {
		if (page_read(s, &s->frame_page, cfp + s->ruby.cfp_pc, &pc) ||
		        page_read(s, &s->frame_page, cfp + s->ruby.cfp_iseq, &code) ||
		        page_read(s, &s->frame_page, cfp + s->ruby.cfp_ep, &ep)) {
			s->interp_outcome = WALK_UNREADABLE;
			return 1;
		}
		if (s->ruby.cfp_jit_return)
			page_read(s, &s->frame_page, cfp + s->ruby.cfp_jit_return, &jit_return);
	}
	if (jit_return)
		extra |= INTERP_F_JIT;

	if (ruby_env_read(s, ep, &method, &outer, &flags)) {
		extra |= INTERP_F_EP_FAULT;
	} else {
		/* A block's method stands in the environment of its method, or of the bmethod on
		 * the way (vm_insnhelper.c, rb_vm_frame_method_entry). */
		env_flags = flags;
		for (int hop = 0; hop < RPROF_MAX_EP_HOPS; hop++) {
			if (env_flags & (VM_ENV_FLAG_LOCAL | VM_FRAME_FLAG_BMETHOD))
				break;
			if (ruby_env_read(s, outer & ~3ULL, &method, &outer, &env_flags)) {
				method = 0;
				extra |= INTERP_F_EP_FAULT;
				break;
			}
		}
		if (!(extra & INTERP_F_EP_FAULT) &&
		        !(env_flags & (VM_ENV_FLAG_LOCAL | VM_FRAME_FLAG_BMETHOD))) {
			method = 0;
			extra |= INTERP_F_EP_HOPS;
		}
	}
	seen = bpf_map_lookup_elem(&rp_seen, &zero);
	if (seen) {
		ruby_seen(s, seen, code);
		ruby_seen(s, seen, method);
	}
	record_word(s, pc);
	record_word(s, code);
	record_word(s, method);
	record_word(s, (__u64)extra << 32 | (__u32)flags);
	s->nr_interp++;
	s->frame_addr = cfp + s->ruby.cfp_sz;
	return 0;
}

/* What the collector is doing, and a number that changes whenever objects may have been freed
 * since. */
static __always_inline void ruby_gc_state(struct scratch *s, __u64 thread)
{
	__u64 flags_word = 0, gc_count = 0, ractor, running, objspace = s->ruby.objspace_addr;
	__u32 off = s->ruby.objspace_flags;
	__u32 flags;

	s->gc_gen = 0;
	if (!objspace)
		return;
	if (ruby_read(s, objspace + (off & ~7U), &flags_word))
		return;
	flags = (__u32)(flags_word >> ((off & 7) * 8));
	if (s->ruby.objspace_gc_count)
		ruby_read(s, objspace + s->ruby.objspace_gc_count, &gc_count);
	s->gc_gen = gc_count << 2 | (flags & 3);
	if (!(flags & 1 << 5))
		return;
	/* The flag is the VM's; the thread that collects is the one with the GVL. */
	if (s->ruby.ractor_running) {
		if (ruby_read(s, thread + s->ruby.thread_ractor, &ractor) ||
		        ruby_read(s, ractor + s->ruby.ractor_running, &running) ||
		        running != thread)
			return;
	}
	s->rec.head.flags |= SAMPLE_F_IN_GC;
}

/* Does the stack pointer lie in the machine stack that this context names? In a fiber switch it
 * does not: the machine stack is switched before the context (cont.c, fiber_setcontext,
 * fiber_restore_thread). */
static __always_inline void ruby_check_stack(struct scratch *s, __u64 sp)
{
	__u64 start = ruby_ec_word(s, s->ruby.ec_machine_stack_start);
	__u64 size = ruby_ec_word(s, s->ruby.ec_machine_stack_maxsize);

	/* The sizes that Ruby knows leave out guard pages and the frames above the start. */
	if (start == 0 || size == 0)
		return;
	if (sp > start + RPROF_PAGE_SZ || sp + size + (1 << 20) < start)
		s->rec.head.flags |= SAMPLE_F_OFF_STACK;
}

static __always_inline void ruby_walk(struct scratch *s, __u64 tp)
{
	struct ruby_loop loop = {.s = s};
	__u64 ec = 0, size;

	s->nr_interp = 0;
	s->new_code = 0;
	s->frame_page.base = 1;
	s->env_page.base = 1;
	s->interp_outcome = WALK_UNREADABLE;
	if (ruby_ec_find(s, tp, &ec))
		goto out;
	if (ec == 0) {
		s->interp_outcome = WALK_NO_CONTEXT;
		goto out;
	}
	s->rec.head.context = ec;
	s->rec.head.reads++;
	if (bpf_probe_read_user(s->context, sizeof(s->context), (const void *)ec))
		goto out;
	s->interp_stack_lo = ruby_ec_word(s, s->ruby.ec_vm_stack);
	/* A thread that starts or ends has no VM stack (vm.c, rb_ec_clear_vm_stack) and no frames.
	 */
	if (s->interp_stack_lo == 0) {
		s->interp_outcome = WALK_NO_CONTEXT;
		goto out;
	}
	size = ruby_ec_word(s, s->ruby.ec_vm_stack_size);
	s->frame_addr = ruby_ec_word(s, s->ruby.ec_cfp);
	s->interp_outcome = WALK_BAD_CONTEXT;
	if (size > 1 << 28 || s->frame_addr < s->interp_stack_lo)
		goto out;
	s->interp_stack_hi = s->interp_stack_lo + size * 8;
	s->frames_end = s->interp_stack_hi;
	if (s->frame_addr > s->frames_end)
		goto out;
	ruby_gc_state(s, ruby_ec_word(s, s->ruby.ec_thread));
	ruby_check_stack(s, s->rec.head.sp);
	s->interp_outcome = WALK_LIMIT;
	bpf_loop(RPROF_MAX_INTERP + 1, ruby_step, &loop, 0);
out:
	s->rec.head.nr_interp = s->nr_interp;
	s->rec.head.interp_outcome = s->interp_outcome;
	s->rec.head.gc_gen = s->gc_gen;
	if (s->new_code)
		s->rec.head.flags |= SAMPLE_F_NEW_CODE;
}

static __always_inline int ruby_is_vm_code(const struct scratch *s, __u64 pc)
{
	return (pc > s->ruby.vm_exec_lo && pc < s->ruby.vm_exec_hi) ||
	       (pc > s->ruby.vm_core_lo && pc < s->ruby.vm_core_hi);
}

/*
 * Out of YJIT's code, which has no CFI: the entry pushes three registers, and rbp is left alone
 * (yjit_entry_prologue, 3.1 to 4.0), so the return address lies at sp + 24. A helper's arguments
 * may have been pushed above: then the first word that returns into vm_exec or vm_exec_core, which
 * nothing else on a JIT frame can.
 */
static __always_inline enum unwind_step_result ruby_step_jit(
        struct scratch *s, struct unwind_state *u)
{
	__u64 ra = 0;

	for (int word = 3; word < 64; word++) {
		if (page_read(s, &s->stack_page, u->sp + word * 8, &ra))
			return UNWIND_STEP_UNREADABLE;
		if (ruby_is_vm_code(s, ra)) {
			u->pc = ra;
			u->sp += (word + 1) * 8;
			u->interrupted = 0;
			return UNWIND_STEP_NEXT;
		}
	}
	return UNWIND_STEP_NO_CFI;
}

#endif
