#include "record/kernel.h"

#include "bpf/rprof.skel.h"
#include "record/sideband.h"
#include "record/unwind_maps.h"
#include "record/kept_walk.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Walks that are kept, one for each thread: twice as many as there are threads, between these. */
enum { MIN_KEPT = 16, MAX_KEPT = 256 };

enum { MAX_TAG = 4095 }; /* struct rprof_proc */

/* Room in the tables for what the processes map later: dlopen'ed extensions. */
enum { SPARE_CHUNKS = 32, SPARE_PAGES = 16384, SPARE_RULES = 16384 };

struct kernel {
	struct trigger_options options;
	struct rprof_bpf *skel;
	struct ring_buffer *ring;
	struct sideband *sideband;
	int epoll_fd;
	int stats_fd;
	int nr_cpus;
	struct bpf_link **links; /* of all programs: at most one for each trigger and CPU */
	size_t nr_links;
	struct table_store store;
	void *rows, *pages, *rules; /* mappings of the BPF arrays */
	size_t rows_sz, pages_sz, rules_sz;
	struct process *const *processes;
	size_t nr_processes;
	uint32_t generation; /* counts the tables that were made */
	uint32_t last_tag;   /* that was given to an interpreter */
	uint32_t *valid;     /* for each process: which of its two mapping tables is valid now */
	const struct kernel_sink *sink; /* while draining */
	struct kept_walks *kept;
	uint64_t ring_bytes, reads, lookups, bad_records, check_whole;
	uint64_t *counter_values; /* of each CPU, while a counter is read */
};

static int silent(enum libbpf_print_level level, const char *fmt, va_list args)
{
	/* libbpf's own words are for developers: RPROF_DEBUG=1 shows them. */
	if (getenv("RPROF_DEBUG") == NULL)
		return 0;
	return vfprintf(stderr, fmt, args);
}

static void file_word(const char *path, char *out, size_t n)
{
	FILE *f = fopen(path, "re");

	snprintf(out, n, "unknown");
	if (f == NULL)
		return;
	if (fgets(out, (int)n, f) != NULL)
		out[strcspn(out, "\n")] = '\0';
	fclose(f);
}

static int permission_error(struct err *err, const char *what, int code)
{
	char paranoid[32], unprivileged[32];

	file_word("/proc/sys/kernel/perf_event_paranoid", paranoid, sizeof(paranoid));
	file_word("/proc/sys/kernel/unprivileged_bpf_disabled", unprivileged, sizeof(unprivileged));
	return err_set(err, code,
	        "%s is not permitted: run as root, or give rprof CAP_BPF, CAP_PERFMON and "
	        "CAP_SYS_PTRACE "
	        "(kernel.perf_event_paranoid is %s, kernel.unprivileged_bpf_disabled is %s; "
	        "without these "
	        "capabilities no value of the two is enough)",
	        what, paranoid, unprivileged);
}

static void *map_array(const struct bpf_map *map, size_t stride, size_t *sz)
{
	long page = sysconf(_SC_PAGESIZE);
	void *mem;

	*sz = stride * bpf_map__max_entries(map);
	*sz = (*sz + (size_t)page - 1) & ~((size_t)page - 1);
	mem = mmap(NULL, *sz, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
	return mem == MAP_FAILED ? NULL : mem;
}

/* The files of all executable mappings, each once. The list is the caller's. */
static int mapped_files(const struct kernel *s, struct dso ***out, size_t *nr)
{
	struct hash64 seen;
	struct dso **dsos;
	size_t max = 0;
	int rc = 0;

	for (size_t i = 0; i < s->nr_processes; i++)
		max += s->processes[i]->maps.nr;
	dsos = calloc(max + 1, sizeof(*dsos));
	if (dsos == NULL)
		return -ENOMEM;
	*nr = 0;
	hash64_init(&seen);
	for (size_t i = 0; i < s->nr_processes; i++) {
		struct process *p = s->processes[i];

		for (size_t j = 0; j < p->maps.nr && rc == 0; j++) {
			const struct mapping *m = &p->maps.v[j];
			struct dso *dso;

			if (!(m->prot & MAPS_PROT_EXEC) ||
			        dso_cache_get(p->dsos, &p->target, m, &dso, NULL) != 0 ||
			        hash64_find(&seen, (uint64_t)(uintptr_t)dso) != NULL)
				continue;
			rc = hash64_put(&seen, (uint64_t)(uintptr_t)dso, 1);
			dsos[(*nr)++] = dso;
		}
	}
	hash64_release(&seen);
	if (rc != 0)
		free(dsos);
	else
		*out = dsos;
	return rc;
}

/* How large the tables must be for what the processes map now. */
static int size_tables(
        const struct kernel *s, uint32_t *chunks, uint32_t *pages, uint32_t *rules, struct err *err)
{
	uint64_t rows = 0;
	struct dso **dsos;
	size_t nr;
	int rc = mapped_files(s, &dsos, &nr);

	if (rc != 0) {
		err_set(err, rc, "out of memory");
		return rc;
	}
	tables_build(dsos, nr);
	*pages = SPARE_PAGES;
	*rules = SPARE_RULES;
	for (size_t i = 0; i < nr; i++) {
		const struct unwind_table *t = dso_unwind_table(dsos[i], NULL);

		if (t != NULL)
			table_size(t, &rows, pages, rules);
	}
	free(dsos);
	*chunks = SPARE_CHUNKS + (uint32_t)(rows + rows / 4) / UNWIND_CHUNK_ROWS;
	return 0;
}

static size_t count_threads(pid_t pid)
{
	char path[32];
	size_t nr = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (dir == NULL)
		return 1;
	while (readdir(dir) != NULL)
		nr++;
	closedir(dir);
	return nr;
}

/* How many walks to keep: a power of two. Threads that share a slot cost one another the walk that
 * was kept, nothing else. */
static uint32_t nr_kept_walks(const struct kernel *s)
{
	size_t nr_threads = 0;
	uint32_t nr = MIN_KEPT;

	for (size_t i = 0; i < s->nr_processes; i++)
		nr_threads += count_threads(s->processes[i]->target.pid);
	while (nr < MAX_KEPT && nr < 2 * nr_threads)
		nr *= 2;
	return nr;
}

static void unmap_tables(struct kernel *s)
{
	if (s->rows != NULL)
		munmap(s->rows, s->rows_sz);
	if (s->pages != NULL)
		munmap(s->pages, s->pages_sz);
	if (s->rules != NULL)
		munmap(s->rules, s->rules_sz);
	s->rows = NULL;
	s->pages = NULL;
	s->rules = NULL;
}

/* Only while they are written: all of them counts as this process's memory. */
static int map_tables(struct kernel *s, struct err *err)
{
	struct rprof_bpf *skel = s->skel;

	if (s->rows != NULL)
		return 0;
	s->rows = map_array(skel->maps.rp_rows, UNWIND_CHUNK_ROWS * sizeof(uint32_t), &s->rows_sz);
	s->pages = map_array(skel->maps.rp_pages, sizeof(struct unwind_page), &s->pages_sz);
	s->rules = map_array(skel->maps.rp_rules, sizeof(struct unwind_rule), &s->rules_sz);
	if (s->rows == NULL || s->pages == NULL || s->rules == NULL) {
		unmap_tables(s);
		return err_set(
		        err, -ENOMEM, "the BPF tables cannot be mapped: %s", strerror(errno));
	}
	s->store.rows = s->rows;
	s->store.pages = s->pages;
	s->store.rules = s->rules;
	return 0;
}

static struct bpf_program *program_of(const struct kernel *s, const struct trigger *t)
{
	return bpf_object__find_program_by_name(s->skel->obj, t->program);
}

static int load_skeleton(struct kernel *s, struct err *err)
{
	uint32_t chunks, pages, rules, nr_kept = nr_kept_walks(s);
	struct utsname uts;
	struct stat ns;
	int rc;

	libbpf_set_print(silent);
	if (kept_walks_new(nr_kept, &s->kept) != 0)
		return err_set(err, -ENOMEM, "out of memory");
	if (access("/sys/kernel/btf/vmlinux", R_OK) != 0)
		return err_set(err, -ENOTSUP,
		        "this kernel offers no BTF (/sys/kernel/btf/vmlinux is missing): rprof "
		        "needs a kernel "
		        "built with CONFIG_DEBUG_INFO_BTF, as those of Debian, Ubuntu and Fedora "
		        "are");
	s->skel = rprof_bpf__open();
	if (s->skel == NULL)
		return err_set(err, -errno, "the BPF object cannot be opened: %s", strerror(errno));
	if (stat("/proc/self/ns/pid", &ns) != 0)
		return err_set(
		        err, -errno, "/proc/self/ns/pid cannot be read: %s", strerror(errno));
	s->skel->rodata->rp_pidns_ino = ns.st_ino;
	for (size_t i = 0; runtimes[i] != NULL; i++) {
		rc = runtime_check_walk(runtimes[i],
		        (const uint32_t *)s->skel->rodata->rp_config_sz,
		        ARRAY_SIZE(s->skel->rodata->rp_config_sz), err);
		if (rc != 0)
			return rc;
	}
	rc = size_tables(s, &chunks, &pages, &rules, err);
	if (rc != 0)
		return rc;
	s->nr_cpus = libbpf_num_possible_cpus();
	if (s->nr_cpus < 1)
		return err_set(err, -EIO, "the number of CPUs cannot be read");
	bpf_map__set_max_entries(s->skel->maps.rp_rows, chunks);
	bpf_map__set_max_entries(s->skel->maps.rp_pages, pages);
	bpf_map__set_max_entries(s->skel->maps.rp_rules, rules);
	bpf_map__set_max_entries(s->skel->maps.rp_scratch, (uint32_t)s->nr_cpus * 2);
	bpf_map__set_max_entries(s->skel->maps.rp_mappings, (uint32_t)s->nr_processes * 2);
	bpf_map__set_max_entries(s->skel->maps.rp_plans, (uint32_t)s->nr_processes);
	/* And one that is nobody's. */
	bpf_map__set_max_entries(s->skel->maps.rp_kept, nr_kept + 1);
	s->skel->rodata->rp_kept_mask = nr_kept - 1;
#ifdef RPROF_CHECK
	if (getenv("RPROF_PLANT") != NULL)
		s->skel->rodata->rp_planted = (uint32_t)atoi(getenv("RPROF_PLANT"));
#endif
	for (size_t i = 0; i < NR_TRIGGERS; i++) {
		struct bpf_program *prog = program_of(s, &triggers[i]);

		if (prog == NULL)
			return err_set(err, -EINVAL, "the BPF object has no program %s",
			        triggers[i].program);
		bpf_program__set_autoload(prog, trigger_is_on(&triggers[i], &s->options));
	}
	rc = rprof_bpf__load(s->skel);
	/* -EACCES is what the verifier says of a program too. */
	if (rc == -EPERM || (rc == -EACCES && geteuid() != 0))
		return permission_error(err, "loading BPF programs", -EPERM);
	if (rc != 0)
		return err_set(err, -ENOTSUP,
		        "Linux %s refused the BPF programs: %s (rprof needs Linux 5.17 or newer; "
		        "RPROF_DEBUG=1 shows the verifier's words, which a bug report needs)",
		        uname(&uts) == 0 ? uts.release : "", strerror(-rc));
	rc = map_tables(s, err);
	if (rc != 0)
		return rc;
	table_store_init(&s->store, s->rows, chunks, s->pages, pages, s->rules, rules);
	return 0;
}

static size_t process_index(const struct kernel *s, const struct process *p)
{
	for (size_t i = 0; i < s->nr_processes; i++)
		if (s->processes[i] == p)
			return i;
	return SIZE_MAX;
}

/* How to capture what names the interpreter's objects. */
static int load_plan(struct kernel *s, const struct process *p, uint32_t index, struct err *err)
{
	struct capture_plan *plan = malloc(sizeof(*plan));
	int rc = 0;

	if (plan == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	if (p->ops->capture_plan == NULL)
		memset(plan, 0, sizeof(*plan));
	else if (!p->ops->capture_plan(p->rt, plan))
		rc = err_set(err, -EINVAL, "there is no plan for the objects of process %d",
		        (int)p->target.pid);
	if (rc == 0 && bpf_map_update_elem(
	                       bpf_map__fd(s->skel->maps.rp_plans), &index, plan, BPF_ANY) != 0)
		rc = err_set(err, -errno, "the plan for process %d cannot be loaded: %s",
		        (int)p->target.pid, strerror(errno));
	free(plan);
	return rc;
}

int kernel_update_process(struct kernel *s, struct process *p, struct err *err)
{
	size_t index = process_index(s, p);
	uint32_t tgid = (uint32_t)p->target.pid, slot;
	struct rprof_proc proc = {0};
	struct rprof_mappings *maps;
	int rc = 0, one;

	if (index == SIZE_MAX)
		return err_set(err, -EINVAL, "process %u is not part of this recording", tgid);
	p->told_generation = p->generation;
	rc = map_tables(s, err);
	if (rc != 0)
		return rc;
	maps = calloc(1, sizeof(*maps));
	if (maps == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	maps->generation = ++s->generation;
	rc = table_store_map(&s->store, p, maps, err);
	unmap_tables(s);
	/* The walk that runs now keeps the table that is valid now. */
	s->valid[index] ^= 1;
	slot = (uint32_t)index * 2 + s->valid[index];
	if (bpf_map_update_elem(bpf_map__fd(s->skel->maps.rp_mappings), &slot, maps, BPF_ANY) != 0)
		rc = err_set(err, -errno, "the mappings of process %u cannot be loaded: %s", tgid,
		        strerror(errno));
	free(maps);
	if (p->rt != NULL) {
		if (p->rt_tag == 0)
			p->rt_tag = s->last_tag = s->last_tag % MAX_TAG + 1;
		one = load_plan(s, p, (uint32_t)index, err);
		if (one != 0)
			rc = one;
		proc.runtime = p->ops->id;
		proc.plan = (uint32_t)index;
		proc.tag = p->rt_tag;
		p->ops->walker_config(p->rt, proc.config);
	}
	proc.mappings = slot;
	if (bpf_map_update_elem(bpf_map__fd(s->skel->maps.rp_procs), &tgid, &proc, BPF_ANY) != 0)
		rc = err_set(err, -errno, "process %u cannot be added: %s", tgid, strerror(errno));
	return rc;
}

void kernel_remove_process(struct kernel *s, struct process *p)
{
	uint32_t tgid = (uint32_t)p->target.pid;

	bpf_map_delete_elem(bpf_map__fd(s->skel->maps.rp_procs), &tgid);
}

/* False when the kernel's plain walk found other frames than the record has, now that it is whole.
 */
static bool is_as_checked(const struct rprof_sample *whole)
{
#ifdef RPROF_CHECK
	const uint64_t *words = record_native(whole);
	size_t nr = whole->nr_native + whole->nr_interp * sizeof(struct interp_frame) / 8;
	uint64_t sum = 1;

	for (size_t i = 0; i < nr; i++)
		sum = walk_sum(sum, words[i]);
	return whole->check_sum == 0 || whole->check_sum == (sum != 0 ? sum : 1);
#else
	return true;
#endif
}

static void on_sample(struct kernel *s, const struct rprof_sample *record, size_t size)
{
	const struct rprof_sample *whole;
	size_t whole_sz;

	if (kept_walks_expand(s->kept, record, size, &whole, &whole_sz) != 0) {
		s->bad_records++;
		return;
	}
	s->reads += record->reads;
	s->lookups += record->lookups;
	if (!is_as_checked(whole))
		s->check_whole++;
	s->sink->sample(s->sink->ctx, whole, whole_sz);
}

static int on_record(void *ctx, void *data, size_t size)
{
	const struct rprof_record *record = data;
	struct kernel *s = ctx;

	s->ring_bytes += size;
	if (size < sizeof(*record) || record->size > size)
		s->bad_records++;
	else if (record->type == RECORD_SAMPLE)
		on_sample(s, data, record->size);
	else if (record->type == RECORD_CAPTURE && record->size >= sizeof(struct rprof_capture))
		s->sink->capture(s->sink->ctx, data, record->size);
	else
		s->bad_records++;
	/* An error ends the round; this record is consumed all the same. */
	return s->sink->more(s->sink->ctx) ? 0 : -EAGAIN;
}

int kernel_new(const struct trigger_options *options, struct process *const *processes,
        size_t nr_processes, struct kernel **out, struct err *err)
{
	struct kernel *s = calloc(1, sizeof(*s));
	int rc;

	if (s == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	s->options = *options;
	s->processes = processes;
	s->nr_processes = nr_processes;
	s->stats_fd = -1;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->valid = calloc(nr_processes, sizeof(*s->valid));
	if (s->epoll_fd < 0 || s->valid == NULL) {
		rc = err_set(err, -ENOMEM, "out of memory");
		goto out;
	}
	rc = load_skeleton(s, err);
	if (rc != 0)
		goto out;
	s->links = calloc((size_t)s->nr_cpus * NR_TRIGGERS, sizeof(struct bpf_link *));
	s->counter_values = calloc((size_t)s->nr_cpus, sizeof(*s->counter_values));
	if (s->links == NULL || s->counter_values == NULL) {
		rc = err_set(err, -ENOMEM, "out of memory");
		goto out;
	}
	/* Statistics are a nicety: without them the summary says less. */
	s->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	s->ring = ring_buffer__new(bpf_map__fd(s->skel->maps.rp_ring), on_record, s, NULL);
	if (s->ring == NULL) {
		rc = err_set(err, -errno, "the ring buffer cannot be mapped: %s", strerror(errno));
		goto out;
	}
	rc = sideband_new(s->nr_cpus, &s->sideband, err);
	if (rc != 0) {
		if (rc == -EPERM || rc == -EACCES)
			rc = permission_error(err, "opening perf events", -EPERM);
		goto out;
	}
	if (sideband_watch(s->sideband, s->epoll_fd) != 0) {
		rc = err_set(err, -EIO, "events cannot be watched: %s", strerror(errno));
		goto out;
	}
	for (size_t i = 0; i < nr_processes; i++) {
		rc = kernel_update_process(s, processes[i], err);
		if (rc != 0 && rc != -ENOSPC)
			goto out;
	}
	*out = s;
	return 0;
out:
	kernel_free(s);
	return rc;
}

void kernel_free(struct kernel *s)
{
	if (s == NULL)
		return;
	if (s->links != NULL)
		kernel_stop(s);
	free(s->links);
	free(s->counter_values);
	sideband_free(s->sideband);
	ring_buffer__free(s->ring);
	unmap_tables(s);
	table_store_release(&s->store);
	rprof_bpf__destroy(s->skel);
	if (s->stats_fd >= 0)
		close(s->stats_fd);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	kept_walks_free(s->kept);
	free(s->valid);
	free(s);
}

static int attach_clock(struct kernel *s, struct bpf_program *prog, struct err *err)
{
	struct perf_event_attr attr = {
	        .type = PERF_TYPE_SOFTWARE,
	        .size = sizeof(attr),
	        .config = PERF_COUNT_SW_CPU_CLOCK,
	        .freq = 1,
	        .sample_freq = s->options.rate_hz,
	};
	struct bpf_link *link;
	int nr = 0;

	for (int cpu = 0; cpu < s->nr_cpus; cpu++) {
		int fd =
		        (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

		if (fd < 0 && (errno == ENODEV || errno == EINVAL) && nr > 0)
			continue; /* possible, but not online */
		if (fd < 0 && (errno == EACCES || errno == EPERM))
			return permission_error(err, "sampling the CPUs", -EPERM);
		if (fd < 0)
			return err_set(err, -errno, "CPU %d cannot be sampled at %u Hz: %s", cpu,
			        s->options.rate_hz, strerror(errno));
		link = bpf_program__attach_perf_event(prog, fd);
		if (link == NULL) {
			int rc = -errno;

			close(fd);
			return err_set(err, rc, "the sampler cannot be attached to CPU %d: %s", cpu,
			        strerror(-rc));
		}
		s->links[s->nr_links++] = link; /* closes fd */
		nr++;
	}
	return 0;
}

static int attach_syscalls(struct kernel *s, struct bpf_program *prog, struct err *err)
{
	struct syscall_set set = {0};
	struct bpf_link *link;
	uint32_t zero = 0;

	for (size_t i = 0; i < s->options.nr_syscalls; i++) {
		uint32_t number = s->options.syscalls[i];

		if (number < RPROF_MAX_SYSCALL)
			set.bit[number / 64] |= 1ULL << (number % 64);
	}
	if (bpf_map_update_elem(bpf_map__fd(s->skel->maps.rp_syscalls), &zero, &set, BPF_ANY) != 0)
		return err_set(err, -errno, "the list of system calls cannot be loaded: %s",
		        strerror(errno));
	link = bpf_program__attach(prog);
	if (link == NULL)
		return err_set(err, -errno, "system calls cannot be traced: %s", strerror(errno));
	s->links[s->nr_links++] = link;
	return 0;
}

int kernel_start(struct kernel *s, uint64_t end_ns, struct err *err)
{
	static int (*const attach[])(struct kernel *, struct bpf_program *, struct err *) = {
	        [ATTACH_CLOCK] = attach_clock,
	        [ATTACH_SYSCALLS] = attach_syscalls,
	};
	int rc = 0;

	s->skel->bss->rp_end_ns = end_ns;
	for (size_t i = 0; i < NR_TRIGGERS && rc == 0; i++)
		if (trigger_is_on(&triggers[i], &s->options))
			rc = attach[triggers[i].attach](s, program_of(s, &triggers[i]), err);
	return rc;
}

void kernel_stop(struct kernel *s)
{
	/* At once: to detach a program takes the kernel a moment. */
	s->skel->bss->rp_end_ns = 1;
	while (s->nr_links != 0)
		bpf_link__destroy(s->links[--s->nr_links]);
}

int kernel_ring_fd(const struct kernel *s)
{
	return ring_buffer__epoll_fd(s->ring);
}

int kernel_sideband_fd(const struct kernel *s)
{
	return s->epoll_fd;
}

bool kernel_drain(struct kernel *s, const struct kernel_sink *sink)
{
	s->sink = sink;
	return ring_buffer__consume(s->ring) != -EAGAIN;
}

bool kernel_mapped(struct kernel *s, void (*fn)(void *ctx, int pid), void *ctx)
{
	return sideband_read(s->sideband, fn, ctx);
}

static uint64_t counter_sum(const struct kernel *s, uint32_t counter)
{
	uint64_t *values = s->counter_values, sum = 0;

	if (bpf_map_lookup_elem(bpf_map__fd(s->skel->maps.rp_counters), &counter, values) != 0)
		return 0;
	for (int i = 0; i < s->nr_cpus; i++)
		sum = counter == COUNTER_LONGEST ? MAX(sum, values[i]) : sum + values[i];
	return sum;
}

static void add_program(
        const struct bpf_program *prog, struct kernel_stats *out, uint32_t *verified)
{
	struct bpf_prog_info info = {0};
	uint32_t len = sizeof(info);
	int fd = bpf_program__fd(prog);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) != 0)
		return;
	out->bpf_ns += info.run_time_ns;
	out->bpf_runs += info.run_cnt;
	out->missed += info.recursion_misses;
	*verified = info.verified_insns;
}

void kernel_stats(const struct kernel *s, struct kernel_stats *out)
{
	*out = (struct kernel_stats){
	        .samples = counter_sum(s, COUNTER_SAMPLES),
	        .lost = counter_sum(s, COUNTER_LOST_RING),
	        .no_user = counter_sum(s, COUNTER_NO_USER),
	        .wakeups = counter_sum(s, COUNTER_WAKEUPS),
	        .captures = counter_sum(s, COUNTER_CAPTURES),
	        .looked_at = counter_sum(s, COUNTER_LOOKED_AT),
	        .unsent = counter_sum(s, COUNTER_UNSENT),
	        .longest_ns = counter_sum(s, COUNTER_LONGEST),
	        .ring_bytes = s->ring_bytes,
	        .reads = s->reads,
	        .lookups = s->lookups,
	        .bad_records = s->bad_records,
	        .checked = counter_sum(s, COUNTER_CHECKED),
	        .check_frames = counter_sum(s, COUNTER_CHECK_FRAMES),
	        .check_native = counter_sum(s, COUNTER_CHECK_NATIVE),
	        .check_interp = counter_sum(s, COUNTER_CHECK_INTERP),
	        .check_whole = s->check_whole,
	        .check_captures = counter_sum(s, COUNTER_CHECK_CAPTURES),
	        .check_capture = counter_sum(s, COUNTER_CHECK_CAPTURE),
	};
	for (size_t i = 0; i < NR_TRIGGERS; i++)
		add_program(program_of(s, &triggers[i]), out, &out->verified[i]);
}
