/* What the commands that read a recording share: opening, exit codes, filters, output. */
#ifndef CLI_RECORDING_CMD_H
#define CLI_RECORDING_CMD_H

#include "cli/cmd.h"
#include "profile/reader.h"
#include "profile/view.h"
#include <getopt.h>
#include <stdio.h>

/* Options that mean the same in each of these commands. */
struct read_options {
	const char *output; /* -o; NULL or "-": stdout */
	const char *format; /* -f */
	struct reader_filter filter;
	struct view view;
};

enum read_opt {
	OPT_HELP = 'h',
	OPT_OUTPUT = 'o',
	OPT_FORMAT = 'f',
	OPT_PROCESS = 'p',
	OPT_THREAD = 't',
	OPT_TRIGGER = 256,
	OPT_VIEW,
	OPT_KINDS,
	OPT_OWN /* the first that a command may use for itself */
};

/* Rows for getopt_long. */
#define READ_OPTIONS                                                                               \
	{"help", no_argument, NULL, OPT_HELP}, {"output", required_argument, NULL, OPT_OUTPUT},    \
	        {"process", required_argument, NULL, OPT_PROCESS},                                 \
	        {"pid", required_argument, NULL, OPT_PROCESS},                                     \
	        {"thread", required_argument, NULL, OPT_THREAD},                                   \
	        {"trigger", required_argument, NULL, OPT_TRIGGER},                                 \
	        {"view", required_argument, NULL, OPT_VIEW},                                       \
	{                                                                                          \
		"kinds", required_argument, NULL, OPT_KINDS                                        \
	}

/* Takes one of the shared options. EXIT_OK, or EXIT_USAGE when its value is bad (said). */
int read_option(const struct command *cmd, struct read_options *o, int opt, const char *arg);
/* Opens a recording that holds samples which the filter takes. An exit code, said. */
int open_recording(const char *path, const struct reader_filter *filter, struct reader **out);
/* The exit code for an error of the reader, said. */
int fail_reading(const struct err *err);

/* A file that is written under its name only when it is complete, or stdout. */
struct output {
	FILE *file;
	const char *path; /* NULL: stdout */
	char *temporary;
};
/* path NULL or "-": stdout. Never writes over the recording that is read.
 * An exit code, said. */
int output_open(struct output *out, const char *path, const char *recording);
int output_write(const char *data, size_t len, void *output); /* an export_write_fn */
/* Ends it; ok false removes what was written. An exit code, said. */
int output_close(struct output *out, int exit_code);

#endif
