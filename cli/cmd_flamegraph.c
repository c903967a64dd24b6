#include "cli/cmd.h"
#include "profile/flamegraph.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
        "Usage: rprof flamegraph FILE [-o OUT.html] [--title TEXT] [--thread TID] [--trigger "
        "NAME]\n"
        "\n"
        "Writes a recording as a flame graph: one HTML file that needs no network.\n"
        "\n"
        "  -o, --output OUT.html  the file to write, - for standard output (default: FILE with "
        ".html)\n"
        "      --title TEXT       the heading (default: the command that was recorded)\n"
        "      --thread TID       show this thread first (default: all)\n"
        "      --trigger NAME     show this trigger first: cpu, syscall:openat (default: the "
        "first)\n"
        "  -h, --help             this text";

struct options {
	const char *input, *output;
	struct flamegraph_options graph;
};

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
	        {"output", required_argument, NULL, 'o'},
	        {"title", required_argument, NULL, 't'},
	        {"thread", required_argument, NULL, 'T'},
	        {"trigger", required_argument, NULL, 'g'},
	        {"help", no_argument, NULL, 'h'},
	        {0},
	};
	char *end;
	long tid;
	int c;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "o:h", longs, NULL)) != -1) {
		switch (c) {
		case 'o':
			o->output = optarg;
			break;
		case 't':
			o->graph.title = optarg;
			break;
		case 'T':
			errno = 0;
			tid = strtol(optarg, &end, 10);
			if (errno != 0 || end == optarg || *end != '\0' || tid <= 0 ||
			        tid > INT_MAX)
				return cli_bad_usage(&cmd_flamegraph,
				        "--thread wants a thread's number, not '%s'", optarg);
			o->graph.tid = (int)tid;
			break;
		case 'g':
			o->graph.trigger = optarg;
			break;
		case 'h':
			o->input = NULL;
			return cli_usage(&cmd_flamegraph);
		default:
			return cli_bad_usage(&cmd_flamegraph,
			        "'%s' is no option of this command or lacks its value",
			        argv[optind - 1]);
		}
	}
	if (argc - optind != 1)
		return cli_bad_usage(&cmd_flamegraph,
		        argc == optind ? "which recording?" : "one recording at a time");
	o->input = argv[optind];
	return EXIT_OK;
}

/* a.rprof -> a.html; the caller frees. */
static char *default_output(const char *input)
{
	size_t len = strlen(input);
	char *output;

	if (len > 6 && strcmp(input + len - 6, ".rprof") == 0)
		len -= 6;
	if (asprintf(&output, "%.*s.html", (int)MIN(len, (size_t)INT_MAX), input) < 0)
		return NULL;
	return output;
}

static int exit_of(int rc)
{
	switch (-rc) {
	case EBADMSG:
	case EPROTONOSUPPORT:
	case ENOENT:
	case EISDIR:
		return EXIT_BAD_RECORDING;
	case EACCES:
	case EPERM:
		return EXIT_PERMISSION;
	case ENODATA:
		return EXIT_NO_SAMPLES;
	case EINVAL:
		return EXIT_USAGE;
	default:
		return EXIT_INTERNAL;
	}
}

static bool is_same_file(const char *a, const char *b)
{
	struct stat of_a, of_b;

	return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
	       of_a.st_ino == of_b.st_ino;
}

static int write_file(struct flamegraph *fg, const char *input, const char *output)
{
	struct err err = {0};
	struct stat st;
	FILE *out;
	int rc, code;

	if (is_same_file(input, output))
		return cli_fail(
		        EXIT_OUTPUT, "'%s' is the recording itself: choose another -o", output);
	out = fopen(output, "we");
	if (out == NULL)
		return cli_fail(EXIT_OUTPUT, "'%s' cannot be written: %s", output, strerror(errno));
	rc = flamegraph_write(fg, out, &err);
	if (fclose(out) != 0 && rc == 0)
		rc = err_set(
		        &err, -errno, "the flame graph could not be written: %s", strerror(errno));
	if (rc == 0)
		return EXIT_OK;
	code = rc == -ENOSPC || rc == -EDQUOT ? EXIT_DISK_FULL : EXIT_OUTPUT;
	/* Half a page is of no use; a pipe or a device stays. */
	if (lstat(output, &st) == 0 && S_ISREG(st.st_mode))
		unlink(output);
	return cli_fail(code, "%s: '%s'", err.msg, output);
}

static void print_where(const struct flamegraph *fg, const char *output)
{
	char full[PATH_MAX];
	struct stat st;

	if (stat(output, &st) != 0 || realpath(output, full) == NULL)
		return;
	fprintf(stderr, "Wrote %s: %zu distinct stacks, %.1f MB.\n", output,
	        flamegraph_nr_stacks(fg), (double)st.st_size / 1e6);
	fprintf(stderr, "Open it in a browser: file://%s\n", full);
}

static int run(int argc, char **argv)
{
	struct options o = {0};
	struct reader *reader = NULL;
	struct flamegraph *fg = NULL;
	struct err err = {0};
	char *made = NULL;
	int code, rc;

	code = parse(argc, argv, &o);
	if (code != EXIT_OK || o.input == NULL)
		return code;
	rc = reader_open(o.input, &reader, &err);
	if (rc == 0)
		rc = flamegraph_new(reader, &o.graph, &fg, &err);
	if (rc != 0) {
		code = cli_fail(exit_of(rc), "%s", err.msg);
		goto out;
	}
	if (o.output == NULL)
		o.output = made = default_output(o.input);
	if (o.output == NULL) {
		code = cli_fail(EXIT_INTERNAL, "out of memory");
		goto out;
	}
	if (strcmp(o.output, "-") == 0) {
		rc = flamegraph_write(fg, stdout, &err);
		code = rc != 0 ? cli_finish_stdout() : EXIT_OK;
	} else {
		code = write_file(fg, o.input, o.output);
		if (code == EXIT_OK)
			print_where(fg, o.output);
	}
out:
	free(made);
	flamegraph_free(fg);
	reader_free(reader);
	return code;
}

const struct command cmd_flamegraph = {
        .name = "flamegraph",
        .summary = "write a recording as a flame graph (HTML)",
        .run = run,
        .usage = usage,
};
