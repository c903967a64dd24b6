#include "cli/options.h"

#include "record/syscalls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int option_duration(const char *option, const char *value, uint64_t *ns, struct err *err)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"m", 60e9}, {"min", 60e9},
	        {"h", 3600e9}};
	char *end;
	double v;

	errno = 0;
	v = strtod(value, &end);
	if (end != value && errno == 0 && v > 0) {
		for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
			if (strcmp(end, units[i].unit) != 0)
				continue;
			if (v * units[i].ns < 1e6 || v * units[i].ns > 365 * 86400e9)
				break;
			*ns = (uint64_t)(v * units[i].ns);
			return 0;
		}
	}
	return err_set(
	        err, -EINVAL, "%s %s is no duration: write 10s, 500ms, 2m or 1h", option, value);
}

static unsigned long max_rate(void)
{
	unsigned long max = 100000;
	FILE *f = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "re");

	if (f == NULL)
		return max;
	if (fscanf(f, "%lu", &max) != 1 || max == 0)
		max = 100000;
	fclose(f);
	return MIN(max, 100000UL);
}

int option_rate(const char *option, const char *value, uint32_t *hz, struct err *err)
{
	unsigned long max = max_rate(), v;
	char *end;

	errno = 0;
	v = strtoul(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0 || v == 0 || v > max)
		return err_set(err, -EINVAL,
		        "%s %s is no sampling rate: give a whole number of Hz from 1 to %lu (the "
		        "limit is "
		        "kernel.perf_event_max_sample_rate); 99 is a good one",
		        option, value, max);
	*hz = (uint32_t)v;
	return 0;
}

/* Calls add for each part between commas; an empty one is an error. */
static int for_each_part(const char *value, int (*add)(void *ctx, const char *part), void *ctx)
{
	char part[64];

	for (;;) {
		size_t len = strcspn(value, ",");
		int rc;

		if (len == 0 || len >= sizeof(part))
			return -EINVAL;
		memcpy(part, value, len);
		part[len] = '\0';
		rc = add(ctx, part);
		if (rc != 0)
			return rc;
		if (value[len] == '\0')
			return 0;
		value += len + 1;
	}
}

struct pid_list {
	pid_t **pids;
	size_t *nr;
};

static int add_pid(void *ctx, const char *part)
{
	struct pid_list *list = ctx;
	char *end;
	long pid = strtol(part, &end, 10);
	pid_t *pids;

	if (*end != '\0' || pid <= 0 || pid > 1 << 30)
		return -EINVAL;
	for (size_t i = 0; i < *list->nr; i++)
		if ((*list->pids)[i] == pid)
			return 0;
	pids = realloc(*list->pids, (*list->nr + 1) * sizeof(*pids));
	if (pids == NULL)
		return -ENOMEM;
	pids[(*list->nr)++] = (pid_t)pid;
	*list->pids = pids;
	return 0;
}

int option_pids(const char *option, const char *value, pid_t **pids, size_t *nr, struct err *err)
{
	struct pid_list list = {.pids = pids, .nr = nr};

	if (for_each_part(value, add_pid, &list) != 0)
		return err_set(err, -EINVAL,
		        "%s %s is no process id: give a number, or several with commas between",
		        option, value);
	return 0;
}

struct syscall_list {
	uint32_t **numbers;
	size_t *nr;
	char name[64];
};

static int add_syscall(void *ctx, const char *part)
{
	struct syscall_list *list = ctx;
	uint32_t *numbers, number;

	snprintf(list->name, sizeof(list->name), "%s", part);
	if (syscall_number(part, &number) != 0)
		return -ENOENT;
	numbers = realloc(*list->numbers, (*list->nr + 1) * sizeof(*numbers));
	if (numbers == NULL)
		return -ENOMEM;
	numbers[(*list->nr)++] = number;
	*list->numbers = numbers;
	return 0;
}

int option_syscalls(
        const char *option, const char *value, uint32_t **numbers, size_t *nr, struct err *err)
{
	struct syscall_list list = {.numbers = numbers, .nr = nr};
	int rc = for_each_part(value, add_syscall, &list);

	if (rc == -ENOENT)
		return err_set(err, -EINVAL,
		        "%s: there is no system call '%s' on x86-64 (names as strace prints them: "
		        "openat, read, futex)",
		        option, list.name);
	if (rc != 0)
		return err_set(err, -EINVAL,
		        "%s %s is no list of system calls: write openat,getpid", option, value);
	return 0;
}
