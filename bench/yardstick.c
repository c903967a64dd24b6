/*
 * yardstick RATE MS: spins for MS milliseconds under a BPF program that reads 100 times 8 bytes of
 * it, RATE times a second, and prints {"runs":N,"ns":N} as the kernel counts them.
 */
#include "bench/yardstick.skel.h"

#include <bpf/bpf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char yard[100 * 64];

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static int silent(enum libbpf_print_level level, const char *fmt, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, fmt, args) : 0;
}

static int measure(struct yardstick_bpf *skel, unsigned rate_hz, unsigned ms)
{
	struct perf_event_attr attr = {
	        .type = PERF_TYPE_SOFTWARE,
	        .size = sizeof(attr),
	        .config = PERF_COUNT_SW_CPU_CLOCK,
	        .freq = 1,
	        .sample_freq = rate_hz,
	};
	struct bpf_prog_info info = {0};
	uint32_t len = sizeof(info);
	struct bpf_link *link;
	uint64_t end;
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0) {
		perror("yardstick: perf_event_open");
		return 1;
	}
	link = bpf_program__attach_perf_event(skel->progs.yardstick, fd);
	if (link == NULL) {
		perror("yardstick: attach");
		close(fd);
		return 1;
	}
	end = now_ns() + ms * 1000000ULL;
	while (now_ns() < end)
		;
	bpf_link__destroy(link);
	if (bpf_obj_get_info_by_fd(bpf_program__fd(skel->progs.yardstick), &info, &len) != 0) {
		perror("yardstick: statistics");
		return 1;
	}
	if (skel->bss->yard_failures != 0) {
		fprintf(stderr, "yardstick: reads failed\n");
		return 1;
	}
	printf("{\"runs\":%llu,\"ns\":%llu}\n", (unsigned long long)info.run_cnt,
	        (unsigned long long)info.run_time_ns);
	return 0;
}

int main(int argc, char **argv)
{
	struct yardstick_bpf *skel;
	int stats_fd, code = 1;

	if (argc != 3) {
		fprintf(stderr, "usage: yardstick RATE MS\n");
		return 2;
	}
	memset(yard, 1, sizeof(yard));
	libbpf_set_print(silent);
	stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	skel = yardstick_bpf__open();
	if (skel != NULL) {
		skel->rodata->yard_base_addr = (uint64_t)(uintptr_t)yard;
		if (yardstick_bpf__load(skel) == 0)
			code = measure(skel, (unsigned)atoi(argv[1]), (unsigned)atoi(argv[2]));
	}
	if (code != 0)
		fprintf(stderr, "yardstick: nothing was measured (root is needed)\n");
	yardstick_bpf__destroy(skel);
	if (stats_fd >= 0)
		close(stats_fd);
	return code;
}
