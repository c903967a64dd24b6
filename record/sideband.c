#include "record/sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RING_PAGES = 16 }; /* a power of two */

struct cpu_ring {
	int fd; /* -1: CPU offline */
	struct perf_event_mmap_page *page;
};

struct sideband {
	int nr;
	size_t page_sz, ring_sz;
	struct cpu_ring *rings;
};

static int ring_open(struct sideband *sb, int cpu)
{
	struct perf_event_attr attr = {
	        .type = PERF_TYPE_SOFTWARE,
	        .size = sizeof(attr),
	        .config = PERF_COUNT_SW_DUMMY,
	        .mmap = 1, /* executable mappings only: no mmap_data */
	        .mmap2 = 1,
	        .watermark = 1,
	        .wakeup_watermark = 1,
	};
	struct cpu_ring *r = &sb->rings[cpu];
	void *mem;

	r->fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (r->fd < 0)
		return -errno;
	mem = mmap(NULL, sb->page_sz + sb->ring_sz, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (mem == MAP_FAILED) {
		int rc = -errno;

		close(r->fd);
		r->fd = -1;
		return rc;
	}
	r->page = mem;
	return 0;
}

int sideband_new(int nr_cpus, struct sideband **out, struct err *err)
{
	struct sideband *sb = calloc(1, sizeof(*sb));
	int rc = 0, nr_open = 0;

	if (sb == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	sb->page_sz = (size_t)sysconf(_SC_PAGESIZE);
	sb->ring_sz = sb->page_sz * RING_PAGES;
	sb->rings = calloc((size_t)nr_cpus, sizeof(*sb->rings));
	if (sb->rings == NULL) {
		free(sb);
		return err_set(err, -ENOMEM, "out of memory");
	}
	sb->nr = nr_cpus;
	for (int cpu = 0; cpu < nr_cpus; cpu++)
		sb->rings[cpu].fd = -1;
	for (int cpu = 0; cpu < nr_cpus; cpu++) {
		rc = ring_open(sb, cpu);
		nr_open += rc == 0;
		if (rc != 0 && rc != -ENODEV && rc != -EINVAL)
			break;
	}
	if (nr_open == 0 || (rc != 0 && rc != -ENODEV && rc != -EINVAL)) {
		sideband_free(sb);
		return err_set(err, rc, "new mappings cannot be watched: %s", strerror(-rc));
	}
	*out = sb;
	return 0;
}

void sideband_free(struct sideband *sb)
{
	if (sb == NULL)
		return;
	for (int i = 0; i < sb->nr; i++) {
		if (sb->rings[i].page != NULL)
			munmap(sb->rings[i].page, sb->page_sz + sb->ring_sz);
		if (sb->rings[i].fd >= 0)
			close(sb->rings[i].fd);
	}
	free(sb->rings);
	free(sb);
}

int sideband_watch(struct sideband *sb, int epoll_fd)
{
	for (int i = 0; i < sb->nr; i++) {
		struct epoll_event ev = {.events = EPOLLIN, .data.fd = sb->rings[i].fd};

		if (sb->rings[i].fd >= 0 &&
		        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, sb->rings[i].fd, &ev) != 0)
			return -errno;
	}
	return 0;
}

static void copy_out(
        const struct sideband *sb, const struct cpu_ring *r, uint64_t at, void *out, size_t n)
{
	const char *data = (const char *)r->page + sb->page_sz;

	for (size_t i = 0; i < n; i++)
		((char *)out)[i] = data[(at + i) & (sb->ring_sz - 1)];
}

static bool ring_read(
        struct sideband *sb, struct cpu_ring *r, void (*fn)(void *ctx, int pid), void *ctx)
{
	uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = r->page->data_tail;
	struct perf_event_header header;
	bool any = false;
	uint32_t pid;

	while (tail + sizeof(header) <= head) {
		copy_out(sb, r, tail, &header, sizeof(header));
		if (header.size < sizeof(header))
			break;
		if (header.type == PERF_RECORD_MMAP2 || header.type == PERF_RECORD_MMAP) {
			copy_out(sb, r, tail + sizeof(header), &pid, sizeof(pid));
			/* 0: a process that rprof's PID namespace does not show. */
			if (pid != 0) {
				fn(ctx, (int)pid);
				any = true;
			}
		} else if (header.type == PERF_RECORD_LOST) {
			fn(ctx, 0);
			any = true;
		}
		tail += header.size;
	}
	__atomic_store_n(&r->page->data_tail, head, __ATOMIC_RELEASE);
	return any;
}

bool sideband_read(struct sideband *sb, void (*fn)(void *ctx, int pid), void *ctx)
{
	bool any = false;

	for (int i = 0; i < sb->nr; i++)
		if (sb->rings[i].page != NULL)
			any |= ring_read(sb, &sb->rings[i], fn, ctx);
	return any;
}
