/*
 * One ELF file: its identity, text, symbols, function bounds, unwind table and source lines.
 *
 * A `struct dso` belongs to a `struct dso_cache` and is shared by all processes that map the same
 * file. "vaddr" is an address as the ELF file has it (p_vaddr), never one of a process. Everything
 * in a file is hostile: all offsets and counts are checked against the file's size. Symbols,
 * function bounds and debug information are read when first asked for, not when the file is opened.
 */
#ifndef SYMBOLIZER_DSO_H
#define SYMBOLIZER_DSO_H

#include "base/err.h"
#include "symbolizer/frame.h"
#include "symbolizer/maps.h"
#include "symbolizer/target.h"
#include "symbolizer/unwind_table.h"
#include <stdbool.h>

struct dso;
struct dso_cache;

int dso_cache_new(struct dso_cache **out);
void dso_cache_free(struct dso_cache *cache);

/*
 * The file behind a mapping of a process, opened through /proc/PID/map_files, else /proc/PID/root +
 * path; the vDSO is copied from memory. Shared by build ID, else by (dev, ino, size, mtime). *out
 * is borrowed from the cache and lives as long as it. -ENOENT (file gone), -ENOEXEC (no ELF),
 * -EPERM, -ENOMEM.
 */
int dso_cache_get(struct dso_cache *cache, const struct target *target,
        const struct mapping *mapping, struct dso **out, struct err *err);
/* For tests and tools: by path. */
int dso_cache_get_path(
        struct dso_cache *cache, const char *path, struct dso **out, struct err *err);

const char *dso_path(const struct dso *dso);     /* as the process names it */
const char *dso_name(const struct dso *dso);     /* last part of the path */
const char *dso_build_id(const struct dso *dso); /* lower-case hex, "" when there is none */
bool dso_is_executable(
        const struct dso *dso); /* a program; libc.so.6 is none, though it has PT_INTERP */

/* vaddr to file offset by the PT_LOAD segments. False when no segment holds it. */
bool dso_offset_of_vaddr(const struct dso *dso, uint64_t vaddr, uint64_t *file_off);
/* What to subtract from an address in the process to get a vaddr, for a mapping of this file. */
bool dso_load_bias(const struct dso *dso, const struct mapping *mapping, uint64_t *bias);

/* n bytes at vaddr as the file has them (not relocated). 0 or -EFAULT. */
int dso_read(const struct dso *dso, uint64_t vaddr, void *out, size_t n);
/* The executable PT_LOAD segments. False when i is past the last. */
bool dso_text_segment(const struct dso *dso, size_t i, uint64_t *vaddr, uint64_t *size);

struct dso_symbol {
	const char *name; /* borrowed from the dso */
	uint64_t vaddr, size;
	uint8_t type; /* STT_* */
	bool dynamic; /* from .dynsym: exported */
};

/* By name in .dynsym, .symtab, the separate debug file and .gnu_debugdata. NULL: none. A TLS
 * symbol's vaddr is its offset in the TLS block. */
const struct dso_symbol *dso_find_symbol(struct dso *dso, const char *name);
/* The function symbol that contains vaddr (by its size, else up to the end of the FDE that starts
 * there): never merely the nearest lower one. NULL: none. Of aliases the one a reader wants: global
 * over local, no leading underscores. */
const struct dso_symbol *dso_function_at(struct dso *dso, uint64_t vaddr);
/* Bounds of the function around vaddr by .eh_frame's FDEs. False: none covers it. */
bool dso_fde_at(struct dso *dso, uint64_t vaddr, uint64_t *start, uint64_t *end);

/* The unwind table, built at the first call. NULL: no .eh_frame or a broken one (why goes to err).
 * Threads may ask for those of different files at once. */
const struct unwind_table *dso_unwind_table(struct dso *dso, struct err *err);

/*
 * The frames at vaddr, innermost (inlined) first; at least one. name: symbol, else "file+0xSTART"
 * with the FDE's start, else "file+0xVADDR". path and line when there is debug information. kind
 * and role are left for the caller; library, build_id, file_off and func_addr (a vaddr here) are
 * set. Strings live as long as the dso. Returns how many of out[max] were filled.
 */
size_t dso_resolve(struct dso *dso, uint64_t vaddr, struct frame *out, size_t max);
/* 0 symbols; else where they come from, for `rprof info`: "symtab", "dynsym", "debug file PATH",
 * "gnu_debugdata". */
size_t dso_describe_symbols(struct dso *dso, char *out, size_t n);

#endif
