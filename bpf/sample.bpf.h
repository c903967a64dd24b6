/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * One sample: whose it is, the walks, and the record that is sent. All triggers share it.
 */
#ifndef BPF_SAMPLE_BPF_H
#define BPF_SAMPLE_BPF_H

#include "bpf/arch.bpf.h"
#include "bpf/native_walk.bpf.h"
#include "bpf/check_walk.bpf.h"
#include "bpf/pidns.bpf.h"

enum scratch_slot { SCRATCH_PERF = 0, SCRATCH_TRACEPOINT = 1 };

struct sample_origin {
	__u16 trigger;
	__u16 flags;
	__u32 syscall;
	struct unwind_state leaf; /* the user registers */
};

/* What runs before anything is copied: do we still record, and this process? */
static __always_inline struct rprof_proc *sampled_process(struct bpf_pidns_info *ids)
{
	struct rprof_proc *proc;

	if (rp_end_ns != 0 && bpf_ktime_get_ns() >= rp_end_ns)
		return NULL;
	if (!current_ids(ids))
		return NULL;
	proc = bpf_map_lookup_elem(&rp_procs, &ids->tgid);
	/* A walk for nothing would take time from the program, and from who is to empty the buffer,
	 * just when it is short. */
	if (proc && ring_is_full()) {
		count(COUNTER_LOST_RING);
		return NULL;
	}
	return proc;
}

static __always_inline void kernel_walk(struct scratch *s, void *ctx)
{
	long sz = bpf_get_stack(ctx, &s->rec.word[RECORD_HEADER_WORDS], RPROF_MAX_KERNEL * 8, 0);

	if (sz > 0 && sz <= RPROF_MAX_KERNEL * 8) {
		s->rec.head.nr_kernel = sz / 8;
		s->pos = RECORD_HEADER_WORDS + s->rec.head.nr_kernel;
	}
}

/* The thread's kept walk, to use and to change until kept_release(). Where a walk is at work on it
 * (of another thread with this slot, or the one that this one interrupts), an empty one. */
static __always_inline struct kept_walk *kept_acquire(
        struct scratch *s, const struct bpf_pidns_info *ids)
{
	__u32 key = ids->pid & rp_kept_mask;
	struct kept_walk *kept = bpf_map_lookup_elem(&rp_kept, &key);

	s->keep = 0;
	if (!kept)
		return NULL;
	s->rec.head.keep_slot = key;
	if (__sync_val_compare_and_swap(&kept->busy, 0, 1) != 0) {
		key = rp_kept_mask + 1;
		return bpf_map_lookup_elem(&rp_kept, &key);
	}
	s->keep = 1;
	if (kept->tgid != ids->tgid || kept->tid != ids->pid) {
		kept->tgid = ids->tgid;
		kept->tid = ids->pid;
		kept->nr_native = 0;
		kept->nr_interp = 0;
	}
	s->rec.head.flags |= SAMPLE_F_KEPT;
	s->rec.head.keep_seq = ++kept->seq;
	return kept;
}

static __always_inline void kept_release(struct scratch *s, struct kept_walk *kept, bool sent)
{
	if (!s->keep)
		return;
	/* User space has not got what the next record would build on. */
	if (!sent) {
		kept->nr_native = 0;
		kept->nr_interp = 0;
	}
	__sync_lock_test_and_set(&kept->busy, 0);
}

static __always_inline bool send_record(struct scratch *s)
{
	__u64 size = (__u64)s->pos * 8, flags;

	if (size > sizeof(s->rec))
		return false;
	/* Without a name that it needs it would be given another's. */
	if (s->capture_lost) {
		count(COUNTER_LOST_RING);
		return false;
	}
	s->rec.head.record.type = RECORD_SAMPLE;
	s->rec.head.record.size = size;
	/* User space drains on a timer; it is woken at once for a mapping that it does not know,
	 * and before the buffer fills up. Not for less: an interrupt to wake it costs as much as
	 * the walk. */
	flags = BPF_RB_NO_WAKEUP;
	if (s->rec.head.native_outcome == WALK_NO_MAPPING || ring_fills())
		flags = BPF_RB_FORCE_WAKEUP;
	if (flags == BPF_RB_FORCE_WAKEUP)
		count(COUNTER_WAKEUPS);
	if (bpf_ringbuf_output(&rp_ring, &s->rec, size, flags)) {
		count(COUNTER_LOST_RING);
		return false;
	}
	count(COUNTER_SAMPLES);
	return true;
}

#define PF_EXITING 0x4 /* include/linux/sched.h */

/* Where the stack pointer is if it is not on the context's stack. */
static __always_inline void check_signal_stack(struct scratch *s, struct task_struct *task)
{
	__u64 start, size;

	if (!(s->rec.head.flags & SAMPLE_F_OFF_STACK))
		return;
	start = BPF_CORE_READ(task, sas_ss_sp);
	size = BPF_CORE_READ(task, sas_ss_size);
	if (s->leaf_sp - start - 1 < size)
		s->rec.head.flags |= SAMPLE_F_SIGNAL_STACK;
}

static __always_inline void note_longest(__u64 ns)
{
	__u32 key = COUNTER_LONGEST;
	__u64 *longest = bpf_map_lookup_elem(&rp_counters, &key);

	if (longest && *longest < ns)
		*longest = ns;
}

static __always_inline int take_sample(void *ctx, enum scratch_slot which,
        const struct sample_origin *origin, struct rprof_proc *proc,
        const struct bpf_pidns_info *ids)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u32 slot = bpf_get_smp_processor_id() * 2 + which, key;
	struct scratch *s = bpf_map_lookup_elem(&rp_scratch, &slot);
	struct rprof_mappings *maps;
	struct kept_walk *kept;

	if (!s)
		return 0;
	s->rec.head = (struct rprof_sample){
	        .time_ns = bpf_ktime_get_ns(),
	        .tgid = ids->tgid,
	        .tid = ids->pid,
	        .trigger = origin->trigger,
	        .flags = origin->flags,
	        .syscall = origin->syscall,
	};
	bpf_get_current_comm(s->rec.head.comm, sizeof(s->rec.head.comm));
	s->pos = RECORD_HEADER_WORDS;
	if (origin->flags & SAMPLE_F_KERNEL)
		kernel_walk(s, ctx);
	if (BPF_CORE_READ(task, flags) & PF_EXITING)
		s->rec.head.flags |= SAMPLE_F_EXITING;
	kept = kept_acquire(s, ids);
	if (!kept)
		return 0;

	s->runtime = proc->runtime;
	s->plan = proc->plan;
	s->tag = proc->tag;
	s->image = (proc->tag + (__u32)task->self_exec_id * 61) & 0xfff;
	s->rec.head.tag = proc->tag;
	__builtin_memcpy(s->config, proc->config, sizeof(s->config));
	s->nr_captures = 0;
	s->capture_lost = 0;
	s->look_again = 0;
#ifdef RPROF_CHECK
	s->cap.check_left = CHECKED_OBJECTS;
#endif
	s->leaf_sp = origin->leaf.sp;
	key = proc->mappings;
	maps = bpf_map_lookup_elem(&rp_mappings, &key);
	if (maps) {
		s->rec.head.generation = maps->generation;
		s->u = origin->leaf;
		native_walk(s, maps, kept);
	}
	interp_walk(s, arch_thread_pointer(task), kept);
	check_signal_stack(s, task);
#ifdef RPROF_CHECK
	if (maps)
		check_walk(s, maps, kept, &origin->leaf);
#endif
	kept_release(s, kept, send_record(s));
	note_longest(bpf_ktime_get_ns() - s->rec.head.time_ns);
	return 0;
}

#endif
