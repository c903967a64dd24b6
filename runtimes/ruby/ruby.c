/* struct runtime_ops of Ruby. */
#include "runtimes/ruby/ruby_runtime.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void ruby_free(struct runtime *rt)
{
	if (rt == NULL)
		return;
	ruby_cache_free(rt->cache);
	free(rt);
}

static void ruby_walker_config(const struct runtime *rt, void *out)
{
	memcpy(out, &rt->proc, sizeof(rt->proc));
}

static bool in_ranges(const struct ruby_range *r, size_t nr, uint64_t pc)
{
	for (size_t i = 0; i < nr; i++)
		if (pc >= r[i].lo && pc < r[i].hi)
			return true;
	return false;
}

static enum stitch_native_role ruby_native_role(const struct runtime *rt, uint64_t pc)
{
	const struct ruby_proc *p = &rt->proc;

	if ((pc >= p->vm_exec_lo && pc < p->vm_exec_hi) ||
	        in_ranges(rt->exec_cold, rt->nr_exec_cold, pc))
		return STITCH_ENTRY;
	if ((pc >= p->vm_core_lo && pc < p->vm_core_hi) ||
	        in_ranges(rt->core_cold, rt->nr_core_cold, pc))
		return STITCH_LOOP;
	return in_ranges(rt->jit, rt->nr_jit, pc) ? STITCH_JIT : STITCH_PLAIN;
}

/* The interpreter's loop has no symbol in any distribution's build, its entry none since 3.3. */
static const char *ruby_native_name(const struct runtime *rt, uint64_t pc)
{
	switch (ruby_native_role(rt, pc)) {
	case STITCH_ENTRY:
		return "rb_vm_exec";
	case STITCH_LOOP:
		return "vm_exec_core";
	default:
		return NULL;
	}
}

/* `require` loads a library as code of the program by calling its Init_NAME (dln.c, init_funcname).
 */
static bool ruby_is_extension(const struct runtime *rt, struct dso *dso)
{
	const char *name = dso_name(dso);
	char init[128];

	(void)rt;
	snprintf(init, sizeof(init), "Init_%.*s", (int)strcspn(name, "."), name);
	return dso_find_symbol(dso, init) != NULL;
}

static const char *ruby_gc_name(const struct runtime *rt, uint64_t gc_gen)
{
	(void)rt;
	switch (gc_gen & 3) {
	case RUBY_GC_MARKING:
		return "(GC marking)";
	case RUBY_GC_SWEEPING:
		return "(GC sweeping)";
	default:
		return "(garbage collection)";
	}
}

static const struct dso *ruby_dso(const struct runtime *rt)
{
	return rt->dso;
}

static void ruby_thread_name(struct runtime *rt, uint64_t context, char *out, size_t n)
{
	uint64_t th, ec, name;
	char text[RUBY_MAX_NAME];

	if (n == 0)
		return;
	out[0] = '\0';
	if (target_read_u64(&rt->target, context + rt->l->ec.thread_ptr, &th) != 0 ||
	        !ruby_is_heap(th) ||
	        target_read_u64(&rt->target, th + rt->l->thread.ec, &ec) != 0 ||
	        !ruby_is_heap(ec) ||
	        target_read_u64(&rt->target, th + rt->l->thread.name, &name) != 0 ||
	        ruby_string_read(&rt->objects, name, text) != 0)
		return;
	snprintf(out, n, "%s", text);
}

static const char *ruby_description(const struct runtime *rt)
{
	return rt->description;
}

/* One fact: a line, or a member of the JSON object. */
static void fact(struct buf *out, bool json, const char *key, const char *fmt, ...)
        PRINTF_LIKE(4, 5);
static void fact(struct buf *out, bool json, const char *key, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!json) {
		buf_printf(out, "  %s: %s\n", key, text);
		return;
	}
	if (out->len > 0 && out->data[out->len - 1] != '{')
		buf_puts(out, ",");
	buf_json_str(out, key);
	buf_puts(out, ":");
	buf_json_str(out, text);
}

static const char *tls_form(const struct runtime *rt)
{
	switch (rt->ec_code.form) {
	case RUBY_TLS_GD:
		return "general dynamic";
	case RUBY_TLS_IE:
		return "initial exec";
	case RUBY_TLS_LE:
		return "local exec";
	}
	return "?";
}

static void describe_collector(const struct runtime *rt, struct buf *out, bool json)
{
	char text[RUBY_MAX_GC_ENTRIES * 20] = "";
	size_t len = 0;

	for (size_t i = 0; i < rt->nr_gc_entries && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%#" PRIx64,
		        i != 0 ? ", " : "", rt->gc_entries[i] - rt->bias);
	if (len == 0)
		fact(out, json, "collector", "its entry is not found: its frames are marked");
	else
		fact(out, json, "collector", "%s (code that sets during_gc)", text);
}

static void ruby_describe(const struct runtime *rt, struct buf *out, bool json)
{
	const struct ruby_proc *p = &rt->proc;
	char symbols[256];

	dso_describe_symbols(rt->dso, symbols, sizeof(symbols));
	fact(out, json, "version", "%s", rt->version);
	fact(out, json, "description", "%s", rt->description);
	fact(out, json, "file", "%s", dso_path(rt->dso));
	fact(out, json, "build_id", "%s", dso_build_id(rt->dso));
	fact(out, json, "symbols", "%s", symbols);
	fact(out, json, "layout", "table for %u.%u.%u up to %u.%u.%u, checked on live frames",
	        rt->l->since >> 16, rt->l->since >> 8 & 255, rt->l->since & 255, rt->l->until >> 16,
	        rt->l->until >> 8 & 255, rt->l->until & 255);
	if (p->ec_source == RUBY_EC_TP_OFFSET)
		fact(out, json, "execution_context", "thread pointer %+" PRId64 " (%s TLS; %s)",
		        p->tp_off, tls_form(rt), rt->from.ec);
	else
		fact(out, json, "execution_context", "DTV of module %u + %" PRIu64 " (%s TLS; %s)",
		        p->tls_module, p->tls_off, tls_form(rt), rt->from.ec);
	fact(out, json, "vm", "%#" PRIx64 " (%s)", rt->vm, rt->from.vm);
	fact(out, json, "object_space", "vm + %u, flags at %u, count at %u (%s)", p->vm_objspace,
	        p->objspace_flags, p->objspace_gc_count, rt->from.objspace);
	fact(out, json, "vm_exec", "%#" PRIx64 "-%#" PRIx64 " (%s)", p->vm_exec_lo - rt->bias,
	        p->vm_exec_hi - rt->bias, rt->from.vm_exec);
	fact(out, json, "vm_exec_core", "%#" PRIx64 "-%#" PRIx64 " (%s)", p->vm_core_lo - rt->bias,
	        p->vm_core_hi - rt->bias, rt->from.vm_core);
	describe_collector(rt, out, json);
	fact(out, json, "symbol_table", "%#" PRIx64 " (%s)", rt->objects.ids_addr - rt->bias,
	        rt->from.ids);
	if (rt->nr_jit == 0)
		fact(out, json, "jit", "off");
	for (size_t i = 0; i < rt->nr_jit && (i == 0 || !json); i++)
		fact(out, json, "jit", "code at %#" PRIx64 "-%#" PRIx64, rt->jit[i].lo,
		        rt->jit[i].hi);
	fact(out, json, "threads", "%u", rt->nr_threads);
}

const struct runtime_ops ruby_runtime = {
        .name = "ruby",
        .id = RUNTIME_RUBY,
        .config_sz = sizeof(struct ruby_proc),
        .attach = ruby_attach,
        .free = ruby_free,
        .walker_config = ruby_walker_config,
        .capture_plan = ruby_plan,
        .captured = ruby_captured,
        .frame_class = ruby_frame_class,
        .resolve = ruby_resolve,
        .native_role = ruby_native_role,
        .native_name = ruby_native_name,
        .is_extension = ruby_is_extension,
        .call_sites = ruby_call_sites,
        .enters_gc = ruby_enters_gc,
        .gc_name = ruby_gc_name,
        .dso = ruby_dso,
        .thread_name = ruby_thread_name,
        .description = ruby_description,
        .describe = ruby_describe,
};
