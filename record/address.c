#include "record/address.h"

#include "bpf/abi.h"
#include "record/process.h"
#include "symbolizer/kallsyms.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ADDRESSES = 1 << 20 };

/* What was found of one address, before it is known how much room it takes. */
struct found {
	struct stitch_native stitch;
	bool known;
	size_t nr;
	struct frame frames[MAX_INLINED];
	char name[32]; /* of a frame that has no better one */
};

void addresses_init(struct addresses *a, struct process *process)
{
	*a = (struct addresses){.process = process};
	hash64_init(&a->by_key);
}

void addresses_init_kernel(struct addresses *a, struct kallsyms *kallsyms)
{
	*a = (struct addresses){.kallsyms = kallsyms};
	hash64_init(&a->by_key);
}

static void forget(struct addresses *a)
{
	for (size_t i = 0; i < a->by_key.nr_slots; i++)
		if (a->by_key.slots[i].used)
			free((void *)(uintptr_t)a->by_key.slots[i].value);
	hash64_clear(&a->by_key);
}

void addresses_release(struct addresses *a)
{
	forget(a);
	hash64_release(&a->by_key);
}

/* ---- in a process -------------------------------------------------------------------------- */

static uint8_t role_of(struct process *p, struct mapping_info *info)
{
	struct dso *dso = info->dso;

	if (info->has_role)
		return info->role;
	if (p->ops != NULL && p->ops->dso(p->rt) == dso)
		info->role = ROLE_VM;
	else if (p->ops != NULL && p->ops->is_extension != NULL && p->ops->is_extension(p->rt, dso))
		info->role = ROLE_EXT;
	else
		info->role = dso_is_executable(dso) ? ROLE_PROGRAM : ROLE_LIB;
	info->has_role = true;
	return info->role;
}

/* What the file says of the address. False: nothing. */
static bool find_in_file(struct process *p, const struct mapping *m, struct mapping_info *info,
        uint64_t pc, struct found *out)
{
	uint64_t bias = 0, start, end, func_addr = 0;
	struct dso *dso = info->dso;
	uint8_t role;

	if (!dso_load_bias(dso, m, &bias))
		return false;
	out->nr = dso_resolve(dso, pc - bias, out->frames, MAX_INLINED);
	if (out->nr == 0)
		return false;
	/* Function identity is the FDE's: it does not depend on symbols. */
	if (dso_fde_at(dso, pc - bias, &start, &end))
		func_addr = start + bias;
	else if (out->frames[out->nr - 1].func_addr != 0)
		func_addr = out->frames[out->nr - 1].func_addr + bias;
	role = role_of(p, info);
	for (size_t i = 0; i < out->nr; i++) {
		struct frame *f = &out->frames[i];

		f->kind = FRAME_NATIVE;
		f->role = role;
		f->addr = pc;
		f->func_addr = func_addr;
	}
	out->stitch.func_addr = func_addr;
	return true;
}

static void find_in_process(struct process *p, uint64_t pc, struct found *out)
{
	const struct mapping *m = maps_find(&p->maps, pc);
	enum stitch_native_role role =
	        p->ops != NULL ? p->ops->native_role(p->rt, pc) : STITCH_PLAIN;
	struct mapping_info *info = NULL;
	const char *name = NULL;
	struct frame *outermost;

	out->stitch.role = (uint8_t)role;
	out->nr = 1;
	out->frames[0] = (struct frame){.kind = FRAME_NATIVE, .name = "[unknown]", .addr = pc};
	/* A JIT makes its code executable and writable by turns. */
	out->known = role == STITCH_JIT || (m != NULL && (m->prot & MAPS_PROT_EXEC));
	if (!out->known)
		return;
	if (role != STITCH_JIT)
		info = process_mapping(p, m);
	if (info == NULL || info->kind == MAPPING_JIT) {
		out->frames[0].name = "[jit]";
		out->frames[0].role = ROLE_JIT;
		if (p->ops != NULL)
			out->stitch.role = STITCH_JIT;
		return;
	}
	out->frames[0].role = ROLE_LIB;
	if (info->dso == NULL || !find_in_file(p, m, info, pc, out)) {
		out->nr = 1;
		return;
	}
	outermost = &out->frames[out->nr - 1];
	if (outermost->role != ROLE_VM)
		return;
	out->stitch.runtime = true;
	out->stitch.enters_gc =
	        p->ops->enters_gc != NULL && p->ops->enters_gc(p->rt, out->stitch.func_addr);
	if (p->ops->native_name != NULL)
		name = p->ops->native_name(p->rt, pc);
	/* A role's name stands in for a missing symbol, never for one that is there. */
	if (name != NULL && strstr(outermost->name, "+0x") != NULL)
		outermost->name = name;
}

/* ---- in the kernel --------------------------------------------------------------------------- */

static void find_in_kernel(struct kallsyms *kallsyms, uint64_t pc, struct found *out)
{
	const struct kallsym *sym = kallsyms != NULL ? kallsyms_find(kallsyms, pc) : NULL;
	struct frame *f = &out->frames[0];

	out->known = true;
	out->nr = 1;
	*f = (struct frame){.kind = FRAME_KERNEL, .library = "[kernel]", .addr = pc};
	if (sym == NULL) {
		snprintf(out->name, sizeof(out->name), "[kernel]+%#" PRIx64, pc);
		f->name = out->name;
		return;
	}
	f->name = sym->name;
	f->func_addr = sym->addr;
	if (sym->module != NULL)
		f->library = sym->module;
}

/* ---- looking up -------------------------------------------------------------------------------
 */

/* What was found, for as long as it is remembered. NULL: no memory. */
static struct address *address_new(const struct found *found)
{
	size_t frames_sz = found->nr * sizeof(struct address_frame);
	size_t name_sz = found->name[0] != '\0' ? strlen(found->name) + 1 : 0;
	struct address *at = malloc(sizeof(*at) + frames_sz + name_sz);
	char *name = (char *)at + sizeof(*at) + frames_sz;

	if (at == NULL)
		return NULL;
	at->stitch = found->stitch;
	at->known = found->known;
	at->nr_frames = (uint32_t)found->nr;
	for (size_t i = 0; i < found->nr; i++)
		at->frames[i] = (struct address_frame){.frame = found->frames[i]};
	if (name_sz != 0) {
		memcpy(name, found->name, name_sz);
		at->frames[0].frame.name = name;
	}
	return at;
}

static struct address *find_one(struct addresses *a, uint64_t pc, bool interrupted)
{
	uint64_t key = pc << 1 | interrupted;
	const uint64_t *known = hash64_find(&a->by_key, key);
	struct found found;
	struct address *at;

	if (known != NULL)
		return (struct address *)(uintptr_t)*known;
	found.stitch = (struct stitch_native){0};
	found.name[0] = '\0';
	/* The call stands before the address to which it returns. */
	if (!interrupted)
		pc--;
	if (a->process != NULL)
		find_in_process(a->process, pc, &found);
	else
		find_in_kernel(a->kallsyms, pc, &found);
	at = address_new(&found);
	if (at == NULL || hash64_put(&a->by_key, key, (uintptr_t)at) != 0) {
		free(at);
		return NULL;
	}
	return at;
}

/* Where the interpreter calls C functions, as far as its code tells. */
static int sites_find(struct addresses *a)
{
	const struct process *p = a->process;
	struct stitch_sites sites = {0};

	if (p->ops != NULL && p->ops->call_sites != NULL)
		sites.nr = p->ops->call_sites(p->rt, sites.addr, STITCH_MAX_SITES);
	sites.complete = sites.nr != 0;
	for (size_t i = 0; i < sites.nr; i++) {
		const struct address *at = find_one(a, sites.addr[i], false);

		if (at == NULL)
			return -ENOMEM;
		sites.func_addr[i] = at->stitch.func_addr;
	}
	a->sites = sites;
	a->rt = p->rt;
	return 0;
}

/* Of a process whose mappings or whose interpreter are others now nothing is known. */
static int catch_up(struct addresses *a)
{
	const struct process *p = a->process;

	if (p == NULL)
		return 0;
	if (a->generation != p->generation)
		forget(a);
	a->generation = p->generation;
	return a->rt != p->rt ? sites_find(a) : 0;
}

int addresses_find(struct addresses *a, const uint64_t *frames, size_t nr, struct address **out)
{
	int rc;

	if (a->by_key.nr >= MAX_ADDRESSES)
		forget(a);
	rc = catch_up(a);
	for (size_t i = 0; i < nr && rc == 0; i++) {
		if (a->process != NULL)
			out[i] = find_one(
			        a, NATIVE_PC(frames[i]), (frames[i] & NATIVE_INTERRUPTED) != 0);
		else
			out[i] = find_one(a, frames[i], i == 0);
		if (out[i] == NULL)
			rc = -ENOMEM;
	}
	return rc;
}
