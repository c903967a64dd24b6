/*
 * The kernel's own notes of code that processes map (perf's PERF_RECORD_MMAP2), so that the unwind
 * tables of a library are there within moments of its dlopen().
 */
#ifndef RECORD_SIDEBAND_H
#define RECORD_SIDEBAND_H

#include "base/err.h"
#include <stdbool.h>

struct sideband;

int sideband_new(int nr_cpus, struct sideband **out, struct err *err);
void sideband_free(struct sideband *sb);
/* Adds its descriptors to an epoll instance. */
int sideband_watch(struct sideband *sb, int epoll_fd);
/* Calls fn with the pid of each process that mapped code since the last call (or may have: notes
 * can be lost: pid 0). True when there was one. */
bool sideband_read(struct sideband *sb, void (*fn)(void *ctx, int pid), void *ctx);

#endif
