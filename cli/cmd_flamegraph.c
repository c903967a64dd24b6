#include "cli/recording_cmd.h"
#include "profile/flamegraph.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char usage[] = {
#include "cli/usage/flamegraph.txt.inc"
        0};

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

static int write_page(struct flamegraph *fg, const char *input, const char *path)
{
	struct output out;
	struct err err = {0};
	int code, rc;

	code = output_open(&out, path, input);
	if (code != EXIT_OK)
		return code;
	rc = flamegraph_write(fg, out.file, &err);
	if (rc != 0 && out.path != NULL)
		code = cli_fail(rc == -ENOSPC || rc == -EDQUOT ? EXIT_DISK_FULL : EXIT_OUTPUT,
		        "%s could not be written: %s", path, strerror(-rc));
	return output_close(&out, code);
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
	/* The file holds all threads and triggers; the one to show first must have samples. */
	struct reader_filter filter = {.tid = o.graph.tid, .trigger = o.graph.trigger};
	code = open_recording(o.input, &filter, &reader);
	if (code != EXIT_OK)
		return code;
	rc = flamegraph_new(reader, &o.graph, &fg, &err);
	if (rc != 0) {
		code = fail_reading(&err);
		goto out;
	}
	if (o.output == NULL)
		o.output = made = default_output(o.input);
	if (o.output == NULL) {
		code = cli_fail(EXIT_INTERNAL, "out of memory");
		goto out;
	}
	code = write_page(fg, o.input, o.output);
	if (code == EXIT_OK && strcmp(o.output, "-") != 0)
		print_where(fg, o.output);
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
