/* Values of options, read the same way in every command. Each returns 0 or -EINVAL with a sentence
 * that names the option. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/err.h"
#include <sys/types.h>

/* "10" and "10s" are seconds; also "500ms", "2m", "1h". Not 0. */
int option_duration(const char *option, const char *value, uint64_t *ns, struct err *err);
/* Hz, from 1 to what kernel.perf_event_max_sample_rate allows. */
int option_rate(const char *option, const char *value, uint32_t *hz, struct err *err);
/* Appends the pids of "12" or "12,34". *pids is the caller's to free. Doubles are dropped. */
int option_pids(const char *option, const char *value, pid_t **pids, size_t *nr, struct err *err);
/* Appends the numbers of "openat,getpid". */
int option_syscalls(
        const char *option, const char *value, uint32_t **numbers, size_t *nr, struct err *err);

#endif
