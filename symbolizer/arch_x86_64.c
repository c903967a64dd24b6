/* The PLT of x86-64. */
#if defined(__x86_64__)
#include "symbolizer/arch.h"

#include <string.h>

enum { PLT_GOT_ENTRY_SZ = 8, DW_OP_lit0 = 0x30, DW_OP_lit15 = 0x3f };

/* .plt.got has 8 bytes an entry, or 16 where they begin with endbr64. */
uint64_t arch_plt_entry_sz(uint64_t sh_entsize)
{
	return sh_entsize == PLT_GOT_ENTRY_SZ ? PLT_GOT_ENTRY_SZ : ARCH_PLT_ENTRY_MAX;
}

/* Where the entry's `jmp *disp32(%rip)` finds its target. */
bool arch_plt_slot(const uint8_t *code, size_t size, uint64_t vaddr, uint64_t *got)
{
	int32_t disp;

	for (size_t i = 0; i + 6 <= size && i <= 5; i++) {
		/* The first word of .plt's own entry is `push`, ff 35: none of ours. */
		if (code[i] == 0xff && code[i + 1] == 0x25) {
			memcpy(&disp, code + i + 2, sizeof(disp));
			*got = vaddr + i + 6 + (uint64_t)(int64_t)disp;
			return true;
		}
	}
	return false;
}

/*
 * rsp + 8 + (((rip & 15) >= N) << 3). N is where the push of the entry has been: 11; 9 with IBT; 5
 * with MPX (binutils 2.40, bfd/elfxx-x86-64.c, elf_x86_64_eh_frame_lazy_plt, _ibt_plt, _bnd_plt);
 * 10 for x32's.
 */
bool arch_is_plt_cfa(const uint8_t *expr, uint64_t sz, int64_t *off)
{
	static const uint8_t head[] = {0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a};
	static const uint8_t tail[] = {0x2a, 0x33, 0x24, 0x22};
	uint8_t literal;

	if (sz != sizeof(head) + 1 + sizeof(tail) || memcmp(expr, head, sizeof(head)) != 0 ||
	        memcmp(expr + sizeof(head) + 1, tail, sizeof(tail)) != 0)
		return false;
	literal = expr[sizeof(head)];
	if (literal < DW_OP_lit0 || literal > DW_OP_lit15)
		return false;
	*off = literal - DW_OP_lit0;
	return true;
}

#endif
