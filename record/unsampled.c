#include "record/unsampled.h"

#include "record/process.h"

#include <errno.h>
#include <inttypes.h>

void unsampled_note(struct process *p)
{
	uint64_t now;

	if (p->exited || target_cpu_ns(&p->target, &now) != 0)
		return;
	if (!p->has_cpu_start) {
		p->cpu_start_ns = now;
		p->has_cpu_start = true;
	}
	if (now >= p->cpu_start_ns + p->cpu_ns)
		p->cpu_ns = now - p->cpu_start_ns;
}

const struct process *unsampled_find(struct process *const *processes, size_t nr, uint32_t rate_hz)
{
	for (size_t i = 0; i < nr; i++)
		if (is_unsampled(processes[i]->nr_samples, processes[i]->cpu_ns, rate_hz))
			return processes[i];
	return NULL;
}

void unsampled_explain(const struct process *p, uint64_t lost, uint64_t no_user, struct err *err)
{
	int pid = (int)p->target.pid;
	double seconds = (double)p->cpu_ns / 1e9;

	if (lost != 0)
		err_set(err, -ENODATA,
		        "there is no sample of process %d, which used %.2f s of CPU time: %" PRIu64
		        " samples were lost since rprof had no processor to read them on; lower "
		        "the rate (-F), or leave it more of the machine",
		        pid, seconds, lost);
	else if (no_user != 0)
		err_set(err, -ENODATA,
		        "there is no sample of process %d, which used %.2f s of CPU time: threads "
		        "of the kernel used it on its behalf (io_uring), which have no stack of "
		        "the "
		        "program; perf shows what they do",
		        pid, seconds);
	else
		err_set(err, -ENODATA,
		        "there is no sample of process %d, which used %.2f s of CPU time: it may "
		        "run in step with the sampling clock (try another rate with -F), or be "
		        "hidden from rprof by a container (try from the host or from inside); "
		        "else please report this, with what `rprof info %d` prints",
		        pid, seconds, pid);
}
