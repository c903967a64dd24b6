/* System calls of x86-64 by name and number, from the kernel's own list (asm/unistd_64.h) as it was
 * at build time. */
#ifndef RECORD_SYSCALLS_H
#define RECORD_SYSCALLS_H

#include "base/base.h"

/* NULL: a number that this build does not know. */
const char *syscall_name(uint32_t number);
/* -ENOENT: no such name. A plain number is taken too. */
int syscall_number(const char *name, uint32_t *number);

#endif
