/*
 * The kernel side, compiled for user space: take_sample() and all that it does, over memory that a
 * test provides, with the maps as plain variables. Built with RPROF_CHECK, so each walk is made a
 * second time, plainly, and compared.
 *
 * For one program that has no other use for the names of the kernel side; include it behind the
 * system's headers.
 */
#ifndef TESTS_UNIT_BPF_USER_H
#define TESTS_UNIT_BPF_USER_H

#ifndef RPROF_CHECK
#define RPROF_CHECK
#endif

#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* In BPF a __u64 is abi.h's uint64_t. */
#define __u64 uint64_t
#define __s64 int64_t
#define __u32 uint32_t
#define __u16 uint16_t

#define SEC(name)
#define CORE
#define __noinline          __attribute__((noinline))
#define LOADED_WITH         static volatile
#define __uint(name, value) int name
#define __type(name, type)  typeof(type) *name

#define READ_1(p, field)          ((p)->field)
#define READ_2(p, pointer, field) ((p)->pointer->field)
#define READ_N(a, b, which, ...)  which
#define BPF_CORE_READ(p, ...)     READ_N(__VA_ARGS__, READ_2, READ_1)(p, __VA_ARGS__)

#define bpf_core_field_offset(type, field) offsetof(type, field)
#define bpf_core_type_size(type)           sizeof(type)

/* What the kernel side sees, and what it has done. */
struct bpf_user {
	/* n bytes at addr of the process. 0 or -EFAULT: and then not one byte counts. */
	int (*read)(void *ctx, uint64_t addr, void *out, size_t n);
	void *ctx;
	uint64_t thread_pointer;
	uint64_t clock_ns;
	/* the tables; see record/unwind_maps.h */
	const struct unwind_page *pages;
	const uint32_t *rows;
	const struct unwind_rule *rules;
	uint32_t nr_pages, nr_chunks, nr_rules;
	/* what was put into the ring since the test emptied it */
	uint8_t *ring;
	size_t ring_sz, ring_len;
	bool ring_full; /* nothing more goes in */
	/* counted */
	uint64_t nr_reads, nr_turns; /* of memory; of loops */
};
static struct bpf_user bpf_user;

static inline void *bpf_map_lookup_elem(void *map, const void *key);

static inline long bpf_probe_read_user(void *out, uint32_t size, const void *addr)
{
	bpf_user.nr_reads++;
	if (size == 0 || bpf_user.read(bpf_user.ctx, (uintptr_t)addr, out, size) == 0)
		return 0;
	memset(out, 0, size);
	return -EFAULT;
}

static inline long bpf_loop(
        uint32_t nr, long (*turn)(uint32_t, void *), void *ctx, uint64_t unused_flags)
{
	for (uint32_t i = 0; i < nr; i++) {
		bpf_user.nr_turns++;
		if (turn(i, ctx) != 0)
			return i + 1;
	}
	return nr;
}

static inline long bpf_ringbuf_output(void *ring, void *data, uint64_t size, uint64_t flags)
{
	if (bpf_user.ring_full || size > bpf_user.ring_sz - bpf_user.ring_len)
		return -EAGAIN;
	memcpy(bpf_user.ring + bpf_user.ring_len, data, size);
	bpf_user.ring_len += size;
	return 0;
}

static inline uint64_t bpf_ringbuf_query(void *ring, uint64_t flags)
{
	return 0;
}

static inline uint64_t bpf_ktime_get_ns(void)
{
	return bpf_user.clock_ns;
}

static inline uint32_t bpf_get_smp_processor_id(void)
{
	return 0;
}

static inline long bpf_get_current_comm(void *out, uint32_t size)
{
	memset(out, 0, size);
	return 0;
}

static inline long bpf_get_stack(void *ctx, void *out, uint32_t size, uint64_t flags)
{
	return -EFAULT;
}

static inline void *bpf_get_current_task_btf(void);

static inline long bpf_task_pt_regs(void *task)
{
	return 0;
}

/* Unrolling is for the verifier. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#include "bpf/sample.bpf.h"
#pragma GCC diagnostic pop

/* One thread on one CPU; walks are kept in one slot, beside the one that is nobody's. */
static struct {
	struct scratch scratch;
	struct kept_walk kept[2];
	struct capture_slots slots;
	struct capture_plan plan;
	struct rprof_mappings mappings;
	struct rprof_proc proc;
	uint64_t counters[RPROF_NR_COUNTERS];
	struct syscall_set syscalls;
	union {
		struct task_struct task;
		struct task_struct___x86 x86;
		char room[sizeof(struct task_struct) + sizeof(struct task_struct___x86)];
	};
} bpf_maps;

static inline void *bpf_get_current_task_btf(void)
{
	memset(bpf_maps.room, 0, sizeof(bpf_maps.room));
	bpf_maps.x86.thread.fsbase = bpf_user.thread_pointer;
	return &bpf_maps.task;
}

static inline void *bpf_map_lookup_elem(void *map, const void *key)
{
	uint32_t i = *(const uint32_t *)key;

	if (map == &rp_scratch)
		return i == 0 ? &bpf_maps.scratch : NULL;
	if (map == &rp_kept)
		return i < 2 ? &bpf_maps.kept[i] : NULL;
	if (map == &rp_slots)
		return i == 0 ? &bpf_maps.slots : NULL;
	if (map == &rp_plans)
		return i == 0 ? &bpf_maps.plan : NULL;
	if (map == &rp_mappings)
		return i == 0 ? &bpf_maps.mappings : NULL;
	if (map == &rp_procs)
		return &bpf_maps.proc;
	if (map == &rp_counters)
		return i < RPROF_NR_COUNTERS ? &bpf_maps.counters[i] : NULL;
	if (map == &rp_syscalls)
		return &bpf_maps.syscalls;
	if (map == &rp_pages)
		return i < bpf_user.nr_pages ? (void *)(uintptr_t)&bpf_user.pages[i] : NULL;
	if (map == &rp_rows)
		return i < bpf_user.nr_chunks
		               ? (void *)(uintptr_t)&bpf_user.rows[(size_t)i * UNWIND_CHUNK_ROWS]
		               : NULL;
	if (map == &rp_rules)
		return i < bpf_user.nr_rules ? (void *)(uintptr_t)&bpf_user.rules[i] : NULL;
	return NULL;
}

#endif
