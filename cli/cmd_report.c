#include "cli/recording_cmd.h"
#include "profile/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_TOP = OPT_OWN, OPT_STACKS, OPT_JSON };

enum { TOP_DEFAULT = 20, STACKS_DEFAULT = 5, TOP_MAX = 1000000, REPORT_MAX = 1 << 30 };

struct report_cmd {
	struct read_options read;
	struct report_options report;
	const char *input;
	bool json, help;
};

static int parse_count(const char *what, const char *arg, size_t *out)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(arg, &end, 10);
	if (errno != 0 || end == arg || *end != '\0' || v < 0 || v > TOP_MAX)
		return cli_bad_usage(&cmd_report, "%s wants a number from 0 to %d, not '%s'", what,
		        TOP_MAX, arg);
	*out = (size_t)v;
	return EXIT_OK;
}

static int parse(int argc, char **argv, struct report_cmd *o)
{
	static const struct option options[] = {READ_OPTIONS,
	        {"format", required_argument, NULL, OPT_FORMAT},
	        {"top", required_argument, NULL, OPT_TOP},
	        {"stacks", required_argument, NULL, OPT_STACKS},
	        {"json", no_argument, NULL, OPT_JSON}, {0}};
	const char *dot;
	int opt, rc = EXIT_OK;

	o->report = (struct report_options){.top = TOP_DEFAULT, .stacks = STACKS_DEFAULT};
	while (rc == EXIT_OK && (opt = getopt_long(argc, argv, "ho:f:p:t:", options, NULL)) != -1) {
		if (opt == OPT_HELP)
			o->help = true;
		else if (opt == OPT_JSON)
			o->json = true;
		else if (opt == OPT_TOP)
			rc = parse_count("--top", optarg, &o->report.top);
		else if (opt == OPT_STACKS)
			rc = parse_count("--stacks", optarg, &o->report.stacks);
		else if (opt == '?')
			rc = cli_bad_usage(&cmd_report, "bad options");
		else
			rc = read_option(&cmd_report, &o->read, opt, optarg);
	}
	if (rc != EXIT_OK || o->help)
		return rc;
	if (optind != argc - 1)
		return cli_bad_usage(&cmd_report, "name one recording to report on");
	o->input = argv[optind];
	dot = o->read.output != NULL ? strrchr(o->read.output, '.') : NULL;
	if (o->read.format == NULL)
		o->json |= dot != NULL && strcmp(dot, ".json") == 0;
	else if (strcmp(o->read.format, "json") == 0)
		o->json = true;
	else if (strcmp(o->read.format, "text") != 0 || o->json)
		return cli_bad_usage(
		        &cmd_report, "there is no format '%s' here: text or json", o->read.format);
	return EXIT_OK;
}

static int report(struct reader *r, const struct report_cmd *o, struct output *out)
{
	struct aggregate a = {0};
	struct err err = {0};
	struct buf b;
	int rc, exit_code = EXIT_OK;

	rc = aggregate_init(&a, r, &o->read.filter, &o->read.view, o->report.stacks, &err);
	if (rc != 0)
		return fail_reading(&err);
	buf_init(&b, REPORT_MAX);
	if (o->json)
		report_json(&b, r, &a, &o->report);
	else
		report_text(&b, r, &a, &o->report);
	if (b.failed)
		exit_code = cli_fail(
		        EXIT_INTERNAL, "the report is too large: show less with --top or --stacks");
	else
		output_write(b.data, b.len, out); /* output_close says what went wrong */
	buf_release(&b);
	aggregate_release(&a);
	return exit_code;
}

static int run_report(int argc, char **argv)
{
	struct report_cmd o = {0};
	struct reader *r = NULL;
	struct output out;
	int rc;

	rc = parse(argc, argv, &o);
	if (rc != EXIT_OK)
		return rc;
	if (o.help)
		return cli_usage(&cmd_report);
	rc = open_recording(o.input, &o.read.filter, &r);
	if (rc != EXIT_OK)
		return rc;
	rc = output_open(&out, o.read.output, o.input);
	if (rc == EXIT_OK)
		rc = output_close(&out, report(r, &o, &out));
	reader_free(r);
	return rc;
}

static const char usage[] = {
#include "cli/usage/report.txt.inc"
        0};

const struct command cmd_report = {
        .name = "report",
        .summary = "show the hottest frames and stacks of a recording",
        .run = run_report,
        .usage = usage,
};
