/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The few kernel types that the programs read, for CO-RE: the loader finds each field in the
 * running kernel's BTF by name, so nothing here is a layout. Those of an architecture are in
 * bpf/arch/.
 */
#ifndef BPF_VMLINUX_MIN_H
#define BPF_VMLINUX_MIN_H

struct ns_common {
	unsigned int inum;
} CORE;

struct pid_namespace {
	struct ns_common ns;
} CORE;

struct upid {
	int nr;
	struct pid_namespace *ns;
} CORE;

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* level + 1 */
} CORE;

struct task_struct {
	struct task_struct *group_leader;
	struct pid *thread_pid;
	unsigned int flags;
	__u64 self_exec_id;      /* counts the execs of the process: fs/exec.c, begin_new_exec() */
	unsigned long sas_ss_sp; /* sigaltstack() */
	unsigned long sas_ss_size;
	char comm[16];
} CORE;

#endif
