/*
 * A processor for the recorder. A scheduler is fair to groups of processes over seconds at best,
 * and some are not fair at all to who shares a processor with threads that sleep and wake thousands
 * of times a second (seen on Linux 6.18 with autogroups: 4 % of the processor, and none for 2 s).
 * The recorder would lose what was sampled meanwhile, commit late, and end late. So where it has
 * had to wait too long it asks for a priority that is not left waiting (SCHED_RR, the lowest one);
 * in exchange it must rest. Who started rprof with less than the usual priority (nice, SCHED_IDLE)
 * wanted it to wait: that stays as it is.
 */
#ifndef RECORD_PRIORITY_H
#define RECORD_PRIORITY_H

#include <stdbool.h>
#include <stdint.h>

struct priority {
	int fd; /* /proc/thread-self/schedstat, -1: this cannot be known */
	uint64_t waited_ns;
	bool raised;
};

/* More than this in one round, which takes some 150 ms, is too long. */
enum { PRIORITY_MAX_WAIT_NS = 200 * 1000 * 1000 };

/* Of the thread that calls; it has to make the other calls as well. */
void priority_init(struct priority *p);
/* The priority stays. */
void priority_release(struct priority *p);
/* Once a round: raises the priority when the round had to wait too long for a processor. True while
 * it is raised: whatever the caller does, it must sleep three times as long. */
bool priority_check(struct priority *p);

#endif
