/*
 * What is so on the architecture of the recorded programs and matters to reading their files;
 * bpf/arch.h has what matters to a walk. Another architecture has its own numbers here and a file
 * beside arch_x86_64.c.
 */
#ifndef SYMBOLIZER_ARCH_H
#define SYMBOLIZER_ARCH_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
enum {
	ARCH_ELF_MACHINE = EM_X86_64,

	/* DWARF's numbers of registers: System V psABI for x86-64, figure 3.36. */
	ARCH_DWARF_FP = 6, /* rbp */
	ARCH_DWARF_SP = 7, /* rsp */
	ARCH_DWARF_RA = 16,

	/* Relocations of a slot in the GOT by the symbol whose address it gets. */
	ARCH_R_JUMP_SLOT = R_X86_64_JUMP_SLOT,
	ARCH_R_GLOB_DAT = R_X86_64_GLOB_DAT,

	ARCH_PLT_ENTRY_MAX = 16, /* bytes */
};
#else
#error "symbolizer/arch.h has nothing for this architecture"
#endif

/* Bytes of an entry of a section .plt*, by what its header says; at most ARCH_PLT_ENTRY_MAX. */
uint64_t arch_plt_entry_sz(uint64_t sh_entsize);
/* code: the size bytes of an entry at vaddr. *got: the vaddr of the slot through which it jumps.
 * False: there is none. */
bool arch_plt_slot(const uint8_t *code, size_t size, uint64_t vaddr, uint64_t *got);
/* Is this DWARF expression the one that linkers write as the CFA of .plt? *off: of the rule
 * CFA_PLT. */
bool arch_is_plt_cfa(const uint8_t *expr, uint64_t sz, int64_t *off);

#endif
