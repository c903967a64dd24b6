/* The runtimes that rprof was built with, and whether the kernel side has the same. */
#include "runtimes/runtime.h"

#include <errno.h>

#define RUNTIME_OPS(id, ID, name) &name##_runtime,
const struct runtime_ops *const runtimes[] = {RUNTIMES(RUNTIME_OPS) NULL};

int runtime_check_walk(
        const struct runtime_ops *ops, const uint32_t *config_sz, size_t nr, struct err *err)
{
	uint32_t walk_sz = ops->id < nr ? config_sz[ops->id] : 0;

	if (ops->id == RUNTIME_NONE || walk_sz == 0)
		return err_set(err, -EINVAL,
		        "the kernel side has no walk for %s (runtime %u): bpf/runtimes.bpf.h does "
		        "not include it, or rprof was built from parts of two versions",
		        ops->name, ops->id);
	if (walk_sz != ops->config_sz || walk_sz > RPROF_CONFIG_SZ)
		return err_set(err, -EINVAL,
		        "the kernel side's walk for %s (runtime %u) takes %u bytes to know a "
		        "process, "
		        "not %zu, of %d at most: rprof was built from parts of two versions, or "
		        "two "
		        "runtimes have one id",
		        ops->name, ops->id, walk_sz, ops->config_sz, RPROF_CONFIG_SZ);
	return 0;
}
