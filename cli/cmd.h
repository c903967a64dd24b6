/*
 * The commands of rprof: one file each (cli/cmd_NAME.c), one row each in cli/main.c.
 * Results go to stdout, everything else to stderr; only cli/ prints.
 */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include "base/err.h"

/* Exit codes: documented in docs/rprof.1 and an interface. Append only. */
enum exit_code {
	EXIT_OK = 0,
	EXIT_INTERNAL = 1,       /* anything without a code of its own */
	EXIT_USAGE = 2,          /* unknown command or option, bad value */
	EXIT_NO_PROCESS = 3,     /* no such process */
	EXIT_NOT_RUBY = 4,       /* the process runs no interpreter that rprof knows */
	EXIT_UNSUPPORTED = 5,    /* a release of the interpreter that is not supported */
	EXIT_PERMISSION = 6,     /* a capability or a sysctl is in the way */
	EXIT_KERNEL = 7,         /* the kernel lacks what rprof needs (BTF, BPF) */
	EXIT_OUTPUT = 8,         /* the output cannot be written (path, permission) */
	EXIT_DISK_FULL = 9,      /* the disk filled up; what was recorded before is kept */
	EXIT_BAD_RECORDING = 10, /* no recording, a damaged one, or one of a newer rprof */
	EXIT_NO_SAMPLES = 11,    /* the recording holds nothing to show */
	EXIT_UNSAMPLED = 12,     /* no sample was taken of a process that used CPU time */
};

struct command {
	const char *name;
	const char *summary; /* one line of `rprof help` */
	int (*run)(int argc,
	        char **argv); /* argv[0] is the command's name; returns an enum exit_code */
	const char *usage;    /* cli/usage/NAME.txt, printed by `rprof NAME --help` */
};

extern const struct command cmd_record, cmd_report, cmd_flamegraph, cmd_export, cmd_info;

/* "rprof: SENTENCE" on stderr, control characters replaced; returns code. */
int cli_fail(enum exit_code code, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* For --help: prints the usage on stdout, returns EXIT_OK. For a usage error: the sentence and a
 * hint, EXIT_USAGE. */
int cli_usage(const struct command *cmd);
int cli_bad_usage(const struct command *cmd, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Flushes stdout and says whether everything was written: a full disk behind a pipe is an error
 * too. */
int cli_finish_stdout(void);

#endif
