/* struct runtime_ops of the toy. */
#include "runtimes/runtime.h"
#include "runtimes/toy/toy_abi.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct runtime {
	struct dso *dso;
	struct toy_proc proc;
	uint64_t call_lo, call_hi; /* toy_call() */
	struct {
		uint64_t addr;
		struct toy_code code;
	} captured[TOY_MAX_DEPTH];
	size_t nr_captured;
};

static int toy_attach(const struct target *target, const struct maps *maps, struct dso_cache *dsos,
        struct runtime **out, struct err *err)
{
	for (size_t i = 0; i < maps->nr; i++) {
		const struct dso_symbol *stack, *call;
		struct runtime *rt;
		struct dso *dso;
		uint64_t bias;

		if (!(maps->v[i].prot & MAPS_PROT_EXEC) ||
		        dso_cache_get(dsos, target, &maps->v[i], &dso, err) != 0)
			continue;
		stack = dso_find_symbol(dso, "toy_stack");
		call = dso_find_symbol(dso, "toy_call");
		if (stack == NULL || call == NULL || !dso_load_bias(dso, &maps->v[i], &bias))
			continue;
		rt = calloc(1, sizeof(*rt));
		if (rt == NULL)
			return err_set(err, -ENOMEM, "out of memory");
		rt->dso = dso;
		rt->proc.stack_addr = stack->vaddr + bias;
		rt->call_lo = call->vaddr + bias;
		rt->call_hi = rt->call_lo + call->size;
		*out = rt;
		return 0;
	}
	return -ENOENT;
}

static void toy_free(struct runtime *rt)
{
	free(rt);
}

static void toy_walker_config(const struct runtime *rt, void *out)
{
	memcpy(out, &rt->proc, sizeof(rt->proc));
}

static bool toy_plan(const struct runtime *rt, struct capture_plan *out)
{
	memset(out, 0, sizeof(*out));
	out->op[0] = (struct capture_op){
	        .code = CAPTURE_READ, .n = sizeof(struct toy_code), .words = 0xf, .imm = ~0ULL};
	out->op[1] = (struct capture_op){.code = CAPTURE_FOREVER};
	out->op[2] = (struct capture_op){.code = CAPTURE_END};
	out->nr_ops = 3;
	return true;
}

static void toy_captured(struct runtime *rt, const struct rprof_capture *capture, size_t size)
{
	size_t at = sizeof(*capture) + sizeof(struct capture_piece);

	if (size < at + sizeof(struct toy_code) || rt->nr_captured == TOY_MAX_DEPTH)
		return;
	rt->captured[rt->nr_captured].addr = capture->object;
	memcpy(&rt->captured[rt->nr_captured++].code, (const char *)capture + at,
	        sizeof(struct toy_code));
}

static void toy_frame_class(
        const struct runtime *rt, const struct interp_frame *f, struct interp_desc *out)
{
	*out = (struct interp_desc){.class = STITCH_CODE, .ends_run = 1};
}

static void toy_resolve(struct runtime *rt, const struct interp_frame *f, bool leaf,
        const struct interp_moment *when, struct interp_info *out)
{
	*out = (struct interp_info){
	        .frame = {.kind = FRAME_INTERP, .name = "?"}, .flags = INTERP_UNREADABLE};
	for (size_t i = 0; i < rt->nr_captured; i++) {
		if (rt->captured[i].addr != f->code)
			continue;
		out->frame.name = rt->captured[i].code.name;
		out->frame.path = "/toy/program.toy";
		out->frame.line = (uint32_t)rt->captured[i].code.line;
		out->flags = INTERP_RESOLVED;
	}
}

static enum stitch_native_role toy_native_role(const struct runtime *rt, uint64_t pc)
{
	return pc >= rt->call_lo && pc < rt->call_hi ? STITCH_ENTRY : STITCH_PLAIN;
}

static const struct dso *toy_dso(const struct runtime *rt)
{
	return rt->dso;
}

static const char *toy_description(const struct runtime *rt)
{
	return "toy 1.0";
}

const struct runtime_ops toy_runtime = {
        .name = "toy",
        .id = RUNTIME_TOY,
        .config_sz = sizeof(struct toy_proc),
        .attach = toy_attach,
        .free = toy_free,
        .walker_config = toy_walker_config,
        .capture_plan = toy_plan,
        .captured = toy_captured,
        .frame_class = toy_frame_class,
        .resolve = toy_resolve,
        .native_role = toy_native_role,
        .dso = toy_dso,
        .description = toy_description,
};
