/* Places in Ruby's own code that the stitcher asks about: calls of C functions, and functions that
 * enter the collector. */
#include "runtimes/ruby/ruby_runtime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_TEXT = 64 << 20,
	LOOK_BACK = 40, /* bytes between the load of the function and the call of its invoker */
	REG_RSP = 4,    /* as r/m: a SIB byte follows */
	STORE_AHEAD =
	        8, /* bytes between a change of the collector's flags and where they are stored */
};

/* `op disp8(%reg)` at p, op being one opcode byte; field: of the reg field and its REX bit, 0
 * to 15. Its length, or 0. *reg: 0 to 15. */
static size_t match_disp8(const uint8_t *p, size_t n, bool rex_w, uint8_t opcode, uint8_t field,
        uint8_t disp, unsigned int *reg)
{
	size_t at = 0;
	uint8_t rex = 0;

	if (n > 0 && (p[0] & 0xf0) == 0x40)
		rex = p[at++];
	if (rex_w != ((rex & 8) != 0) || (rex & 2) != 0 || (rex >> 2 & 1) != field >> 3)
		return 0;
	if (at + 2 >= n || p[at] != opcode || (p[at + 1] & 0xf8) != (0x40 | (field & 7) << 3))
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

/* ---- where the collector is entered ---------------------------------------------------------- */

/* Is op, an instruction of group 1 on a register with the immediate at text[i], followed by a store
 * of that register's byte to disp8(%reg)? */
static bool is_changed_in_register(
        const uint8_t *text, size_t n, size_t i, uint8_t op, uint8_t accumulator, uint8_t disp)
{
	unsigned int base;
	uint8_t reg = 0;

	if (i >= 2 && (text[i - 2] == 0x83 || text[i - 2] == 0x80) &&
	        (text[i - 1] & 0xf8) == (0xc0 | op << 3)) {
		reg = text[i - 1] & 7;
		if (i >= 3 && (text[i - 3] & 0xfb) == 0x41) /* REX.B: r8 to r15 */
			reg |= 8;
	} else if (i < 1 || text[i - 1] != accumulator) {
		return false;
	}
	for (size_t k = i + 1; k < n && k <= i + STORE_AHEAD; k++)
		if (match_disp8(text + k, n - k, false, 0x88, reg, disp, &base) != 0)
			return true;
	return false;
}

/* Is text[i] the immediate of an instruction that changes the flags at disp8(%reg) by `op`? */
static bool is_flag_change(
        const uint8_t *text, size_t n, size_t i, uint8_t op, uint8_t accumulator, uint8_t disp)
{
	unsigned int base;

	/* In memory: the immediate follows the operand. */
	for (size_t len = 3; len <= 5 && len <= i; len++)
		if (match_disp8(text + i - len, len, false, 0x80, op, disp, &base) == len)
			return true;
	return is_changed_in_register(text, n, i, op, accumulator, disp);
}

/*
 * gc.c, gc_enter and gc_exit: `during_gc = TRUE` and `= FALSE`, a bit of objspace->flags:
 *	orb  $0x20,disp(%objspace)	or	or $0x20,%eax; mov %al,disp(%objspace)
 *	andb $0xdf,disp(%objspace)	likewise
 * The compiler reads and writes such a bit with its byte. A wider access is one of a number,
 * like that of io_buffer.c, rb_io_buffer_locked: the same value at the same offset.
 */
bool ruby_during_gc_decode(
        const uint8_t *text, size_t n, uint8_t flags_off, bool set, size_t from, size_t *at)
{
	uint8_t imm = set ? RUBY_GC_DURING_GC : (uint8_t)~RUBY_GC_DURING_GC;
	const uint8_t *p = text + from, *end = text + n;

	for (; p < end && (p = memchr(p, imm, (size_t)(end - p))) != NULL; p++) {
		size_t i = (size_t)(p - text);

		if (is_flag_change(text, n, i, set ? 1 : 4, set ? 0x0c : 0x24, flags_off)) {
			*at = i;
			return true;
		}
	}
	return false;
}

static void add_gc_entry(struct runtime *rt, uint64_t func_addr)
{
	if (!ruby_enters_gc(rt, func_addr) && rt->nr_gc_entries < RUBY_MAX_GC_ENTRIES)
		rt->gc_entries[rt->nr_gc_entries++] = func_addr;
}

/*
 * The functions that enter the collector: those that both set and clear during_gc. gc_enter and
 * gc_exit are inlined into them (gc.c: gc_start, gc_rest, rb_objspace_call_finalizer, and
 * gc_continue, before 3.3 heap_prepare with gc_marks_continue and gc_sweep_continue). One that only
 * clears it is about to report a bug (rb_memerror), one that only sets such a bit sets another's.
 * Their cold parts only report bugs, in the builds that were looked at.
 */
void ruby_gc_entries_find(struct runtime *rt)
{
	uint64_t vaddr, size, start, end;
	uint8_t off = (uint8_t)rt->proc.objspace_flags;
	size_t set;

	rt->nr_gc_entries = 0;
	for (size_t i = 0; dso_text_segment(rt->dso, i, &vaddr, &size); i++) {
		uint8_t *text = size <= MAX_TEXT ? malloc(size) : NULL;

		/* A byte as displacement is signed. */
		if (text == NULL || rt->proc.objspace_flags > INT8_MAX ||
		        dso_read(rt->dso, vaddr, text, size) != 0) {
			free(text);
			continue;
		}
		for (size_t at = 0; ruby_during_gc_decode(text, size, off, false, at, &at); at++)
			if (dso_fde_at(rt->dso, vaddr + at, &start, &end) && start >= vaddr &&
			        end - vaddr <= size &&
			        ruby_during_gc_decode(
			                text + (start - vaddr), end - start, off, true, 0, &set))
				add_gc_entry(rt, start + rt->bias);
		free(text);
	}
}

bool ruby_enters_gc(const struct runtime *rt, uint64_t func_addr)
{
	for (size_t i = 0; i < rt->nr_gc_entries; i++)
		if (rt->gc_entries[i] == func_addr)
			return true;
	return false;
}
