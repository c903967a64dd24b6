/* Places in Ruby's own code that the stitcher asks about: calls of C functions, and functions that
 * call the collector. */
#include "runtimes/ruby/ruby_runtime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_TEXT = 64 << 20,
	LOOK_BACK = 40, /* bytes between the load of the function and the call of its invoker */
	REG_RSP = 4,    /* as r/m: a SIB byte follows */
};

/* `op disp8(%reg)` at p, op being one opcode byte with a 3-bit reg field: its length, or 0. *reg: 0
 * to 15. */
static size_t match_disp8(const uint8_t *p, size_t n, bool rex_w, uint8_t opcode, uint8_t field,
        uint8_t disp, unsigned int *reg)
{
	size_t at = 0;
	uint8_t rex = 0;

	if (n > 0 && (p[0] & 0xf0) == 0x40)
		rex = p[at++];
	if (rex_w != ((rex & 8) != 0) || (rex & 6) != 0)
		return 0;
	if (at + 2 >= n || p[at] != opcode || (p[at + 1] & 0xf8) != (0x40 | field << 3))
		return 0;
	*reg = (p[at + 1] & 7u) | (rex & 1u) << 3;
	at += 2;
	if ((*reg & 7) == REG_RSP && p[at++] != 0x24)
		return 0;
	if (at >= n || p[at] != disp)
		return 0;
	return at + 1;
}

/* Is the instruction at text[i] such a call? *offset: of what follows it. */
static bool is_call_site(const uint8_t *text, size_t n, size_t i, uint64_t *offset)
{
	unsigned int def, reg;
	size_t len = match_disp8(text + i, n - i, false, 0xff, 2, 0x10, &def);

	if (len == 0)
		return false;
	for (size_t back = 4; back <= LOOK_BACK && back <= i; back++) {
		if (match_disp8(text + i - back, back, true, 0x8b, 1, 0x08, &reg) == 0 ||
		        reg != def)
			continue;
		*offset = i + len;
		return true;
	}
	return false;
}

/*
 * vm_insnhelper.c, vm_call_cfunc_with_frame, and vm_eval.c, vm_call0_cfunc_with_frame:
 *	(*cfunc->invoker)(recv, argc, argv, cfunc->func)
 * with cfunc at def + 8, so `mov 0x8(%def),%rcx; ...; call *0x10(%def)`. The invoker jumps to the
 *function: the frame that returns to behind this call is the function's. The same from 2.7 to 4.0
 *(method.h, rb_method_cfunc_t).
 */
size_t ruby_call_sites_decode(const uint8_t *text, size_t n, uint64_t *offsets, size_t max)
{
	const uint8_t *p = text, *end = text + n;
	size_t nr = 0;

	for (; nr < max && (p = memchr(p, 0xff, (size_t)(end - p))) != NULL; p++) {
		size_t i = (size_t)(p - text);

		/* Millions of bytes are looked at: first for the least. */
		if (end - p < 3 || (p[1] & 0xf8) != 0x50)
			continue;
		if (i > 0 && p[-1] == 0x41)
			nr += is_call_site(text, n, i - 1, &offsets[nr]);
		if (nr < max)
			nr += is_call_site(text, n, i, &offsets[nr]);
	}
	return nr;
}

size_t ruby_call_sites(const struct runtime *rt, uint64_t *out, size_t max)
{
	uint64_t vaddr, size;
	size_t nr = 0;

	for (size_t i = 0; nr < max && dso_text_segment(rt->dso, i, &vaddr, &size); i++) {
		uint8_t *text = size <= MAX_TEXT ? malloc(size) : NULL;

		if (text != NULL && dso_read(rt->dso, vaddr, text, size) == 0) {
			size_t found = ruby_call_sites_decode(text, size, out + nr, max - nr);

			for (size_t j = 0; j < found; j++)
				out[nr++] += vaddr + rt->bias;
		}
		free(text);
	}
	return nr;
}

/*
 * The exported functions from which the collector is entered: those that allocate an object or
 * memory, and those that ask for a collection (gc.c). What they call below themselves while the
 * collector runs is the collector.
 */
static const char *const gc_callers[] = {
        "rb_newobj",
        "rb_newobj_of",
        "rb_wb_protected_newobj_of",
        "rb_wb_unprotected_newobj_of",
        "rb_ec_wb_protected_newobj_of",
        "rb_data_object_wrap",
        "rb_data_object_zalloc",
        "rb_data_typed_object_wrap",
        "rb_data_typed_object_zalloc",
        "rb_class_allocate_instance",
        "rb_imemo_new",
        "ruby_xmalloc",
        "ruby_xmalloc2",
        "ruby_xcalloc",
        "ruby_xrealloc",
        "ruby_xrealloc2",
        "rb_gc_adjust_memory_usage",
        "rb_gc_start",
        "rb_gc",
};

void ruby_gc_callers_find(struct runtime *rt)
{
	rt->nr_gc_callers = 0;
	for (size_t i = 0; i < ARRAY_SIZE(gc_callers) && rt->nr_gc_callers < RUBY_MAX_GC_CALLERS;
	        i++) {
		const struct dso_symbol *sym = dso_find_symbol(rt->dso, gc_callers[i]);

		if (sym != NULL)
			rt->gc_callers[rt->nr_gc_callers++] = sym->vaddr + rt->bias;
	}
}

bool ruby_calls_gc(const struct runtime *rt, uint64_t func_addr)
{
	for (size_t i = 0; i < rt->nr_gc_callers; i++)
		if (rt->gc_callers[i] == func_addr)
			return true;
	return false;
}
