// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What runs in the kernel: the triggers. Each finds out whether it concerns us and where the thread
 * left user space; the rest is take_sample()'s. A record holds flat lists: kernel pcs, native pcs,
 * interpreter frames, and how each walk ended. Nothing is interleaved here: user space does that.
 */
#include "bpf/sample.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("perf_event")
int on_cpu_clock(struct bpf_perf_event_data *ctx)
{
	struct sample_origin origin = {.trigger = TRIGGER_CPU};
	struct bpf_pidns_info ids = {};
	struct rprof_proc *proc = sampled_process(&ids);

	if (!proc)
		return 0;
	switch (arch_event_leaf(ctx, &origin.leaf)) {
	case ARCH_IN_USER:
		break;
	case ARCH_IN_KERNEL:
		origin.flags = SAMPLE_F_KERNEL;
		break;
	default:
		count(COUNTER_NO_USER);
		return 0;
	}
	return take_sample(ctx, SCRATCH_PERF, &origin, proc, &ids);
}

SEC("raw_tp/sys_enter")
int on_sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
	struct sample_origin origin = {.trigger = TRIGGER_SYSCALL};
	struct bpf_pidns_info ids = {};
	struct rprof_proc *proc;
	struct syscall_set *set;
	__u64 nr = ctx->args[1];
	__u32 zero = 0;

	set = bpf_map_lookup_elem(&rp_syscalls, &zero);
	if (!set || nr >= RPROF_MAX_SYSCALL ||
	        !(set->bit[(nr >> 6) & (RPROF_MAX_SYSCALL / 64 - 1)] & 1ULL << (nr & 63)))
		return 0;
	proc = sampled_process(&ids);
	if (!proc)
		return 0;
	origin.syscall = nr;
	arch_syscall_leaf(&origin.leaf);
	return take_sample(ctx, SCRATCH_TRACEPOINT, &origin, proc, &ids);
}
