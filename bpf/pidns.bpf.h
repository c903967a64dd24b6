/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Who runs, as rprof's PID namespace numbers it. A task has a number in its own namespace and in
 * each one around that, outermost first (include/linux/pid.h, struct pid); rprof may live in any of
 * them. The helper bpf_get_ns_current_pid_tgid() knows the task's own namespace alone: to it, what
 * runs in a container is not there for an rprof outside.
 */
#ifndef BPF_PIDNS_BPF_H
#define BPF_PIDNS_BPF_H

#include "bpf/maps.bpf.h"

enum { MAX_PID_NS_LEVEL = 32 }; /* include/linux/pid_namespace.h */

/* All namespaces of a kernel have numbers of their own: the device they are shown on says no more.
 */
static __always_inline bool is_own_namespace(__u32 inum)
{
	return inum == (__u32)rp_pidns_ino && !IS_PLANTED(PLANTED_NAMESPACE);
}

/* As current_ids(), where rprof is not in the outermost namespace: tgid << 32 | tid, or 0. */
SUBPROGRAM __u64 nested_ids(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct pid *leader = task->group_leader->thread_pid, *own = task->thread_pid;
	__u32 level = leader->level;
	struct upid *of_leader, *of_own;
	__u64 off;

	for (__u32 i = 1; i <= MAX_PID_NS_LEVEL; i++) {
		if (i > level)
			break;
		/* Read by a helper: the verifier lets no index beyond the first entry through. */
		off = bpf_core_field_offset(struct pid, numbers) +
		      i * (__u64)bpf_core_type_size(struct upid);
		of_leader = (struct upid *)((__u64)leader + off);
		if (!is_own_namespace(BPF_CORE_READ(of_leader, ns, ns.inum)))
			continue;
		/* The threads of a process are all of one namespace. */
		of_own = (struct upid *)((__u64)own + off);
		return (__u64)BPF_CORE_READ(of_leader, nr) << 32 | (__u32)BPF_CORE_READ(of_own, nr);
	}
	return 0;
}

/* False when rprof's namespace does not see what runs, or when that has been taken off the list of
 * tasks: it is at the very end of its exit. */
static __always_inline bool current_ids(struct bpf_pidns_info *ids)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct pid *leader = task->group_leader->thread_pid;
	__u64 both;

	if (is_own_namespace(leader->numbers[0].ns->ns.inum)) {
		ids->tgid = (__u32)leader->numbers[0].nr;
		ids->pid = (__u32)task->thread_pid->numbers[0].nr;
	} else {
		both = nested_ids();
		ids->tgid = both >> 32;
		ids->pid = (__u32)both;
	}
	return ids->pid != 0;
}

#endif
