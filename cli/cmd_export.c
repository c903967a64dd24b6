#include "cli/recording_cmd.h"
#include "profile/export.h"

#include <errno.h>
#include <string.h>

enum { OPT_SAMPLES = OPT_OWN, OPT_THREADS };

/* The name of the output decides when -f is not given: out.jsonl, out.folded, out.txt. */
static const char *guess_format(const char *output)
{
	const char *dot = output != NULL ? strrchr(output, '.') : NULL;

	if (dot == NULL)
		return NULL;
	if (strcmp(dot, ".jsonl") == 0 || strcmp(dot, ".ndjson") == 0)
		return "jsonl";
	if (strcmp(dot, ".folded") == 0 || strcmp(dot, ".collapsed") == 0 ||
	        strcmp(dot, ".txt") == 0)
		return "folded";
	return NULL;
}

struct export_options {
	struct read_options read;
	const char *input;
	bool samples, threads, help;
};

static int parse(int argc, char **argv, struct export_options *o)
{
	static const struct option options[] = {READ_OPTIONS,
	        {"format", required_argument, NULL, OPT_FORMAT},
	        {"samples", no_argument, NULL, OPT_SAMPLES},
	        {"threads", no_argument, NULL, OPT_THREADS}, {0}};
	int opt, rc;

	o->read.view.mode = VIEW_ALL;
	while ((opt = getopt_long(argc, argv, "ho:f:p:t:", options, NULL)) != -1) {
		if (opt == OPT_HELP)
			o->help = true;
		else if (opt == OPT_SAMPLES)
			o->samples = true;
		else if (opt == OPT_THREADS)
			o->threads = true;
		else if (opt == '?')
			return cli_bad_usage(&cmd_export, "bad options");
		else if ((rc = read_option(&cmd_export, &o->read, opt, optarg)) != EXIT_OK)
			return rc;
	}
	if (o->help)
		return EXIT_OK;
	if (optind != argc - 1)
		return cli_bad_usage(&cmd_export, "name one recording to export");
	o->input = argv[optind];
	if (o->read.format == NULL)
		o->read.format = guess_format(o->read.output);
	if (o->read.format == NULL)
		return cli_bad_usage(&cmd_export, "say the format: -f folded or -f jsonl");
	if (strcmp(o->read.format, "folded") != 0 && strcmp(o->read.format, "jsonl") != 0)
		return cli_bad_usage(
		        &cmd_export, "there is no format '%s': folded or jsonl", o->read.format);
	return EXIT_OK;
}

static int export_to(struct reader *r, struct export_options *o, struct output *out)
{
	struct err err = {0};
	int rc;

	/* parse() has seen to it. NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
	if (strcmp(o->read.format, "jsonl") == 0) {
		rc = export_jsonl(r, &o->read.filter, o->samples, output_write, out, &err);
	} else {
		size_t nr;

		reader_triggers(r, &nr);
		if (o->read.filter.trigger == NULL) {
			o->read.filter.trigger = export_default_trigger(r);
			if (nr > 1)
				fprintf(stderr,
				        "rprof: these are the samples of '%s'; --trigger chooses "
				        "another\n",
				        o->read.filter.trigger);
		}
		rc = export_folded(
		        r, &o->read.filter, &o->read.view, o->threads, output_write, out, &err);
	}
	if (rc == 0)
		return EXIT_OK;
	if (ferror(out->file)) {
		if (rc == -EPIPE && out->path == NULL)
			return EXIT_OK; /* `rprof export ... | head` */
		return cli_fail(rc == -ENOSPC || rc == -EDQUOT ? EXIT_DISK_FULL : EXIT_OUTPUT, "%s",
		        err.msg);
	}
	return fail_reading(&err);
}

static int run_export(int argc, char **argv)
{
	struct export_options o = {0};
	struct reader *r = NULL;
	struct output out;
	int rc;

	rc = parse(argc, argv, &o);
	if (rc != EXIT_OK)
		return rc;
	if (o.help)
		return cli_usage(&cmd_export);
	rc = open_recording(o.input, &o.read.filter, &r);
	if (rc != EXIT_OK)
		return rc;
	rc = output_open(&out, o.read.output, o.input);
	if (rc == EXIT_OK)
		rc = output_close(&out, export_to(r, &o, &out));
	reader_free(r);
	return rc;
}

static const char usage[] = {
#include "cli/usage/export.txt.inc"
        0};

const struct command cmd_export = {
        .name = "export",
        .summary = "write a recording as folded stacks or JSON Lines",
        .run = run_export,
        .usage = usage,
};
