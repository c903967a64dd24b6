#include "record/process.h"

#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMAND_LINE_MAX = 4096, REATTACH_TRIES = 50 };

/* comm and command line: for the eye only, so trouble leaves them empty. */
static void process_read_names(struct process *p)
{
	char path[64];
	struct buf b;

	buf_init(&b, COMMAND_LINE_MAX);
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)p->target.pid);
	if (buf_read_file(&b, path) == 0 && b.len > 0)
		snprintf(p->comm, sizeof(p->comm), "%.*s", (int)strcspn(b.data, "\n"), b.data);
	buf_reset(&b);
	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)p->target.pid);
	buf_read_file(&b, path); /* a longer one is cut at the buffer's end */
	for (size_t i = 0; i + 1 < b.len; i++)
		if (b.data[i] == '\0')
			b.data[i] = ' ';
	p->command_line = b.data;
}

static int attach_runtime(struct process *p, struct err *err)
{
	int rc = -ENOENT;

	for (size_t i = 0; runtimes[i] != NULL; i++) {
		rc = runtimes[i]->attach(&p->target, &p->maps, p->dsos, &p->rt, err);
		if (rc == 0)
			p->ops = runtimes[i];
		if (rc != -ENOENT)
			break;
	}
	if (rc != 0)
		return rc;
	p->rt_tag = 0;
	p->rt_addr = 0;
	for (size_t i = 0; i < p->maps.nr && p->rt_addr == 0; i++) {
		struct dso *dso;

		if ((p->maps.v[i].prot & MAPS_PROT_EXEC) && p->maps.v[i].path[0] == '/' &&
		        dso_cache_get(p->dsos, &p->target, &p->maps.v[i], &dso, NULL) == 0 &&
		        dso == p->ops->dso(p->rt))
			p->rt_addr = p->maps.v[i].start;
	}
	return 0;
}

/* Is the interpreter's code still where it was? After an exec it is not, or it belongs to another
 * image. */
static void check_runtime(struct process *p)
{
	const struct mapping *m = maps_find(&p->maps, p->rt_addr);
	struct dso *dso = NULL;

	/* Code was mapped: an interpreter may be there now, however long it took. */
	if (p->ops == NULL) {
		p->lost_runtime = true;
		p->nr_reattached = 0;
		return;
	}
	if (m != NULL && (m->prot & MAPS_PROT_EXEC) &&
	        dso_cache_get(p->dsos, &p->target, m, &dso, NULL) == 0 && dso == p->ops->dso(p->rt))
		return;
	/* Beyond that many execs the names are kept without a way to free them before exit. */
	if (p->nr_retired < ARRAY_SIZE(p->retired)) {
		p->retired[p->nr_retired].ops = p->ops;
		p->retired[p->nr_retired].tag = p->rt_tag;
		p->retired[p->nr_retired++].rt = p->rt;
	}
	p->ops = NULL;
	p->rt = NULL;
	p->lost_runtime = true;
	p->nr_reattached = 0;
}

int process_reattach(struct process *p, struct err *err)
{
	int rc = attach_runtime(p, err);

	/* What an address is to the interpreter was not known until now. */
	if (rc == 0) {
		for (size_t i = 0; i < p->maps.nr; i++)
			p->mapped[i].has_role = false;
		p->generation++;
	}
	/* At first only the loader is there, then an interpreter that is still starting, for as
	 * long as the machine lets it wait. A program that is none and maps no more code never will
	 * be.
	 */
	if (rc == 0 || (rc != -EAGAIN && ++p->nr_reattached >= REATTACH_TRIES))
		p->lost_runtime = false;
	return rc;
}

static struct mapping_info *mapped_new(const struct maps *maps)
{
	return calloc(maps->nr + 1, sizeof(struct mapping_info));
}

int process_new(pid_t pid, struct dso_cache *dsos, struct process **out, struct err *err)
{
	struct process *p = calloc(1, sizeof(*p));
	int rc;

	if (p == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	p->dsos = dsos;
	p->target.pidfd = -1;
	rc = target_open(&p->target, pid, err);
	if (rc != 0)
		goto out;
	rc = maps_read(&p->maps, pid, err);
	if (rc != 0)
		goto out;
	p->mapped = mapped_new(&p->maps);
	if (p->mapped == NULL) {
		rc = err_set(err, -ENOMEM, "out of memory");
		goto out;
	}
	p->generation = 1;
	process_read_names(p);
	rc = attach_runtime(p, err);
	if (rc != 0)
		goto out;
	*out = p;
	return 0;
out:
	process_free(p);
	return rc;
}

void process_free(struct process *p)
{
	if (p == NULL)
		return;
	if (p->rt != NULL)
		p->ops->free(p->rt);
	for (size_t i = 0; i < p->nr_retired; i++)
		p->retired[i].ops->free(p->retired[i].rt);
	free(p->mapped);
	maps_release(&p->maps);
	if (p->target.pidfd >= 0)
		target_close(&p->target);
	free(p->command_line);
	free(p);
}

int process_refresh_maps(struct process *p, struct err *err)
{
	struct maps now = {0};
	struct mapping_info *mapped;
	int rc = maps_read(&now, p->target.pid, err);

	if (rc != 0)
		return rc;
	if (maps_same_code(&p->maps, &now)) {
		maps_release(&now);
		return 0;
	}
	mapped = mapped_new(&now);
	if (mapped == NULL) {
		maps_release(&now);
		return err_set(err, -ENOMEM, "out of memory");
	}
	maps_release(&p->maps);
	free(p->mapped);
	p->maps = now;
	p->mapped = mapped;
	p->generation++;
	check_runtime(p);
	return 1;
}

struct runtime *process_runtime(
        const struct process *p, uint32_t tag, const struct runtime_ops **ops)
{
	*ops = NULL;
	if (tag == 0)
		return NULL;
	if (p->rt != NULL && p->rt_tag == tag) {
		*ops = p->ops;
		return p->rt;
	}
	for (size_t i = 0; i < p->nr_retired; i++) {
		if (p->retired[i].tag != tag)
			continue;
		*ops = p->retired[i].ops;
		return p->retired[i].rt;
	}
	return NULL;
}

static enum mapping_kind find_kind(struct process *p, const struct mapping *m, struct dso **dso)
{
	struct err ignored;

	*dso = NULL;
	if (m->path[0] == '\0' || strncmp(m->path, "[anon", 5) == 0)
		return MAPPING_JIT;
	if (dso_cache_get(p->dsos, &p->target, m, dso, &ignored) != 0) {
		*dso = NULL;
		return MAPPING_NO_TABLE;
	}
	return dso_unwind_table(*dso, &ignored) != NULL ? MAPPING_TABLE : MAPPING_NO_TABLE;
}

struct mapping_info *process_mapping(struct process *p, const struct mapping *m)
{
	struct mapping_info *info = &p->mapped[m - p->maps.v];

	if (!info->known) {
		info->kind = (uint8_t)find_kind(p, m, &info->dso);
		info->known = true;
	}
	return info;
}
