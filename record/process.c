#include "record/process.h"

#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INFOS = 1 << 20, COMMAND_LINE_MAX = 4096, REATTACH_TRIES = 50, MAX_TAG = 4095 };

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

static void forget_infos(struct process *p)
{
	for (size_t i = 0; i < p->nr_infos; i++) {
		free(p->infos[i].frames);
		free(p->infos[i].ids);
	}
	p->nr_infos = 0;
	hash64_clear(&p->addresses);
	free(p->mapped);
	p->mapped = NULL;
}

static int attach_runtime(struct process *p, struct err *err)
{
	static uint32_t last_tag; /* counts the attaches of all processes */
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
	p->rt_tag = last_tag = last_tag % MAX_TAG + 1;
	p->sites = (struct stitch_sites){0};
	if (p->ops->call_sites != NULL)
		p->sites.nr = p->ops->call_sites(p->rt, p->sites.addr, STITCH_MAX_SITES);
	p->sites.complete = p->sites.nr != 0;
	for (size_t i = 0; i < p->sites.nr; i++)
		p->sites.func_addr[i] =
		        process_native(p, p->sites.addr[i], false)->stitch.func_addr;
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

	if (p->ops == NULL)
		return;
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
	p->sites = (struct stitch_sites){0};
}

int process_reattach(struct process *p, struct err *err)
{
	int rc = attach_runtime(p, err);

	/* What an address is to the interpreter was not known until now. */
	if (rc == 0) {
		forget_infos(p);
		p->generation++;
	}
	/* At first only the loader is there, then a Ruby that is still starting; a program that is
	 * none never will be. */
	if (rc == 0 || ++p->nr_reattached == REATTACH_TRIES)
		p->lost_runtime = false;
	return rc;
}

int process_new(pid_t pid, struct dso_cache *dsos, struct process **out, struct err *err)
{
	struct process *p = calloc(1, sizeof(*p));
	int rc;

	if (p == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	p->dsos = dsos;
	p->target.pidfd = -1;
	hash64_init(&p->addresses);
	rc = target_open(&p->target, pid, err);
	if (rc != 0)
		goto out;
	rc = maps_read(&p->maps, pid, err);
	if (rc != 0)
		goto out;
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
	forget_infos(p);
	free(p->infos);
	hash64_release(&p->addresses);
	maps_release(&p->maps);
	if (p->target.pidfd >= 0)
		target_close(&p->target);
	free(p->command_line);
	free(p);
}

int process_refresh_maps(struct process *p, struct err *err)
{
	struct maps now = {0};
	bool same;
	int rc = maps_read(&now, p->target.pid, err);

	if (rc != 0)
		return rc;
	same = maps_same_code(&p->maps, &now);
	if (same) {
		maps_release(&now);
		return 0;
	}
	/* What an address meant may have changed with its mapping. */
	forget_infos(p);
	maps_release(&p->maps);
	p->maps = now;
	p->generation++;
	check_runtime(p);
	return 1;
}

bool process_knows(const struct process *p, uint64_t pc)
{
	const struct mapping *m = maps_find(&p->maps, pc);

	return (m != NULL && (m->prot & MAPS_PROT_EXEC)) ||
	       (p->ops != NULL && p->ops->native_role(p->rt, pc) == NATIVE_JIT);
}

struct runtime *process_runtime(
        const struct process *p, uint32_t tag, const struct runtime_ops **ops)
{
	*ops = NULL;
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

/* NULL without memory. */
static struct mapping_info *mapping_info(struct process *p, const struct mapping *m)
{
	struct mapping_info *info;
	struct dso *dso;

	if (p->mapped == NULL)
		p->mapped = calloc(p->maps.nr, sizeof(*p->mapped));
	if (p->mapped == NULL)
		return NULL;
	info = &p->mapped[m - p->maps.v];
	if (!info->known) {
		info->kind = (uint8_t)find_kind(p, m, &dso);
		info->dso = dso;
		info->known = true;
	}
	return info;
}

enum mapping_kind process_mapping_kind(struct process *p, const struct mapping *m, struct dso **dso)
{
	const struct mapping_info *info = mapping_info(p, m);

	if (info == NULL)
		return find_kind(p, m, dso);
	*dso = info->dso;
	return (enum mapping_kind)info->kind;
}

static uint8_t find_role(const struct process *p, struct dso *dso)
{
	if (p->ops != NULL && p->ops->dso(p->rt) == dso)
		return ROLE_VM;
	if (p->ops != NULL && p->ops->is_extension != NULL && p->ops->is_extension(p->rt, dso))
		return ROLE_EXT;
	return dso_is_executable(dso) ? ROLE_PROGRAM : ROLE_LIB;
}

static uint8_t role_of(struct process *p, const struct mapping *m, struct dso *dso)
{
	struct mapping_info *info = mapping_info(p, m);

	if (info == NULL)
		return find_role(p, dso);
	if (!info->has_role) {
		info->role = find_role(p, dso);
		info->has_role = true;
	}
	return info->role;
}

/* Frames of an address in a file. Returns how many. */
static size_t resolve_in_file(struct process *p, const struct mapping *m, struct dso *dso,
        uint64_t lookup_pc, struct frame *frames, uint64_t *func_addr)
{
	uint64_t bias = 0, start, end;
	uint8_t role;
	size_t nr;

	if (!dso_load_bias(dso, m, &bias))
		return 0;
	nr = dso_resolve(dso, lookup_pc - bias, frames, MAX_INLINED);
	if (nr == 0)
		return 0;
	/* Function identity is the FDE's: it does not depend on symbols. */
	if (dso_fde_at(dso, lookup_pc - bias, &start, &end))
		*func_addr = start + bias;
	else if (frames[nr - 1].func_addr != 0)
		*func_addr = frames[nr - 1].func_addr + bias;
	role = role_of(p, m, dso);
	for (size_t i = 0; i < nr; i++) {
		frames[i].kind = FRAME_NATIVE;
		frames[i].role = role;
		frames[i].addr = lookup_pc;
		frames[i].func_addr = *func_addr;
		if (frames[i].library == NULL)
			frames[i].library = dso_path(dso);
		if (frames[i].build_id == NULL && dso_build_id(dso)[0] != '\0')
			frames[i].build_id = dso_build_id(dso);
	}
	return nr;
}

static size_t resolve_address(
        struct process *p, uint64_t lookup_pc, struct frame *frames, struct stitch_native *st)
{
	const struct mapping *m = maps_find(&p->maps, lookup_pc);
	enum native_role role =
	        p->ops != NULL ? p->ops->native_role(p->rt, lookup_pc) : NATIVE_PLAIN;
	struct frame unknown = {.kind = FRAME_NATIVE, .name = "[unknown]", .addr = lookup_pc};
	struct dso *dso = NULL;
	const char *name;
	size_t nr = 0;

	*st = (struct stitch_native){.role = (uint8_t)role};
	/* A JIT makes its code executable and writable by turns. */
	if (role != NATIVE_JIT && (m == NULL || !(m->prot & MAPS_PROT_EXEC))) {
		frames[0] = unknown;
		return 1;
	}
	if (role == NATIVE_JIT || process_mapping_kind(p, m, &dso) == MAPPING_JIT) {
		unknown.name = "[jit]";
		unknown.role = ROLE_JIT;
		frames[0] = unknown;
		if (p->ops != NULL)
			st->role = STITCH_JIT;
		return 1;
	}
	if (dso != NULL)
		nr = resolve_in_file(p, m, dso, lookup_pc, frames, &st->func_addr);
	if (nr == 0) {
		unknown.role = ROLE_LIB;
		frames[0] = unknown;
		return 1;
	}
	st->runtime = frames[0].role == ROLE_VM;
	st->enters_gc =
	        st->runtime && p->ops->enters_gc != NULL && p->ops->enters_gc(p->rt, st->func_addr);
	name = st->runtime && p->ops->native_name != NULL ? p->ops->native_name(p->rt, lookup_pc)
	                                                  : NULL;
	/* A role's name stands in for a missing symbol, never for one that is there. */
	if (name != NULL && strstr(frames[nr - 1].name, "+0x") != NULL)
		frames[nr - 1].name = name;
	return nr;
}

struct native_info *process_native(struct process *p, uint64_t pc, bool interrupted)
{
	static struct frame none = {.kind = FRAME_NATIVE, .name = "[out of memory]"};
	static struct native_info no_memory = {.nr_frames = 0, .frames = &none};
	struct frame frames[MAX_INLINED];
	uint64_t key = pc << 1 | interrupted, lookup_pc = interrupted ? pc : pc - 1;
	uint64_t *found = hash64_find(&p->addresses, key);
	struct native_info info = {0};
	size_t nr;

	if (found != NULL)
		return &p->infos[*found];
	if (p->nr_infos >= MAX_INFOS)
		forget_infos(p);
	if (p->nr_infos == p->cap_infos) {
		size_t cap = p->cap_infos != 0 ? p->cap_infos * 2 : 1024;
		struct native_info *infos = realloc(p->infos, cap * sizeof(*infos));

		if (infos == NULL)
			return &no_memory;
		p->infos = infos;
		p->cap_infos = cap;
	}
	nr = resolve_address(p, lookup_pc, frames, &info.stitch);
	info.frames = malloc(nr * sizeof(*info.frames));
	info.ids = calloc(nr, sizeof(*info.ids));
	if (info.frames == NULL || info.ids == NULL ||
	        hash64_put(&p->addresses, key, p->nr_infos) != 0) {
		free(info.frames);
		free(info.ids);
		return &no_memory;
	}
	memcpy(info.frames, frames, nr * sizeof(*info.frames));
	info.nr_frames = (uint32_t)nr;
	p->infos[p->nr_infos] = info;
	return &p->infos[p->nr_infos++];
}
