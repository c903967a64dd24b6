#include "record/priority.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Time that the thread was ready to run and did not (Documentation/scheduler/sched-stats.rst,
 * /proc/PID/schedstat, second number). 0: unknown. */
static uint64_t waited_ns(const struct priority *p)
{
	char text[96];
	ssize_t n = p->fd >= 0 ? pread(p->fd, text, sizeof(text) - 1, 0) : -1;
	uint64_t ran, waited;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	return sscanf(text, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2 ? waited : 0;
}

void priority_init(struct priority *p)
{
	*p = (struct priority){.fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)};
	p->waited_ns = waited_ns(p);
}

void priority_release(struct priority *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

/* Without CAP_SYS_NICE nothing changes. */
static bool raise_priority(void)
{
	const struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_RR)};

	return sched_getscheduler(0) == SCHED_OTHER && getpriority(PRIO_PROCESS, 0) <= 0 &&
	       sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &lowest) == 0;
}

bool priority_check(struct priority *p)
{
	uint64_t before = p->waited_ns;

	if (p->raised)
		return true;
	p->waited_ns = waited_ns(p);
	if (p->waited_ns > before + PRIORITY_MAX_WAIT_NS)
		p->raised = raise_priority();
	return p->raised;
}
