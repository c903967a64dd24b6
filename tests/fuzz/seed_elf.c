/*
 * Seeds from ELF files: the input is what the target reads, behind the words that it begins with.
 *	seed_elf eh_frame FILE BYTES OUT	the first BYTES of .eh_frame
 *	seed_elf code FILE SYMBOL BYTES OUT	the code of a function and what follows it
 *	seed_elf vdso OUT			this process's vDSO
 */
#include "symbolizer/dso.h"
#include "symbolizer/elf_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

static void put(const char *path, const void *head, size_t head_sz, const void *data, size_t n)
{
	FILE *out = fopen(path, "w");

	if (out == NULL || fwrite(head, 1, head_sz, out) != head_sz ||
	        fwrite(data, 1, n, out) != n || fclose(out) != 0) {
		perror(path);
		exit(1);
	}
}

static void put_eh_frame(const char *file, size_t max, const char *path)
{
	uint64_t head[3] = {0, UINT64_MAX, 0};
	struct elf_file f;
	const Elf64_Shdr *sh;
	void *data;

	if (elf_file_open_fd(&f, open(file, O_RDONLY), NULL) != 0 ||
	        (sh = elf_file_find_section(&f, ".eh_frame")) == NULL ||
	        elf_file_load_section(&f, sh, &data) != 0)
		return;
	head[0] = sh->sh_addr;
	for (size_t i = 0; i < f.nr_phdrs; i++) {
		const Elf64_Phdr *ph = &f.phdrs[i];

		if (ph->p_type != PT_LOAD || (ph->p_flags & PF_X) == 0)
			continue;
		head[1] = MIN(head[1], ph->p_vaddr);
		head[2] = MAX(head[2], ph->p_vaddr + ph->p_memsz);
	}
	put(path, head, sizeof(head), data, MIN(max, sh->sh_size));
	free(data);
	elf_file_close(&f);
}

static void put_code(const char *file, const char *name, size_t max, const char *path)
{
	unsigned char head[9] = {16}, code[4096];
	struct dso_cache *cache;
	const struct dso_symbol *sym;
	struct dso *dso;

	if (dso_cache_new(&cache) != 0)
		return;
	max = MIN(max, sizeof(code));
	if (dso_cache_get_path(cache, file, &dso, NULL) == 0 &&
	        (sym = dso_find_symbol(dso, name)) != NULL &&
	        dso_read(dso, sym->vaddr, code, max) == 0) {
		memcpy(head + 1, &sym->vaddr, 8);
		put(path, head, sizeof(head), code, max);
	}
	dso_cache_free(cache);
}

int main(int argc, char **argv)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);

	if (argc == 5 && strcmp(argv[1], "eh_frame") == 0)
		put_eh_frame(argv[2], strtoul(argv[3], NULL, 0), argv[4]);
	else if (argc == 6 && strcmp(argv[1], "code") == 0)
		put_code(argv[2], argv[3], strtoul(argv[4], NULL, 0), argv[5]);
	else if (argc == 3 && strcmp(argv[1], "vdso") == 0 && vdso != NULL)
		put(argv[2], NULL, 0, vdso, 8192);
	else
		return 2;
	return 0;
}
