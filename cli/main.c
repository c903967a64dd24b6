/* The command table and nothing else. */
#include "cli/cmd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command *const commands[] = {
        &cmd_record,
        &cmd_report,
        &cmd_flamegraph,
        &cmd_export,
        &cmd_info,
};

static void print_sentence(const char *fmt, va_list args)
{
	char sentence[1024];

	vsnprintf(sentence, sizeof(sentence), fmt, args);
	/* Paths and names come from other people's programs: keep them off the terminal's controls.
	 */
	for (char *p = sentence; *p != '\0'; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	fprintf(stderr, "rprof: %s\n", sentence);
}

int cli_fail(enum exit_code code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print_sentence(fmt, args);
	va_end(args);
	return code;
}

int cli_usage(const struct command *cmd)
{
	fputs(cmd->usage, stdout);
	return cli_finish_stdout();
}

int cli_bad_usage(const struct command *cmd, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print_sentence(fmt, args);
	va_end(args);
	fprintf(stderr, "Try: rprof %s --help\n", cmd->name);
	return EXIT_USAGE;
}

int cli_finish_stdout(void)
{
	if (fflush(stdout) != 0 || ferror(stdout)) {
		if (errno == EPIPE)
			return EXIT_OK; /* the reader had enough: `rprof report x | head` */
		return cli_fail(errno == ENOSPC ? EXIT_DISK_FULL : EXIT_OUTPUT,
		        "standard output could not be written: %s", strerror(errno));
	}
	return EXIT_OK;
}

static int usage(FILE *out)
{
	fprintf(out,
	        "rprof %s: a profiler for running Ruby programs\n\n"
	        "Usage: rprof COMMAND [OPTIONS]\n\nCommands:\n",
	        RPROF_VERSION);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
	fprintf(out, "\n`rprof COMMAND --help` has the options. Start with: rprof record -p PID -d "
	             "10s\n");
	return out == stdout ? cli_finish_stdout() : EXIT_USAGE;
}

int main(int argc, char **argv)
{
	/* libdw would ask a server for debug files, for minutes, in the middle of a recording. */
	unsetenv("DEBUGINFOD_URLS");
	if (argc < 2)
		return usage(stderr);
	if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
	        strcmp(argv[1], "-h") == 0) {
		if (argc == 2)
			return usage(stdout);
		argv[1] = argv[2];
		argv[2] = "--help";
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		printf("rprof %s\n", RPROF_VERSION);
		return cli_finish_stdout();
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(argv[1], commands[i]->name) == 0)
			return commands[i]->run(argc - 1, argv + 1);
	cli_fail(EXIT_USAGE, "there is no command '%s'", argv[1]);
	return usage(stderr);
}
