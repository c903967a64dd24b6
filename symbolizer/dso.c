/* The queries of dso.h that belong to no single part: identity, offsets, bounds, the frames at an
 * address. */
#include "symbolizer/dso_internal.h"
#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *dso_path(const struct dso *dso)
{
	return dso->path;
}

const char *dso_name(const struct dso *dso)
{
	return dso->name;
}

const char *dso_build_id(const struct dso *dso)
{
	return dso->build_id;
}

bool dso_is_executable(const struct dso *dso)
{
	uint64_t v;

	if (dso->elf.eh.e_type == ET_EXEC)
		return true;
	if (elf_file_find_dyn(&dso->elf, DT_FLAGS_1, &v) && (v & DF_1_PIE) != 0)
		return true;
	/* libc.so.6 has an interpreter too, so that it can be run to tell its version. */
	return elf_file_find_phdr(&dso->elf, PT_INTERP) != NULL &&
	       !elf_file_find_dyn(&dso->elf, DT_SONAME, &v);
}

/* ---- segments -------------------------------------------------------------------- */

bool dso_offset_of_vaddr(const struct dso *dso, uint64_t vaddr, uint64_t *file_off)
{
	const Elf64_Phdr *ph = elf_file_find_load(&dso->elf, vaddr, 1);

	if (ph == NULL)
		return false;
	*file_off = ph->p_offset + (vaddr - ph->p_vaddr);
	return true;
}

bool dso_load_bias(const struct dso *dso, const struct mapping *mapping, uint64_t *bias)
{
	uint64_t page = (uint64_t)getpagesize(), off = mapping->file_off;
	const Elf64_Phdr *found = NULL;
	int best = -1;

	for (size_t i = 0; i < dso->elf.nr_phdrs; i++) {
		const Elf64_Phdr *ph = &dso->elf.phdrs[i];
		uint64_t first = ph->p_offset & ~(page - 1), last = ph->p_offset + ph->p_filesz;
		int score;

		if (ph->p_type != PT_LOAD || ph->p_filesz == 0 || off < first ||
		        off >= ((last + page - 1) & ~(page - 1)))
			continue;
		/* Two segments may share a page of the file: the protection tells them apart, and
		 * where the segment begins. RELRO takes the right to write away later, so that
		 * counts for least. */
		score = 4 * (((ph->p_flags & PF_X) != 0) ==
		                    ((mapping->prot & MAPS_PROT_EXEC) != 0)) +
		        2 * (off == first) +
		        (((ph->p_flags & PF_W) != 0) == ((mapping->prot & MAPS_PROT_WRITE) != 0));
		if (score > best) {
			best = score;
			found = ph;
		}
	}
	if (found == NULL)
		return false;
	*bias = mapping->start - (found->p_vaddr + (off - found->p_offset));
	return true;
}

int dso_read(const struct dso *dso, uint64_t vaddr, void *out, size_t n)
{
	return elf_file_read_vaddr(&dso->elf, vaddr, out, n);
}

bool dso_text_segment(const struct dso *dso, size_t i, uint64_t *vaddr, uint64_t *size)
{
	for (size_t k = 0; k < dso->elf.nr_phdrs; k++) {
		const Elf64_Phdr *ph = &dso->elf.phdrs[k];

		if (ph->p_type != PT_LOAD || (ph->p_flags & PF_X) == 0 || i-- != 0)
			continue;
		*vaddr = ph->p_vaddr;
		*size = ph->p_memsz;
		return true;
	}
	return false;
}

/* ---- unwind table ---------------------------------------------------------------- */

/* .eh_frame_hdr names the address of .eh_frame, but not its size. */
static bool eh_frame_of_hdr(const struct dso *dso, uint64_t *vaddr)
{
	const Elf64_Phdr *ph = elf_file_find_phdr(&dso->elf, PT_GNU_EH_FRAME);
	unsigned char head[12];
	int32_t rel;
	uint32_t udata4;
	uint64_t udata8;

	if (ph == NULL || elf_file_read_vaddr(&dso->elf, ph->p_vaddr, head, sizeof(head)) != 0 ||
	        head[0] != 1)
		return false;
	switch (head[1]) {
	case DW_EH_PE_pcrel | DW_EH_PE_sdata4:
		memcpy(&rel, head + 4, sizeof(rel));
		*vaddr = ph->p_vaddr + 4 + (uint64_t)(int64_t)rel;
		return true;
	case DW_EH_PE_absptr | DW_EH_PE_udata4:
		memcpy(&udata4, head + 4, sizeof(udata4));
		*vaddr = udata4;
		return true;
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
		memcpy(&udata8, head + 4, sizeof(udata8));
		*vaddr = udata8;
		return true;
	default:
		return false;
	}
}

static int load_eh_frame(const struct dso *dso, void **data, size_t *size, uint64_t *vaddr)
{
	const Elf64_Shdr *sh = elf_file_find_section(&dso->elf, ".eh_frame");
	uint64_t hdr_vaddr;
	bool has_hdr = eh_frame_of_hdr(dso, &hdr_vaddr);
	int rc;

	/* The loaded segment is what the program itself unwinds by. The section is taken for its
	 * size. */
	if (sh != NULL && (!has_hdr || sh->sh_addr == hdr_vaddr)) {
		rc = elf_file_load_section(&dso->elf, sh, data);
		if (rc == 0) {
			*size = sh->sh_size;
			*vaddr = sh->sh_addr;
			return 0;
		}
		if (rc == -ENOMEM)
			return rc;
	}
	if (!has_hdr)
		return -ENOENT;
	const Elf64_Phdr *ph = elf_file_find_load(&dso->elf, hdr_vaddr, 4);

	if (ph == NULL)
		return -EFAULT;
	/* Up to the end of the segment: the terminating zero of .eh_frame comes before. */
	uint64_t off = hdr_vaddr - ph->p_vaddr, n = ph->p_filesz - off;

	rc = elf_file_load(&dso->elf, ph->p_offset + off, n, data);
	if (rc == 0) {
		*size = n;
		*vaddr = hdr_vaddr;
	}
	return rc;
}

static int build_unwind(struct dso *dso, struct err *err)
{
	uint64_t lo = UINT64_MAX, hi = 0, start, n, vaddr;
	void *data;
	size_t size;
	int rc;

	for (size_t i = 0; dso_text_segment(dso, i, &start, &n); i++) {
		lo = MIN(lo, start);
		hi = MAX(hi, start + n);
	}
	if (lo >= hi)
		return err_set(err, -ENOENT, "%s has no code", dso->path);
	rc = load_eh_frame(dso, &data, &size, &vaddr);
	if (rc == -ENOENT)
		return err_set(err, rc, "%s has no .eh_frame", dso->path);
	if (rc != 0)
		return err_set(err, rc, "the .eh_frame of %s cannot be read: %s", dso->path,
		        strerror(-rc));
	rc = unwind_table_build(&dso->unwind, data, size, vaddr, lo, hi, err);
	free(data);
	if (rc != 0)
		err_prefix(err, "%s", dso->path);
	return rc;
}

const struct unwind_table *dso_unwind_table(struct dso *dso, struct err *err)
{
	if (!dso->tried_unwind) {
		struct err why = {0};

		dso->tried_unwind = true;
		dso->has_unwind = build_unwind(dso, &why) == 0;
		if (!dso->has_unwind) {
			dso->unwind_err = malloc(sizeof(why));
			if (dso->unwind_err != NULL)
				*dso->unwind_err = why;
		}
	}
	if (dso->has_unwind)
		return &dso->unwind;
	if (dso->unwind_err != NULL)
		err_set(err, dso->unwind_err->code, "%s", dso->unwind_err->msg);
	else
		err_set(err, -ENOMEM, "out of memory");
	return NULL;
}

bool dso_fde_at(struct dso *dso, uint64_t vaddr, uint64_t *start, uint64_t *end)
{
	const struct unwind_table *table = dso_unwind_table(dso, NULL);
	size_t lo = 0, hi = table != NULL ? table->nr_fdes : 0;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct unwind_fde *fde = &table->fdes[mid];

		if (vaddr < fde->start) {
			hi = mid;
		} else if (vaddr >= fde->end) {
			lo = mid + 1;
		} else {
			*start = fde->start;
			*end = fde->end;
			return true;
		}
	}
	return false;
}

/* ---- resolving ------------------------------------------------------------------- */

static const char *name_by_address(struct dso *dso, uint64_t vaddr)
{
	char text[320];

	snprintf(text, sizeof(text), "%.255s+0x%llx", dso->name, (unsigned long long)vaddr);
	const char *name = string_pool_add(&dso->strings, text);

	return name != NULL ? name : "?";
}

size_t dso_resolve(struct dso *dso, uint64_t vaddr, struct frame *out, size_t max)
{
	const struct dso_symbol *symbol = dso_function_at(dso, vaddr);
	uint64_t start = 0, end, file_off = 0;
	const char *name = NULL;
	size_t nr;

	if (max == 0)
		return 0;
	if (symbol != NULL) {
		name = symbol->name;
		start = symbol->vaddr;
	} else {
		/* One FDE covers all of a PLT: ask for the entry first. */
		name = dso_plt_at(dso, vaddr, &start);
	}
	if (name == NULL && !dso_fde_at(dso, vaddr, &start, &end))
		start = 0;
	nr = dso_dwarf_resolve(dso, vaddr, out, max);
	if (nr == 0) {
		out[0] = (struct frame){0};
		nr = 1;
	}
	/* The last one is the function itself, for which the symbol is the better name: DWARF has
	 * "start_thread" also for "start_thread.cold". With more than max frames it isn't there. */
	struct frame *last = &out[nr - 1];

	if ((last->flags & FRAME_F_INLINED) == 0 && (name != NULL || last->name == NULL))
		last->name = name != NULL ? name : name_by_address(dso, start != 0 ? start : vaddr);
	(void)dso_offset_of_vaddr(dso, vaddr, &file_off);
	for (size_t i = 0; i < nr; i++) {
		out[i].library = dso->path;
		out[i].build_id = dso->build_id[0] != '\0' ? dso->build_id : NULL;
		out[i].file_off = file_off;
		out[i].func_addr = start;
	}
	return nr;
}
