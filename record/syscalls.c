#include "record/syscalls.h"

#include "bpf/abi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[RPROF_MAX_SYSCALL] = {
#include "record/syscalls.inc"
};

const char *syscall_name(uint32_t number)
{
	return number < RPROF_MAX_SYSCALL ? names[number] : NULL;
}

int syscall_number(const char *name, uint32_t *number)
{
	unsigned long n;
	char *end;

	for (uint32_t i = 0; i < RPROF_MAX_SYSCALL; i++) {
		if (names[i] != NULL && strcmp(names[i], name) == 0) {
			*number = i;
			return 0;
		}
	}
	if (name[0] < '0' || name[0] > '9')
		return -ENOENT;
	n = strtoul(name, &end, 10);
	if (*end != '\0' || n >= RPROF_MAX_SYSCALL)
		return -ENOENT;
	*number = (uint32_t)n;
	return 0;
}
