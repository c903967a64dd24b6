#include "record/recorder.h"

#include "base/buf.h"
#include "record/priority.h"
#include "record/process.h"
#include "record/unsampled.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum {
	DRAIN_MS = 100,
	COMMIT_MS = 1000,
	ROUND_MS = 50, /* so long at most records are taken before something else is looked at */
	RAISED_ROUND_MS = 10, /* with a raised priority */
	RAISED_REST_MS = 3 * RAISED_ROUND_MS,
	FINISH_MS = 10000, /* for what is in the buffer at the end */
	BOOT_TRIES = 40, /* of 50 ms: an interpreter that has just been started is not there yet */
};

struct recorder {
	struct recorder_options options;
	char *path;
	struct dso_cache *dsos;
	struct process **processes;
	size_t nr_processes;
	struct recording *rec; /* NULL: closed */
	struct kallsyms *kallsyms;
	struct kernel *kernel;
	struct pipeline *pipeline;
	struct priority priority;
	struct pollfd *fds;    /* room for all that the loop waits for */
	uint64_t round_end_ns; /* of the records that are taken now */
	bool finishing;        /* who wants to stop is obeyed already */
	uint64_t start_ns, end_ns, cpu_at_start, table_losses;
	uint64_t cpu_ns; /* that the program had used at the end, since the start */
	uint64_t unread; /* samples that were in the buffer when the time to end was over */
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static bool is_stopped(const struct recorder *r)
{
	return r->options.stop != NULL && *r->options.stop != 0;
}

static uint64_t own_cpu_ns(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return ((uint64_t)ru.ru_utime.tv_sec + (uint64_t)ru.ru_stime.tv_sec) * 1000000000ULL +
	       ((uint64_t)ru.ru_utime.tv_usec + (uint64_t)ru.ru_stime.tv_usec) * 1000ULL;
}

/* ---- start ----------------------------------------------------------------------------------- */

static int open_process(struct recorder *r, pid_t pid, struct err *err)
{
	struct process *p = NULL;
	int rc = -EINTR;

	for (int i = 0; i < BOOT_TRIES && !is_stopped(r); i++) {
		rc = process_new(pid, r->dsos, &p, err);
		if (rc != -EAGAIN)
			break;
		poll(NULL, 0, 50);
	}
	if (rc == -EINTR)
		return err_set(err, rc, "process %d was not opened: rprof was stopped", (int)pid);
	if (rc == -ENOENT && err != NULL && err->msg[0] == '\0')
		err_set(err, rc, "process %d runs no interpreter that rprof knows", (int)pid);
	if (rc == 0)
		r->processes[r->nr_processes++] = p;
	return rc;
}

static char *default_path(const struct process *p)
{
	char comm[32], when[32], *path = NULL;
	time_t now = time(NULL);
	struct tm tm;

	snprintf(comm, sizeof(comm), "%s", p->comm[0] != '\0' ? p->comm : p->ops->name);
	for (char *c = comm; *c != '\0'; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
		            (*c >= '0' && *c <= '9') || *c == '.' || *c == '_'))
			*c = '-';
	localtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
	if (asprintf(&path, "rprof-%s-%d-%s.rprof", comm, (int)p->target.pid, when) < 0)
		return NULL;
	return path;
}

static void set_meta_u64(struct recorder *r, const char *key, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	recording_set_meta(r->rec, key, text);
}

static void write_start_meta(struct recorder *r)
{
	time_t now = time(NULL);
	struct utsname uts;
	char when[64];
	struct tm tm;

	recording_set_meta(r->rec, "command", r->options.command);
	recording_set_meta(r->rec, "rprof_version", RPROF_VERSION);
	if (uname(&uts) == 0) {
		recording_set_meta(r->rec, "hostname", uts.nodename);
		recording_set_meta(r->rec, "kernel", uts.release);
		recording_set_meta(r->rec, "machine", uts.machine);
	}
	gmtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	recording_set_meta(r->rec, "started_at", when);
	if (r->options.triggers.rate_hz != 0)
		set_meta_u64(r, "rate_hz", r->options.triggers.rate_hz);
}

/* What goes wrong behind the file's creation is kept, and told by the next commit. */
static int open_recording(struct recorder *r, struct err *err)
{
	int rc = recording_create(r->path, &r->rec, err);

	if (rc != 0)
		return rc;
	write_start_meta(r);
	for (size_t i = 0; i < r->nr_processes; i++) {
		struct process *p = r->processes[i];
		struct recording_process info = {
		        .pid = (int)p->target.pid,
		        .start_time = p->target.start_time,
		        .comm = p->comm,
		        .command_line = p->command_line != NULL ? p->command_line : "",
		        .runtime = p->ops != NULL ? p->ops->name : NULL,
		        .runtime_description = p->ops != NULL ? p->ops->description(p->rt) : NULL,
		};

		recording_add_process(r->rec, &info, &p->id);
	}
	return 0;
}

static int open_pipeline(struct recorder *r, struct err *err)
{
	int rc = pipeline_new(r->rec, r->kallsyms, &r->options.triggers, &r->pipeline, err);

	for (size_t i = 0; i < r->nr_processes && rc == 0; i++)
		rc = pipeline_add_process(r->pipeline, r->processes[i], err);
	return rc;
}

int recorder_new(const struct recorder_options *options, struct recorder **out,
        enum recorder_step *step, struct err *err)
{
	struct recorder *r = calloc(1, sizeof(*r));
	int rc;

	*step = RECORDER_MEMORY;
	if (r == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	r->options = *options;
	r->priority.fd = -1;
	r->processes = calloc(options->nr_pids, sizeof(struct process *));
	r->fds = calloc(options->nr_pids + 2, sizeof(*r->fds));
	if (r->processes == NULL || r->fds == NULL || dso_cache_new(&r->dsos) != 0) {
		rc = err_set(err, -ENOMEM, "out of memory");
		goto out;
	}
	*step = RECORDER_ATTACH;
	for (size_t i = 0; i < options->nr_pids; i++) {
		rc = open_process(r, options->pids[i], err);
		if (rc != 0)
			goto out;
	}
	*step = RECORDER_LOAD;
	rc = kernel_new(&options->triggers, r->processes, r->nr_processes, &r->kernel, err);
	if (rc != 0)
		goto out;
	/* Kernel frames without names are worth having too. */
	kallsyms_new_unread(&r->kallsyms, NULL);
	/* The file is made last: nothing is left behind when something is in the way. */
	*step = RECORDER_MEMORY;
	r->path = options->path != NULL ? strdup(options->path) : default_path(r->processes[0]);
	if (r->path == NULL) {
		rc = err_set(err, -ENOMEM, "out of memory");
		goto out;
	}
	*step = RECORDER_OUTPUT;
	rc = open_recording(r, err);
	if (rc != 0)
		goto out;
	*step = RECORDER_MEMORY;
	rc = open_pipeline(r, err);
	if (rc != 0)
		goto out;
	*out = r;
	return 0;
out:
	recorder_free(r);
	return rc;
}

void recorder_free(struct recorder *r)
{
	if (r == NULL)
		return;
	if (r->rec != NULL) {
		recording_close(r->rec, NULL);
		unlink(r->path);
	}
	priority_release(&r->priority);
	pipeline_free(r->pipeline);
	kernel_free(r->kernel);
	kallsyms_free(r->kallsyms);
	for (size_t i = 0; i < r->nr_processes; i++)
		process_free(r->processes[i]);
	free(r->processes);
	dso_cache_free(r->dsos);
	free(r->fds);
	free(r->path);
	free(r);
}

/* ---- the recording itself -------------------------------------------------------------------- */

/* What changed of the processes since the kernel side was told. */
static void tell_kernel(struct recorder *r)
{
	struct err err = {0};

	for (size_t i = 0; i < r->nr_processes; i++) {
		struct process *p = r->processes[i];

		if (!p->exited && p->generation != p->told_generation &&
		        kernel_update_process(r->kernel, p, &err) == -ENOSPC)
			r->table_losses++;
	}
}

/* Processes that exec'ed: the new image may run an interpreter too, once it has started. */
static void reattach(struct recorder *r)
{
	for (size_t i = 0; i < r->nr_processes; i++) {
		struct process *p = r->processes[i];

		if (p->exited || !p->lost_runtime)
			continue;
		process_refresh_maps(p, NULL);
		process_reattach(p, NULL);
	}
	tell_kernel(r);
}

static void on_mapped(void *ctx, int pid)
{
	struct recorder *r = ctx;

	for (size_t i = 0; i < r->nr_processes; i++)
		if (!r->processes[i]->exited && (pid == 0 || r->processes[i]->target.pid == pid))
			process_refresh_maps(r->processes[i], NULL);
	tell_kernel(r);
}

static void on_sample(void *ctx, const struct rprof_sample *sample, size_t size)
{
	struct recorder *r = ctx;

	pipeline_add(r->pipeline, sample, size);
	/* At once: until then the kernel side cuts each walk there. */
	tell_kernel(r);
}

static void on_capture(void *ctx, const struct rprof_capture *capture, size_t size)
{
	struct recorder *r = ctx;

	pipeline_capture(r->pipeline, capture, size);
}

static bool more_records(void *ctx)
{
	const struct recorder *r = ctx;

	return now_ns() < r->round_end_ns && (r->finishing || !is_stopped(r));
}

/* Takes what the kernel side has sent, until end_ns at most. True when nothing is left. */
static bool take_records(struct recorder *r, uint64_t end_ns)
{
	const struct kernel_sink sink = {
	        .sample = on_sample, .capture = on_capture, .more = more_records, .ctx = r};

	r->round_end_ns = end_ns;
	return kernel_drain(r->kernel, &sink);
}

static void count_unread(void *ctx, const struct rprof_sample *sample, size_t size)
{
	struct recorder *r = ctx;

	r->unread++;
}

static void ignore_capture(void *ctx, const struct rprof_capture *capture, size_t size)
{
}

static bool always_more(void *ctx)
{
	return true;
}

/* A round of records; and a rest, where a raised priority takes the processor from others. */
static bool take_round(struct recorder *r)
{
	bool raised = priority_check(&r->priority), empty;

	empty = take_records(r, now_ns() + (raised ? RAISED_ROUND_MS : ROUND_MS) * 1000000ULL);
	if (raised && !empty)
		poll(NULL, 0, RAISED_REST_MS);
	return empty;
}

/* What is in the buffer when sampling has ended. It cannot become more, but without a processor to
 * read it on that would have no end. */
static void take_rest(struct recorder *r)
{
	const struct kernel_sink sink = {
	        .sample = count_unread, .capture = ignore_capture, .more = always_more, .ctx = r};
	uint64_t end = now_ns() + FINISH_MS * 1000000ULL;

	r->finishing = true;
	while (!take_round(r)) {
		if (now_ns() < end)
			continue;
		kernel_drain(r->kernel, &sink);
		break;
	}
}

static void set_losses(struct recorder *r)
{
	struct kernel_stats stats;

	kernel_stats(r->kernel, &stats);
	recording_set_loss(r->rec, "ring-buffer-full", stats.lost);
	recording_set_loss(r->rec, "walk-in-progress", stats.missed);
	if (r->unread != 0)
		recording_set_loss(r->rec, "not-read-in-time", r->unread);
	if (r->table_losses != 0)
		recording_set_loss(r->rec, "unwind-tables-full", r->table_losses);
}

static void note_cpu_time(struct recorder *r)
{
	for (size_t i = 0; i < r->nr_processes; i++)
		unsampled_note(r->processes[i]);
}

/* False once all processes are gone. */
static bool watch_processes(struct recorder *r)
{
	bool alive = false;

	for (size_t i = 0; i < r->nr_processes; i++) {
		struct process *p = r->processes[i];

		if (!p->exited && !target_is_alive(&p->target)) {
			p->exited = true;
			kernel_remove_process(r->kernel, p);
		}
		alive |= !p->exited;
	}
	return alive;
}

/* Waits for records, mappings, exits and the time; wait_ms at most. True when a process exits. */
static bool wait_for_events(struct recorder *r, uint64_t wait_ms)
{
	bool exits = false;
	size_t nr = 0;

	r->fds[nr++] = (struct pollfd){.fd = kernel_sideband_fd(r->kernel), .events = POLLIN};
	r->fds[nr++] = (struct pollfd){.fd = kernel_ring_fd(r->kernel), .events = POLLIN};
	for (size_t i = 0; i < r->nr_processes; i++)
		if (!r->processes[i]->exited)
			r->fds[nr++] = (struct pollfd){
			        .fd = r->processes[i]->target.pidfd, .events = POLLIN};
	if (poll(r->fds, nr, (int)wait_ms) <= 0)
		return false;
	for (size_t i = 2; i < nr; i++)
		exits |= r->fds[i].revents != 0;
	return exits;
}

/* Runs until something ends it. 0 or the -errno of a commit. */
static int record(struct recorder *r, struct err *err)
{
	uint64_t next_commit = r->start_ns + COMMIT_MS * 1000000ULL;
	bool alive = true, empty = true, commit, exits;
	int rc = 0;

	while (!is_stopped(r) && alive && rc == 0) {
		uint64_t now = now_ns(), wait_ms = empty ? DRAIN_MS : 0;

		if (r->end_ns != 0 && now >= r->end_ns)
			break;
		if (r->end_ns != 0)
			wait_ms = MIN(wait_ms, (r->end_ns - now) / 1000000 + 1);
		exits = wait_for_events(r, wait_ms);
		empty = take_round(r);
		kernel_mapped(r->kernel, on_mapped, r);
		now = now_ns();
		commit = now >= next_commit;
		if (exits || commit)
			note_cpu_time(r);
		/* A pidfd tells at once; the rest is for the case that it does not. */
		if (exits || commit)
			alive = watch_processes(r);
		reattach(r);
		if (commit) {
			set_losses(r);
			rc = recording_commit(r->rec, err);
			next_commit = now + COMMIT_MS * 1000000ULL;
		}
		if (r->options.progress != NULL)
			r->options.progress(r->options.ctx, r);
	}
	note_cpu_time(r);
	kernel_stop(r->kernel);
	take_rest(r);
	pipeline_flush(r->pipeline);
	return rc;
}

static int finish(struct recorder *r, int rc, struct err *err)
{
	struct recorder_facts facts;
	int close_rc;

	/* Behind the end that it was given the kernel side has sampled nothing. */
	if (r->end_ns == 0 || r->end_ns > now_ns())
		r->end_ns = now_ns();
	r->cpu_ns = own_cpu_ns() - r->cpu_at_start;
	recorder_facts(r, &facts);
	set_losses(r);
	set_meta_u64(r, "duration_ns", facts.duration_ns);
	set_meta_u64(r, "bpf_run_ns", facts.kernel.bpf_ns);
	set_meta_u64(r, "bpf_runs", facts.kernel.bpf_runs);
	set_meta_u64(r, "recorder_cpu_ns", facts.own_cpu_ns);
	close_rc = recording_close(r->rec, rc == 0 ? err : NULL);
	r->rec = NULL;
	return rc != 0 ? rc : close_rc;
}

int recorder_run(struct recorder *r, enum recorder_step *step, struct err *err)
{
	int rc;

	*step = RECORDER_START;
	r->cpu_at_start = own_cpu_ns();
	r->start_ns = now_ns();
	if (r->options.duration_ns != 0)
		r->end_ns = r->start_ns + r->options.duration_ns;
	set_meta_u64(r, "start_ns", r->start_ns);
	rc = kernel_start(r->kernel, r->end_ns, err);
	if (rc != 0)
		return rc;
	*step = RECORDER_OUTPUT;
	priority_init(&r->priority);
	note_cpu_time(r);
	/* Only now: the BPF programs have symbols too, and no sample had to wait. */
	if (r->kallsyms != NULL)
		kallsyms_read_ahead(r->kallsyms);
	rc = record(r, err);
	return finish(r, rc, err);
}

/* ---- what can be said of it ------------------------------------------------------------------ */

void recorder_facts(const struct recorder *r, struct recorder_facts *out)
{
	*out = (struct recorder_facts){
	        .path = r->path,
	        .rate_hz = r->options.triggers.rate_hz,
	        .duration_ns = (r->finishing ? r->end_ns : now_ns()) - r->start_ns,
	        .own_cpu_ns = r->finishing ? r->cpu_ns : own_cpu_ns() - r->cpu_at_start,
	        .unread = r->unread,
	        .table_losses = r->table_losses,
	        .all_exited = true,
	};
	for (size_t i = 0; i < r->nr_processes; i++)
		out->all_exited &= r->processes[i]->exited;
	pipeline_stats(r->pipeline, &out->pipeline);
	kernel_stats(r->kernel, &out->kernel);
	out->lost = out->kernel.lost + out->kernel.missed + out->unread;
}

int recorder_unsampled(const struct recorder *r, struct err *err)
{
	const struct process *p =
	        unsampled_find(r->processes, r->nr_processes, r->options.triggers.rate_hz);
	struct recorder_facts facts;

	if (p == NULL)
		return 0;
	recorder_facts(r, &facts);
	unsampled_explain(p, facts.lost, facts.kernel.no_user, err);
	return -ENODATA;
}
