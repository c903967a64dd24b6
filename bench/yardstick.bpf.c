// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The yardstick: work that never changes, to hold the cost of a walk against. */
#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

enum { NR_READS = 100, STRIDE = 64 };

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile __u64 yard_base_addr = 0; /* NR_READS * STRIDE bytes of the process that is timed */
__u64 yard_failures = 0;

SEC("perf_event")
int yardstick(void *ctx)
{
	for (int i = 0; i < NR_READS; i++) {
		__u64 word = 0;

		if (bpf_probe_read_user(&word, sizeof(word), (void *)(yard_base_addr + i * STRIDE)))
			yard_failures++;
	}
	return 0;
}
