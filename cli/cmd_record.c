/* rprof record: samples running processes into a recording. */
#include "cli/cmd.h"
#include "cli/options.h"
#include "record/pipeline.h"
#include "record/process.h"
#include "record/kernel.h"
#include "record/priority.h"
#include "cli/summary.h"
#include "record/unsampled.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
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
	FINISH_MS = 2000, /* for what is in the buffer at the end */
	BOOT_TRIES = 40,  /* of 50 ms: a Ruby that has just been started has no VM yet */
	DEFAULT_RATE_HZ = 99,
	MAX_RECORDED = 256, /* processes in one recording */
	LARGE_SZ = 1 << 20, /* memory that goes back to the kernel when it is freed */
};

struct recorder {
	/* what was asked for */
	pid_t *pids;
	size_t nr_pids;
	struct trigger_options triggers;
	uint64_t duration_ns;
	const char *path;
	char default_path[192];
	uint32_t *syscalls; /* owned; triggers has them too */
	bool quiet, json;

	struct dso_cache *dsos;
	struct process **processes;
	size_t nr_processes;
	struct recording *rec;
	struct kallsyms *kallsyms;
	struct kernel *kernel;
	struct pipeline *pipeline;
	struct priority priority;
	uint64_t round_end_ns; /* of the records that are taken now */
	bool finishing;        /* who wants to stop is obeyed already */
	uint64_t start_ns, table_losses;
	uint64_t unread; /* samples that were in the buffer when the time to end was over */
	bool progress_open;
};

static volatile sig_atomic_t stop_requests;

static void on_signal(int sig)
{
	/* The second one means it: what was committed is safe. */
	if (++stop_requests >= 2)
		_exit(128 + sig);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* ---- command line -------------------------------------------------------------------------------
 */

static const char usage[] = {
#include "cli/usage/record.txt.inc"
        0};

static int parse_options(struct recorder *r, int argc, char **argv, bool *done)
{
	static const struct option longs[] = {
	        {"pid", required_argument, NULL, 'p'},
	        {"rate", required_argument, NULL, 'F'},
	        {"duration", required_argument, NULL, 'd'},
	        {"output", required_argument, NULL, 'o'},
	        {"syscall", required_argument, NULL, 's'},
	        {"quiet", no_argument, NULL, 'q'},
	        {"json", no_argument, NULL, 'j'},
	        {"help", no_argument, NULL, 'h'},
	        {NULL, 0, NULL, 0},
	};
	bool rate_given = false;
	struct err err = {0};
	int opt, rc = 0;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":p:F:d:o:qh", longs, NULL)) != -1) {
		switch (opt) {
		case 'p':
			rc = option_pids("-p", optarg, &r->pids, &r->nr_pids, &err);
			break;
		case 'F':
			rc = option_rate("-F", optarg, &r->triggers.rate_hz, &err);
			rate_given = true;
			break;
		case 'd':
			rc = option_duration("-d", optarg, &r->duration_ns, &err);
			break;
		case 'o':
			r->path = optarg;
			break;
		case 's':
			rc = option_syscalls(
			        "--syscall", optarg, &r->syscalls, &r->triggers.nr_syscalls, &err);
			break;
		case 'q':
			r->quiet = true;
			break;
		case 'j':
			r->json = true;
			break;
		case 'h':
			*done = true;
			return cli_usage(&cmd_record);
		case ':':
			return cli_bad_usage(
			        &cmd_record, "option %s needs a value", argv[optind - 1]);
		default:
			return cli_bad_usage(
			        &cmd_record, "there is no option %s", argv[optind - 1]);
		}
		if (rc != 0)
			return cli_bad_usage(&cmd_record, "%s", err.msg);
	}
	if (optind < argc)
		return cli_bad_usage(&cmd_record,
		        "'%s' is not an option: give processes with -p PID", argv[optind]);
	if (r->nr_pids == 0)
		return cli_bad_usage(&cmd_record, "no process is given: name one with -p PID");
	if (r->nr_pids > MAX_RECORDED)
		return cli_bad_usage(
		        &cmd_record, "at most %d processes can be in one recording", MAX_RECORDED);
	if (r->path != NULL && r->path[0] == '\0')
		return cli_bad_usage(&cmd_record, "-o needs the name of a file");
	r->triggers.syscalls = r->syscalls;
	if (!rate_given)
		r->triggers.rate_hz = r->triggers.nr_syscalls != 0 ? 0 : DEFAULT_RATE_HZ;
	return EXIT_OK;
}

/* ---- start
 * ---------------------------------------------------------------------------------------- */

static enum exit_code exit_code_of_attach(int rc)
{
	switch (rc) {
	case -ESRCH:
		return EXIT_NO_PROCESS;
	case -ENOENT:
		return EXIT_NOT_RUBY;
	case -ENOTSUP:
		return EXIT_UNSUPPORTED;
	case -EPERM:
	case -EACCES:
		return EXIT_PERMISSION;
	default:
		return EXIT_INTERNAL;
	}
}

static int open_process(struct recorder *r, pid_t pid)
{
	struct err err = {0};
	struct process *p = NULL;
	int rc = 0;

	for (int i = 0; i < BOOT_TRIES && stop_requests == 0; i++) {
		rc = process_new(pid, r->dsos, &p, &err);
		if (rc != -EAGAIN)
			break;
		poll(NULL, 0, 50);
	}
	if (rc == -ENOENT && err.msg[0] == '\0')
		err_set(&err, rc,
		        "process %d runs no Ruby that rprof knows: give the pid of a Ruby process",
		        (int)pid);
	if (rc != 0)
		return cli_fail(exit_code_of_attach(rc), "%s", err.msg);
	r->processes[r->nr_processes++] = p;
	return EXIT_OK;
}

static void default_path(struct recorder *r)
{
	const struct process *p = r->processes[0];
	char comm[32], when[32];
	time_t now = time(NULL);
	struct tm tm;

	snprintf(comm, sizeof(comm), "%s", p->comm[0] != '\0' ? p->comm : "ruby");
	for (char *c = comm; *c != '\0'; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
		            (*c >= '0' && *c <= '9') || *c == '.' || *c == '_'))
			*c = '-';
	localtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
	snprintf(r->default_path, sizeof(r->default_path), "rprof-%s-%d-%s.rprof", comm,
	        (int)p->target.pid, when);
	r->path = r->default_path;
}

static void set_meta_u64(struct recorder *r, const char *key, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	recording_set_meta(r->rec, key, text);
}

static void write_start_meta(struct recorder *r, char **argv)
{
	char when[64], command[1024] = "rprof";
	size_t len = strlen(command);
	time_t now = time(NULL);
	struct utsname uts;
	struct tm tm;

	for (char **a = argv; *a != NULL && len < sizeof(command); a++)
		len += (size_t)snprintf(command + len, sizeof(command) - len, " %s", *a);
	recording_set_meta(r->rec, "command", command);
	recording_set_meta(r->rec, "rprof_version", RPROF_VERSION);
	if (uname(&uts) == 0) {
		recording_set_meta(r->rec, "hostname", uts.nodename);
		recording_set_meta(r->rec, "kernel", uts.release);
		recording_set_meta(r->rec, "machine", uts.machine);
	}
	gmtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	recording_set_meta(r->rec, "started_at", when);
	set_meta_u64(r, "start_ns", r->start_ns);
	if (r->triggers.rate_hz != 0)
		set_meta_u64(r, "rate_hz", r->triggers.rate_hz);
}

static enum exit_code exit_code_of_output(int rc)
{
	return rc == -ENOSPC || rc == -EDQUOT || rc == -EFBIG ? EXIT_DISK_FULL : EXIT_OUTPUT;
}

static int open_recording(struct recorder *r, char **argv)
{
	struct err err = {0};
	int rc;

	if (r->path == NULL)
		default_path(r);
	rc = recording_create(r->path, &r->rec, &err);
	if (rc != 0)
		return cli_fail(exit_code_of_output(rc), "%s", err.msg);
	write_start_meta(r, argv);
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
	return EXIT_OK;
}

static int open_kernel(struct recorder *r)
{
	struct err err = {0};
	int rc = kernel_new(&r->triggers, r->processes, r->nr_processes, &r->kernel, &err);

	if (rc == -EPERM || rc == -EACCES)
		return cli_fail(EXIT_PERMISSION, "%s", err.msg);
	if (rc != 0)
		return cli_fail(rc == -ENOTSUP ? EXIT_KERNEL : EXIT_INTERNAL, "%s", err.msg);
	/* Kernel frames without names are worth having too. */
	kallsyms_new_unread(&r->kallsyms, &err);
	return EXIT_OK;
}

static int open_pipeline(struct recorder *r)
{
	struct err err = {0};

	if (pipeline_new(r->rec, r->kallsyms, &r->triggers, &r->pipeline, &err) != 0)
		return cli_fail(EXIT_INTERNAL, "%s", err.msg);
	for (size_t i = 0; i < r->nr_processes; i++)
		if (pipeline_add_process(r->pipeline, r->processes[i], &err) != 0)
			return cli_fail(EXIT_USAGE, "%s", err.msg);
	return EXIT_OK;
}

/* ---- the recording itself
 * ------------------------------------------------------------------------- */

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

	return now_ns() < r->round_end_ns && (stop_requests == 0 || r->finishing);
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

static void show_progress(struct recorder *r, bool tty)
{
	struct pipeline_stats ps;
	struct kernel_stats ss;
	double seconds = (double)(now_ns() - r->start_ns) / 1e9;

	pipeline_stats(r->pipeline, &ps);
	kernel_stats(r->kernel, &ss);
	fprintf(stderr,
	        "%srprof: %5.1f s  %" PRIu64 " samples  %" PRIu64 " threads  %" PRIu64 " lost%s",
	        tty ? "\r" : "", seconds, ss.samples, ps.stored.threads, ss.lost + ss.missed,
	        tty ? "  (^C ends)\033[K" : "\n");
	fflush(stderr);
	r->progress_open = tty;
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

/* Runs until something ends it. 0 or the -errno of a commit. */
static int record(struct recorder *r, struct err *err)
{
	struct pollfd *fds = calloc(r->nr_processes + 2, sizeof(*fds));
	uint64_t next_commit, next_progress, end;
	bool tty = isatty(STDERR_FILENO), alive = true, empty = true, commit, exits;
	int rc = 0;

	if (fds == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	next_commit = r->start_ns + COMMIT_MS * 1000000ULL;
	next_progress = r->start_ns;
	end = r->duration_ns != 0 ? r->start_ns + r->duration_ns : UINT64_MAX;
	while (stop_requests == 0 && alive && rc == 0) {
		uint64_t now = now_ns(), wait_ms = DRAIN_MS;
		size_t nr_fds = 0;

		if (now >= end)
			break;
		if (end != UINT64_MAX)
			wait_ms = MIN(wait_ms, (end - now) / 1000000 + 1);
		if (!empty)
			wait_ms = 0;
		fds[nr_fds++] =
		        (struct pollfd){.fd = kernel_sideband_fd(r->kernel), .events = POLLIN};
		fds[nr_fds++] = (struct pollfd){.fd = kernel_ring_fd(r->kernel), .events = POLLIN};
		for (size_t i = 0; i < r->nr_processes; i++)
			if (!r->processes[i]->exited)
				fds[nr_fds++] = (struct pollfd){
				        .fd = r->processes[i]->target.pidfd, .events = POLLIN};
		poll(fds, nr_fds, (int)wait_ms);
		exits = false; /* known by the descriptors behind the first two */
		for (size_t i = 2; i < nr_fds; i++)
			exits |= fds[i].revents != 0;
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
		if (!r->quiet && now >= next_progress) {
			show_progress(r, tty);
			next_progress = now + (tty ? 200 : 2000) * 1000000ULL;
		}
	}
	note_cpu_time(r);
	kernel_stop(r->kernel);
	take_rest(r);
	pipeline_flush(r->pipeline);
	free(fds);
	return rc;
}

static uint64_t own_cpu_ns(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return ((uint64_t)ru.ru_utime.tv_sec + (uint64_t)ru.ru_stime.tv_sec) * 1000000000ULL +
	       ((uint64_t)ru.ru_utime.tv_usec + (uint64_t)ru.ru_stime.tv_usec) * 1000ULL;
}

static int finish(struct recorder *r, uint64_t cpu_at_start, int rc, struct err *err)
{
	const struct process *unsampled =
	        unsampled_find(r->processes, r->nr_processes, r->triggers.rate_hz);
	struct summary sum = {
	        .path = r->path, .rate_hz = r->triggers.rate_hz, .unsampled = unsampled != NULL};
	int close_rc, code = EXIT_OK;

	sum.duration_ns = now_ns() - r->start_ns;
	pipeline_stats(r->pipeline, &sum.pipeline);
	kernel_stats(r->kernel, &sum.kernel);
	sum.own_cpu_ns = own_cpu_ns() - cpu_at_start;
	sum.table_losses = r->table_losses;
	sum.unread = r->unread;
	sum.all_exited = true;
	for (size_t i = 0; i < r->nr_processes; i++)
		sum.all_exited &= r->processes[i]->exited;
	set_losses(r);
	set_meta_u64(r, "duration_ns", sum.duration_ns);
	set_meta_u64(r, "bpf_run_ns", sum.kernel.bpf_ns);
	set_meta_u64(r, "bpf_runs", sum.kernel.bpf_runs);
	set_meta_u64(r, "recorder_cpu_ns", sum.own_cpu_ns);
	close_rc = recording_close(r->rec, rc == 0 ? err : NULL);
	r->rec = NULL;
	if (r->progress_open)
		fprintf(stderr, "\r\033[K");
	if (rc == 0)
		rc = close_rc;
	if (rc != 0)
		return cli_fail(exit_code_of_output(rc), "%s", err->msg);
	if (r->json) {
		summary_print_json(&sum, stdout);
		code = cli_finish_stdout();
	} else if (!r->quiet) {
		summary_print(&sum, stderr);
	}
	if (code == EXIT_OK && unsampled != NULL) {
		unsampled_explain(unsampled, &sum.kernel, err);
		code = cli_fail(EXIT_UNSAMPLED, "%s", err->msg);
	}
	return code;
}

static void recorder_release(struct recorder *r)
{
	priority_release(&r->priority);
	pipeline_free(r->pipeline);
	kernel_free(r->kernel);
	kallsyms_free(r->kallsyms);
	for (size_t i = 0; i < r->nr_processes; i++)
		process_free(r->processes[i]);
	free(r->processes);
	dso_cache_free(r->dsos);
	free(r->pids);
	free(r->syscalls);
}

static int run_recorder(struct recorder *r, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct rlimit files;
	uint64_t cpu_at_start;
	struct err err = {0};
	int code, rc;

	/* What a start needs for a moment is large, and glibc learns from it to keep such memory.
	 * No part of a sample is that large. */
	mallopt(M_MMAP_THRESHOLD, LARGE_SZ);
	r->processes = calloc(r->nr_pids, sizeof(struct process *));
	if (r->processes == NULL || dso_cache_new(&r->dsos) != 0)
		return cli_fail(EXIT_INTERNAL, "out of memory");
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	/* Each file of each process is kept open. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	for (size_t i = 0; i < r->nr_pids; i++) {
		code = open_process(r, r->pids[i]);
		if (code != EXIT_OK)
			return code;
	}
	/* The recording is made last: nothing is left behind when something is in the way. */
	code = open_kernel(r);
	if (code != EXIT_OK)
		return code;
	r->start_ns = now_ns();
	code = open_recording(r, argv);
	if (code != EXIT_OK)
		return code;
	code = open_pipeline(r);
	if (code != EXIT_OK)
		return code;
	cpu_at_start = own_cpu_ns();
	r->start_ns = now_ns();
	rc = kernel_start(r->kernel, r->duration_ns != 0 ? r->start_ns + r->duration_ns : 0, &err);
	if (rc == -EPERM || rc == -EACCES)
		return cli_fail(EXIT_PERMISSION, "%s", err.msg);
	if (rc != 0)
		return cli_fail(EXIT_KERNEL, "%s", err.msg);
	priority_init(&r->priority);
	note_cpu_time(r);
	/* Only now: the BPF programs have symbols too, and no sample had to wait. */
	if (r->kallsyms != NULL)
		kallsyms_read_ahead(r->kallsyms);
	rc = record(r, &err);
	return finish(r, cpu_at_start, rc, &err);
}

static int run(int argc, char **argv)
{
	struct recorder r = {.priority.fd = -1};
	bool done = false;
	int code = parse_options(&r, argc, argv, &done);

	if (code == EXIT_OK && !done)
		code = run_recorder(&r, argv);
	if (r.rec != NULL) {
		recording_close(r.rec, NULL);
		/* Nothing was recorded: a file would only be in the way. */
		unlink(r.path);
	}
	recorder_release(&r);
	return code;
}

const struct command cmd_record = {
        .name = "record",
        .summary = "sample running Ruby processes into a recording",
        .run = run,
        .usage = usage,
};
