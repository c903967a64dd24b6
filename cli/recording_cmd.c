#include "cli/recording_cmd.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int parse_id(const struct command *cmd, const char *what, const char *arg, int *out)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(arg, &end, 10);
	if (errno != 0 || end == arg || *end != '\0' || v <= 0 || v > INT_MAX)
		return cli_bad_usage(cmd, "'%s' is no id of a %s: a number is needed", arg, what);
	*out = (int)v;
	return EXIT_OK;
}

int read_option(const struct command *cmd, struct read_options *o, int opt, const char *arg)
{
	switch (opt) {
	case OPT_OUTPUT:
		o->output = arg;
		return EXIT_OK;
	case OPT_FORMAT:
		o->format = arg;
		return EXIT_OK;
	case OPT_PROCESS:
		return parse_id(cmd, "process", arg, &o->filter.pid);
	case OPT_THREAD:
		return parse_id(cmd, "thread", arg, &o->filter.tid);
	case OPT_TRIGGER:
		o->filter.trigger = arg;
		return EXIT_OK;
	case OPT_VIEW:
		if (view_mode_parse(arg, &o->view.mode))
			return EXIT_OK;
		return cli_bad_usage(cmd, "there is no view '%s': default, ruby or all", arg);
	case OPT_KINDS:
		if (view_kinds_parse(arg, &o->view.kinds))
			return EXIT_OK;
		return cli_bad_usage(
		        cmd, "'%s' is no list of ruby, jit, cfunc, native, kernel, gc", arg);
	default:
		return EXIT_USAGE;
	}
}

int fail_reading(const struct err *err)
{
	switch (err->code) {
	case -ENOMEM:
		return cli_fail(EXIT_INTERNAL, "%s", err->msg);
	case -EACCES:
	case -EPERM:
		return cli_fail(EXIT_PERMISSION, "%s", err->msg);
	default:
		return cli_fail(EXIT_BAD_RECORDING, "%s", err->msg);
	}
}

static int stop_at_first(const struct reader_stack *stack, void *ctx)
{
	*(bool *)ctx = true;
	return 1;
}

int open_recording(const char *path, const struct reader_filter *filter, struct reader **out)
{
	struct reader *r = NULL;
	struct err err = {0};
	bool any = false;
	size_t nr;

	if (reader_open(path, &r, &err) != 0)
		return fail_reading(&err);
	if (filter->trigger != NULL) {
		const struct reader_trigger *t = reader_triggers(r, &nr);
		bool found = false;

		for (size_t i = 0; i < nr; i++)
			found |= strcmp(t[i].name, filter->trigger) == 0;
		if (!found) {
			cli_fail(EXIT_USAGE, "%s has no trigger '%s'; it has: %s%s%s%s", path,
			        filter->trigger, nr != 0 ? t[0].name : "none", nr > 1 ? ", " : "",
			        nr > 1 ? t[1].name : "", nr > 2 ? ", ..." : "");
			reader_free(r);
			return EXIT_USAGE;
		}
	}
	if (reader_each_sample(r, filter, stop_at_first, &any, &err) < 0) {
		reader_free(r);
		return fail_reading(&err);
	}
	if (!any) {
		reader_free(r);
		if (filter->pid != 0 || filter->tid != 0 || filter->trigger != NULL)
			return cli_fail(EXIT_NO_SAMPLES,
			        "%s has no sample of that process, thread and trigger", path);
		return cli_fail(EXIT_NO_SAMPLES,
		        "%s holds no samples: was the program idle while it was recorded?", path);
	}
	*out = r;
	return EXIT_OK;
}

static int fail_output(const char *path, int error)
{
	return cli_fail(error == ENOSPC || error == EDQUOT ? EXIT_DISK_FULL : EXIT_OUTPUT,
	        "%s could not be written: %s", path, strerror(error));
}

int output_open(struct output *out, const char *path, const char *recording)
{
	struct stat st, of_recording;

	*out = (struct output){0};
	if (path == NULL || strcmp(path, "-") == 0) {
		out->file = stdout;
		return EXIT_OK;
	}
	out->path = path;
	if (stat(path, &st) == 0 && stat(recording, &of_recording) == 0 &&
	        st.st_dev == of_recording.st_dev && st.st_ino == of_recording.st_ino)
		return cli_fail(EXIT_OUTPUT, "%s is the recording itself: choose another -o", path);
	/* A pipe or a device is written as it is; a plain file appears whole or not at all. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		out->file = fopen(path, "we");
		return out->file != NULL ? EXIT_OK : fail_output(path, errno);
	}
	if (asprintf(&out->temporary, "%s.new-%d", path, (int)getpid()) < 0) {
		out->temporary = NULL;
		return fail_output(path, ENOMEM);
	}
	out->file = fopen(out->temporary, "wxe");
	if (out->file == NULL) {
		int rc = fail_output(path, errno);

		free(out->temporary);
		return rc;
	}
	return EXIT_OK;
}

int output_write(const char *data, size_t len, void *output)
{
	struct output *out = output;

	errno = 0;
	if (len == 0 || fwrite(data, 1, len, out->file) == len)
		return 0;
	return errno != 0 ? -errno : -EIO;
}

int output_close(struct output *out, int exit_code)
{
	int error = 0;

	if (out->path == NULL)
		return exit_code != EXIT_OK ? exit_code : cli_finish_stdout();
	errno = 0;
	if (ferror(out->file) || fflush(out->file) != 0)
		error = errno != 0 ? errno : EIO;
	if (fclose(out->file) != 0 && error == 0)
		error = errno;
	if (out->temporary != NULL) {
		if (error == 0 && exit_code == EXIT_OK && rename(out->temporary, out->path) != 0)
			error = errno;
		if (error != 0 || exit_code != EXIT_OK)
			unlink(out->temporary);
		free(out->temporary);
	}
	return exit_code == EXIT_OK && error != 0 ? fail_output(out->path, error) : exit_code;
}
