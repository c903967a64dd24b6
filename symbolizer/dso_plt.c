/*
 * Names for PLT entries. An entry jumps through a slot of the GOT, and a relocation says which
 * symbol the slot is for: that holds for .plt, .plt.sec and .plt.got alike, in whatever order the
 * linker wrote them.
 */
#include "symbolizer/arch.h"
#include "symbolizer/dso_internal.h"
#include "base/array.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NR_RELA_MAX = 1 << 22 };

void dso_plt_release(struct dso_plt *plt)
{
	free(plt->v);
	free(plt->strtab);
	*plt = (struct dso_plt){0};
}

static int compare_slots(const void *a, const void *b)
{
	const struct dso_plt_slot *x = a, *y = b;

	return (x->got > y->got) - (x->got < y->got);
}

static int add_slots(struct dso_plt *plt, const struct elf_file *f, const Elf64_Shdr *sh,
        const Elf64_Sym *syms, size_t nr_syms, size_t strtab_sz)
{
	size_t nr = sh->sh_size / sizeof(Elf64_Rela);
	void *data;
	int rc;

	if (sh->sh_entsize != sizeof(Elf64_Rela) || nr > NR_RELA_MAX ||
	        elf_file_load_section(f, sh, &data) != 0)
		return 0;
	rc = ARRAY_RESERVE(plt->v, plt->cap, plt->nr + nr, SIZE_MAX);
	if (rc != 0) {
		free(data);
		return rc;
	}
	for (size_t i = 0; i < nr; i++) {
		const Elf64_Rela *rela = (const Elf64_Rela *)data + i;
		uint64_t type = ELF64_R_TYPE(rela->r_info), sym = ELF64_R_SYM(rela->r_info);

		if ((type != ARCH_R_JUMP_SLOT && type != ARCH_R_GLOB_DAT) || sym >= nr_syms ||
		        syms[sym].st_name == 0 || syms[sym].st_name >= strtab_sz)
			continue;
		plt->v[plt->nr++] = (struct dso_plt_slot){
		        .got = rela->r_offset,
		        .name = plt->strtab + syms[sym].st_name,
		};
	}
	free(data);
	return 0;
}

static int load_slots(struct dso *dso)
{
	const struct elf_file *f = &dso->elf;
	const Elf64_Shdr *dynsym = elf_file_find_section_type(f, SHT_DYNSYM), *strtab;
	struct dso_plt *plt = &dso->plt;
	void *syms, *strings;
	int rc = 0;

	if (dynsym == NULL || dynsym->sh_link >= f->nr_shdrs)
		return 0;
	strtab = &f->shdrs[dynsym->sh_link];
	if (elf_file_load_section(f, dynsym, &syms) != 0)
		return 0;
	if (elf_file_load_section(f, strtab, &strings) != 0) {
		free(syms);
		return 0;
	}
	plt->strtab = strings;
	for (size_t i = 1; i < f->nr_shdrs && rc == 0; i++) {
		const char *name = elf_file_section_name(f, &f->shdrs[i]);

		if (f->shdrs[i].sh_type == SHT_RELA &&
		        (strcmp(name, ".rela.plt") == 0 || strcmp(name, ".rela.dyn") == 0))
			rc = add_slots(plt, f, &f->shdrs[i], syms,
			        dynsym->sh_size / sizeof(Elf64_Sym), strtab->sh_size);
	}
	free(syms);
	if (rc == 0 && plt->nr > 0)
		qsort(plt->v, plt->nr, sizeof(*plt->v), compare_slots);
	return rc;
}

static void load_plt(struct dso *dso)
{
	const struct elf_file *f = &dso->elf;
	struct dso_plt *plt = &dso->plt;

	if (f->eh.e_machine != ARCH_ELF_MACHINE)
		return;
	for (size_t i = 1; i < f->nr_shdrs; i++) {
		const Elf64_Shdr *sh = &f->shdrs[i];
		const char *name = elf_file_section_name(f, sh);

		if (strncmp(name, ".plt", 4) != 0 || sh->sh_size == 0 ||
		        plt->nr_sections == ARRAY_SIZE(plt->sections) ||
		        sh->sh_addr + sh->sh_size < sh->sh_addr)
			continue;
		plt->sections[plt->nr_sections++] = (struct plt_section){
		        .start = sh->sh_addr,
		        .end = sh->sh_addr + sh->sh_size,
		        .entry_sz = arch_plt_entry_sz(sh->sh_entsize),
		};
	}
	if (plt->nr_sections > 0 && load_slots(dso) != 0)
		dso_plt_release(plt);
}

static bool got_of_entry(const struct dso *dso, uint64_t vaddr, size_t size, uint64_t *got)
{
	uint8_t code[ARCH_PLT_ENTRY_MAX];

	return dso_read(dso, vaddr, code, size) == 0 && arch_plt_slot(code, size, vaddr, got);
}

const char *dso_plt_at(struct dso *dso, uint64_t vaddr, uint64_t *start)
{
	const struct plt_section *section = NULL;
	char name[512];
	uint64_t got;

	if (!dso->tried_plt) {
		dso->tried_plt = true;
		load_plt(dso);
	}
	for (size_t i = 0; i < dso->plt.nr_sections && section == NULL; i++) {
		if (vaddr >= dso->plt.sections[i].start && vaddr < dso->plt.sections[i].end)
			section = &dso->plt.sections[i];
	}
	if (section == NULL)
		return NULL;
	uint64_t entry = vaddr - (vaddr - section->start) % section->entry_sz;

	if (dso->plt.nr == 0 || !got_of_entry(dso, entry, section->entry_sz, &got))
		return NULL;
	struct dso_plt_slot key = {.got = got};
	const struct dso_plt_slot *slot =
	        bsearch(&key, dso->plt.v, dso->plt.nr, sizeof(key), compare_slots);

	if (slot == NULL)
		return NULL;
	snprintf(name, sizeof(name), "%.500s@plt", slot->name);
	const char *pooled = string_pool_add(&dso->strings, name);

	if (pooled != NULL)
		*start = entry;
	return pooled;
}
