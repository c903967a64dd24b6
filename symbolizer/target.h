/*
 * A process that we look at. It may lie, change under our eyes and go away: every read is bounded
 * by its caller and may fail at any time.
 *
 * The read function can be replaced, so that everything above this file runs in tests on made-up
 * memory.
 */
#ifndef SYMBOLIZER_TARGET_H
#define SYMBOLIZER_TARGET_H

#include "base/err.h"
#include <stdbool.h>
#include <sys/types.h>

struct target {
	pid_t pid;           /* as /proc of this process numbers it */
	uint64_t start_time; /* field 22 of /proc/PID/stat, clock ticks since boot: with pid the
	                        identity */
	int pidfd;           /* owned; -1 for a made-up target */
	int (*read)(const struct target *t, uint64_t addr, void *out, size_t n);
	void *ctx; /* for a made-up target's read */
};

/* -ESRCH: no such process; -EPERM: may not be looked at; -ENXIO: /proc is of another PID namespace
 * than we are; the sentence names the remedy. */
int target_open(struct target *t, pid_t pid, struct err *err);
void target_close(struct target *t);
/* False once the process has exited (a zombie has exited too). */
bool target_is_alive(const struct target *t);
/* CPU time that all its threads have used, those that have exited too. -errno once it is gone. */
int target_cpu_ns(const struct target *t, uint64_t *out);

/* All n bytes or nothing. 0, -EFAULT (not mapped), -ESRCH (gone), -EPERM. */
int target_read(const struct target *t, uint64_t addr, void *out, size_t n);

struct target_piece {
	uint64_t addr;
	void *out;
	size_t n;
};
/*
 * Reads pieces in their order, in as few system calls as there can be: each piece is as it was
 * after the one before it had been read. Returns how many, from the first, were read whole.
 */
size_t target_read_pieces(const struct target *t, const struct target_piece *v, size_t nr);
int target_read_u64(const struct target *t, uint64_t addr, uint64_t *out);
int target_read_u32(const struct target *t, uint64_t addr, uint32_t *out);

#endif
