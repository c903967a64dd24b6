/* rprof record: samples running processes into a recording. */
#include "cli/cmd.h"
#include "cli/options.h"
#include "cli/summary.h"
#include "record/recorder.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
	DEFAULT_RATE_HZ = 99,
	LARGE_SZ = 1 << 20, /* memory that goes back to the kernel when it is freed */
};

/* What was asked for. */
struct request {
	struct recorder_options recorder;
	pid_t *pids;        /* owned; recorder has them, too */
	uint32_t *syscalls; /* likewise */
	char command[1024];
	bool quiet, json;
};

/* How far it is. */
struct progress {
	bool tty;
	bool open; /* there is an unfinished line */
	time_t next_ms;
};

static volatile sig_atomic_t stop_requests;

static void on_signal(int sig)
{
	/* The second one means it: what was committed is safe. */
	if (++stop_requests >= 2)
		_exit(128 + sig);
}

/* ---- command line -------------------------------------------------------------------------------
 */

static const char usage[] = {
#include "cli/usage/record.txt.inc"
        0};

static int parse_options(struct request *r, int argc, char **argv, bool *done)
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
			rc = option_pids("-p", optarg, &r->pids, &r->recorder.nr_pids, &err);
			break;
		case 'F':
			rc = option_rate("-F", optarg, &r->recorder.triggers.rate_hz, &err);
			rate_given = true;
			break;
		case 'd':
			rc = option_duration("-d", optarg, &r->recorder.duration_ns, &err);
			break;
		case 'o':
			r->recorder.path = optarg;
			break;
		case 's':
			rc = option_syscalls("--syscall", optarg, &r->syscalls,
			        &r->recorder.triggers.nr_syscalls, &err);
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
	if (r->recorder.nr_pids == 0)
		return cli_bad_usage(&cmd_record, "no process is given: name one with -p PID");
	if (r->recorder.nr_pids > PIPELINE_MAX_PROCESSES)
		return cli_bad_usage(&cmd_record, "at most %d processes can be in one recording",
		        PIPELINE_MAX_PROCESSES);
	if (r->recorder.path != NULL && r->recorder.path[0] == '\0')
		return cli_bad_usage(&cmd_record, "-o needs the name of a file");
	r->recorder.pids = r->pids;
	r->recorder.triggers.syscalls = r->syscalls;
	if (!rate_given)
		r->recorder.triggers.rate_hz =
		        r->recorder.triggers.nr_syscalls != 0 ? 0 : DEFAULT_RATE_HZ;
	return EXIT_OK;
}

/* ---- exit codes
 * --------------------------------------------------------------------------------------------- */

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

static enum exit_code exit_code_of_output(int rc)
{
	return rc == -ENOSPC || rc == -EDQUOT || rc == -EFBIG ? EXIT_DISK_FULL : EXIT_OUTPUT;
}

static enum exit_code exit_code_of(enum recorder_step step, int rc)
{
	bool denied = rc == -EPERM || rc == -EACCES;

	switch (step) {
	case RECORDER_ATTACH:
		return exit_code_of_attach(rc);
	case RECORDER_LOAD:
		return denied ? EXIT_PERMISSION : rc == -ENOTSUP ? EXIT_KERNEL : EXIT_INTERNAL;
	case RECORDER_START:
		return denied ? EXIT_PERMISSION : EXIT_KERNEL;
	case RECORDER_OUTPUT:
		return exit_code_of_output(rc);
	case RECORDER_MEMORY:
		break;
	}
	return EXIT_INTERNAL;
}

/* ---- the recording itself
 * ------------------------------------------------------------------------- */

static void show_progress(void *ctx, const struct recorder *r)
{
	struct progress *p = ctx;
	struct recorder_facts f;
	struct timespec ts;
	time_t now_ms;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now_ms = ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
	if (now_ms < p->next_ms)
		return;
	p->next_ms = now_ms + (p->tty ? 200 : 2000);
	recorder_facts(r, &f);
	fprintf(stderr,
	        "%srprof: %5.1f s  %" PRIu64 " samples  %" PRIu64 " threads  %" PRIu64 " lost%s",
	        p->tty ? "\r" : "", (double)f.duration_ns / 1e9, f.kernel.samples,
	        f.pipeline.stored.threads, f.lost, p->tty ? "  (^C ends)\033[K" : "\n");
	fflush(stderr);
	p->open = p->tty;
}

/* What the whole program is to be like. */
static void prepare_program(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct rlimit files;

	/* What a start needs for a moment is large, and glibc learns from it to keep such memory.
	 * No part of a sample is that large. */
	mallopt(M_MMAP_THRESHOLD, LARGE_SZ);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	/* Each file of each process is kept open. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

static void write_command(struct request *r, char **argv)
{
	size_t len = (size_t)snprintf(r->command, sizeof(r->command), "rprof");

	for (char **a = argv; *a != NULL && len < sizeof(r->command); a++)
		len += (size_t)snprintf(r->command + len, sizeof(r->command) - len, " %s", *a);
}

/* The summary, and what is to be said of a recording that misses a process. */
static int show_result(const struct request *r, const struct recorder *recorder)
{
	struct recorder_facts facts;
	struct err err = {0};
	bool unsampled = recorder_unsampled(recorder, &err) != 0;
	int code = EXIT_OK;

	recorder_facts(recorder, &facts);
	if (r->json) {
		summary_print_json(&facts, stdout);
		code = cli_finish_stdout();
	} else if (!r->quiet) {
		summary_print(&facts, unsampled, stderr);
	}
	if (code == EXIT_OK && unsampled)
		code = cli_fail(EXIT_UNSAMPLED, "%s", err.msg);
	return code;
}

static int run_recorder(struct request *r)
{
	struct progress progress = {.tty = isatty(STDERR_FILENO)};
	struct recorder *recorder;
	enum recorder_step step;
	struct err err = {0};
	int rc, code;

	r->recorder.command = r->command;
	r->recorder.stop = &stop_requests;
	r->recorder.progress = r->quiet ? NULL : show_progress;
	r->recorder.ctx = &progress;
	prepare_program();
	rc = recorder_new(&r->recorder, &recorder, &step, &err);
	if (rc != 0)
		return cli_fail(exit_code_of(step, rc), "%s", err.msg);
	rc = recorder_run(recorder, &step, &err);
	if (progress.open)
		fprintf(stderr, "\r\033[K");
	code = rc != 0 ? cli_fail(exit_code_of(step, rc), "%s", err.msg) : show_result(r, recorder);
	recorder_free(recorder);
	return code;
}

static int run(int argc, char **argv)
{
	struct request r = {0};
	bool done = false;
	int code = parse_options(&r, argc, argv, &done);

	if (code == EXIT_OK && !done) {
		write_command(&r, argv);
		code = run_recorder(&r);
	}
	free(r.pids);
	free(r.syscalls);
	return code;
}

const struct command cmd_record = {
        .name = "record",
        .summary = "sample running Ruby processes into a recording",
        .run = run,
        .usage = usage,
};
