/* What the parts of dso share. Nobody else includes it. */
#ifndef SYMBOLIZER_DSO_INTERNAL_H
#define SYMBOLIZER_DSO_INTERNAL_H

#include "base/hash.h"
#include "symbolizer/dso.h"
#include "symbolizer/elf_file.h"

/* Strings that live as long as the dso, each once. */
struct string_pool {
	struct hash64 by_hash; /* hash of the string to its index in v */
	char **v;              /* owned, and each string too */
	size_t nr, cap;
};

void string_pool_init(struct string_pool *pool);
void string_pool_release(struct string_pool *pool);
/* NULL when there is no memory. */
const char *string_pool_add(struct string_pool *pool, const char *s);

/* Up to the next boundary the function symbol is symbol `index`, or none. */
struct symbol_boundary {
	uint64_t vaddr;
	uint32_t index; /* in dso_symbols.v; UINT32_MAX: none */
};

struct dso_symbols {
	struct dso_symbol *v; /* owned */
	uint8_t *rank; /* owned; parallel to v: how little a reader wants this alias, 0 is best */
	size_t nr, cap, cap_rank;
	uint32_t *buckets; /* owned: by name, heads of chains through next; UINT32_MAX ends them */
	uint32_t *next;    /* owned */
	size_t nr_buckets;
	struct symbol_boundary *at; /* owned, ascending */
	size_t nr_at;
	char *strtabs[4]; /* owned: where the names lie */
	size_t nr_strtabs;
	size_t nr_dynsym, nr_symtab, nr_debug_file, nr_debugdata; /* what each source gave */
};

struct dso_plt_slot {
	uint64_t got; /* vaddr of the GOT slot */
	const char *name;
};

struct dso_plt {
	struct dso_plt_slot *v; /* owned, ascending by got */
	size_t nr, cap;
	char *strtab; /* owned */
	struct plt_section {
		uint64_t start, end, entry_sz;
	} sections[4];
	size_t nr_sections;
};

struct dso_dwarf;

struct dso {
	struct elf_file elf;
	char *path;
	const char *name; /* in path */
	char build_id[ELF_BUILD_ID_SZ * 2 + 1];
	int root_fd; /* borrowed from the cache: root directory of the process; -1: our own */
	bool tried_symbols, tried_unwind, tried_plt, tried_debug_file, tried_dwarf;
	struct dso_symbols symbols;
	struct unwind_table unwind;
	bool has_unwind;
	struct err *unwind_err; /* owned: why there is no unwind table */
	struct dso_plt plt;
	struct elf_file debug_file; /* separate debug file; fd -1: none */
	bool debug_is_installed;    /* below our own /usr/lib/debug: nobody's but root's */
	char *debug_path;
	struct dso_dwarf *dwarf;
	struct string_pool strings;
};

/* The separate debug file, searched for at the first call. NULL: none. */
const struct elf_file *dso_debug_file(struct dso *dso);

/* A path as a process with this root directory sees it (symbolic links too); -1: as we see it. A
 * regular file's descriptor or -errno. */
int root_open(int root_fd, const char *path);

void dso_symbols_release(struct dso_symbols *symbols);

/* The name of the PLT entry around vaddr as "name@plt", and the entry's start. NULL: not in a PLT.
 */
const char *dso_plt_at(struct dso *dso, uint64_t vaddr, uint64_t *start);
void dso_plt_release(struct dso_plt *plt);

/* Frames of the functions inlined at vaddr, innermost first, and last the function itself; path,
 * line and name only. 0 without debug information. */
size_t dso_dwarf_resolve(struct dso *dso, uint64_t vaddr, struct frame *out, size_t max);
void dso_dwarf_free(struct dso_dwarf *dwarf);

#endif
