/*
 * The bytes of one ELF file (64 bit, little endian), read with bounds checks.
 *
 * Files are read with pread, never mapped: a file that somebody truncates meanwhile costs an error,
 * not a SIGBUS. What was loaded is our own copy and doesn't change any more. A section header table
 * that makes no sense counts as absent, as in a file whose section headers were stripped; the
 * program headers must be sound.
 */
#ifndef SYMBOLIZER_ELF_FILE_H
#define SYMBOLIZER_ELF_FILE_H

#include "base/err.h"
#include <elf.h>
#include <stdbool.h>

enum { ELF_BUILD_ID_SZ = 64 }; /* bytes; the usual one has 20 */

struct elf_file {
	int fd;             /* owned; -1 for a file in memory */
	unsigned char *mem; /* owned; NULL for a file on disk */
	uint64_t size;
	Elf64_Ehdr eh;
	Elf64_Phdr *phdrs; /* owned; each PT_LOAD lies in the file and doesn't wrap around */
	size_t nr_phdrs;
	Elf64_Shdr *shdrs; /* owned; NULL: none. Not checked against the size of the file. */
	size_t nr_shdrs;
	char *shstr; /* owned; NUL-terminated */
	size_t shstr_sz;
};

/* Take over fd or mem (malloc'ed), also when they fail. -ENOEXEC: no ELF file that we read. */
int elf_file_open_fd(struct elf_file *out, int fd, struct err *err);
int elf_file_open_mem(struct elf_file *out, void *mem, size_t size, struct err *err);
/* Leaves fd -1; a struct {.fd = -1} may be closed, and closed again. */
void elf_file_close(struct elf_file *f);

/* n bytes at a file offset. 0 or -EFAULT. */
int elf_file_read(const struct elf_file *f, uint64_t off, void *out, size_t n);
/* The same in new memory with a NUL behind it. 0, -EFAULT, -ENOMEM or -E2BIG. */
int elf_file_load(const struct elf_file *f, uint64_t off, uint64_t n, void **out);

/* The first section of that name, or of that type; NULL: none. */
const Elf64_Shdr *elf_file_find_section(const struct elf_file *f, const char *name);
const Elf64_Shdr *elf_file_find_section_type(const struct elf_file *f, uint32_t type);
const char *elf_file_section_name(const struct elf_file *f, const Elf64_Shdr *sh);
/* A section's bytes as elf_file_load does it. -ENOENT: it has none in this file, or they are
 * compressed. */
int elf_file_load_section(const struct elf_file *f, const Elf64_Shdr *sh, void **out);

const Elf64_Phdr *elf_file_find_phdr(const struct elf_file *f, uint32_t type);
/* The PT_LOAD whose bytes in the file hold [vaddr, vaddr + n). NULL: none. */
const Elf64_Phdr *elf_file_find_load(const struct elf_file *f, uint64_t vaddr, uint64_t n);
/* n bytes at a vaddr. 0 or -EFAULT. */
int elf_file_read_vaddr(const struct elf_file *f, uint64_t vaddr, void *out, size_t n);
/* The value of the first DT_ entry with this tag. */
bool elf_file_find_dyn(const struct elf_file *f, int64_t tag, uint64_t *out);
/* Number of bytes of the GNU build ID, 0 when there is none. */
size_t elf_file_build_id(const struct elf_file *f, unsigned char out[ELF_BUILD_ID_SZ]);

#endif
