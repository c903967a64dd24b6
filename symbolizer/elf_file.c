#include "symbolizer/elf_file.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t load_max = 1ULL << 30;
enum { NR_SHDRS_MAX = 1 << 20, NR_DYN_MAX = 1 << 16, NOTE_SZ_MAX = 1 << 20 };

static bool in_file(const struct elf_file *f, uint64_t off, uint64_t n)
{
	return off <= f->size && n <= f->size - off;
}

int elf_file_read(const struct elf_file *f, uint64_t off, void *out, size_t n)
{
	char *to = out;

	if (!in_file(f, off, n))
		return -EFAULT;
	if (n == 0)
		return 0;
	if (f->mem != NULL) {
		memcpy(out, f->mem + off, n);
		return 0;
	}
	while (n > 0) {
		ssize_t got = pread(f->fd, to, n, (off_t)off);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -EFAULT;
		to += got;
		off += (uint64_t)got;
		n -= (size_t)got;
	}
	return 0;
}

int elf_file_load(const struct elf_file *f, uint64_t off, uint64_t n, void **out)
{
	char *data;
	int rc;

	if (!in_file(f, off, n))
		return -EFAULT;
	if (n > load_max)
		return -E2BIG;
	data = malloc(n + 1);
	if (data == NULL)
		return -ENOMEM;
	rc = elf_file_read(f, off, data, n);
	if (rc != 0) {
		free(data);
		return rc;
	}
	data[n] = '\0';
	*out = data;
	return 0;
}

static int check_ident(const struct elf_file *f, struct err *err)
{
	const Elf64_Ehdr *eh = &f->eh;

	if (memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0)
		return err_set(err, -ENOEXEC, "not an ELF file");
	if (eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_ident[EI_DATA] != ELFDATA2LSB)
		return err_set(err, -ENOEXEC, "not a 64-bit little-endian ELF file");
	if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
		return err_set(err, -ENOEXEC, "an ELF file, but no program and no library");
	return 0;
}

static bool load_is_sound(const Elf64_Phdr *ph)
{
	/* The kernel maps the segment by whole pages, so offset and vaddr must agree in their low
	 * bits. In a file with nothing but debug information the segments' bytes lie nowhere. */
	return ph->p_filesz <= ph->p_memsz && ph->p_vaddr + ph->p_memsz >= ph->p_vaddr &&
	       ((ph->p_offset ^ ph->p_vaddr) & 0xfff) == 0;
}

static int load_phdrs(struct elf_file *f, struct err *err)
{
	const Elf64_Ehdr *eh = &f->eh;
	void *phdrs;
	int rc;

	if (eh->e_phnum == 0)
		return 0; /* a separate debug file may do without */
	if (eh->e_phentsize != sizeof(Elf64_Phdr) || eh->e_phnum == PN_XNUM)
		return err_set(err, -ENOEXEC, "an ELF file with bad program headers");
	rc = elf_file_load(f, eh->e_phoff, (uint64_t)eh->e_phnum * sizeof(Elf64_Phdr), &phdrs);
	if (rc != 0)
		return err_set(err, rc == -EFAULT ? -ENOEXEC : rc,
		        "an ELF file without the program headers that it announces");
	f->phdrs = phdrs;
	for (size_t i = 0; i < eh->e_phnum; i++) {
		Elf64_Phdr *ph = &f->phdrs[i];

		if (ph->p_type == PT_LOAD && !load_is_sound(ph))
			return err_set(err, -ENOEXEC, "an ELF file with a bad PT_LOAD segment");
		if (ph->p_type == PT_LOAD && !in_file(f, ph->p_offset, ph->p_filesz))
			ph->p_filesz = 0;
	}
	f->nr_phdrs = eh->e_phnum;
	return 0;
}

static void load_shdrs(struct elf_file *f)
{
	const Elf64_Ehdr *eh = &f->eh;
	uint64_t nr = eh->e_shnum, strndx = eh->e_shstrndx;
	Elf64_Shdr first;
	void *data;

	if (eh->e_shoff == 0 || eh->e_shentsize != sizeof(Elf64_Shdr) ||
	        elf_file_read(f, eh->e_shoff, &first, sizeof(first)) != 0)
		return;
	if (nr == 0)
		nr = first.sh_size;
	if (strndx == SHN_XINDEX)
		strndx = first.sh_link;
	if (nr == 0 || nr > NR_SHDRS_MAX || strndx >= nr)
		return;
	if (elf_file_load(f, eh->e_shoff, nr * sizeof(Elf64_Shdr), &data) != 0)
		return;
	f->shdrs = data;
	f->nr_shdrs = nr;
	if (elf_file_load_section(f, &f->shdrs[strndx], &data) != 0) {
		free(f->shdrs);
		f->shdrs = NULL;
		f->nr_shdrs = 0;
		return;
	}
	f->shstr = data;
	f->shstr_sz = f->shdrs[strndx].sh_size;
}

static int open_common(struct elf_file *out, struct elf_file *f, struct err *err)
{
	int rc;

	if (elf_file_read(f, 0, &f->eh, sizeof(f->eh)) != 0)
		rc = err_set(err, -ENOEXEC, "not an ELF file");
	else
		rc = check_ident(f, err);
	if (rc == 0)
		rc = load_phdrs(f, err);
	if (rc != 0) {
		elf_file_close(f);
		return rc;
	}
	load_shdrs(f);
	*out = *f;
	return 0;
}

int elf_file_open_fd(struct elf_file *out, int fd, struct err *err)
{
	struct elf_file f = {.fd = fd};
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return err_set(err, -ENOEXEC, "not a regular file");
	}
	f.size = (uint64_t)st.st_size;
	return open_common(out, &f, err);
}

int elf_file_open_mem(struct elf_file *out, void *mem, size_t size, struct err *err)
{
	struct elf_file f = {.fd = -1, .mem = mem, .size = size};

	return open_common(out, &f, err);
}

void elf_file_close(struct elf_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	free(f->mem);
	free(f->phdrs);
	free(f->shdrs);
	free(f->shstr);
	*f = (struct elf_file){.fd = -1};
}

const char *elf_file_section_name(const struct elf_file *f, const Elf64_Shdr *sh)
{
	return sh->sh_name < f->shstr_sz ? f->shstr + sh->sh_name : "";
}

const Elf64_Shdr *elf_file_find_section(const struct elf_file *f, const char *name)
{
	for (size_t i = 1; i < f->nr_shdrs; i++) {
		if (strcmp(elf_file_section_name(f, &f->shdrs[i]), name) == 0)
			return &f->shdrs[i];
	}
	return NULL;
}

const Elf64_Shdr *elf_file_find_section_type(const struct elf_file *f, uint32_t type)
{
	for (size_t i = 1; i < f->nr_shdrs; i++) {
		if (f->shdrs[i].sh_type == type)
			return &f->shdrs[i];
	}
	return NULL;
}

int elf_file_load_section(const struct elf_file *f, const Elf64_Shdr *sh, void **out)
{
	if (sh->sh_type == SHT_NOBITS || sh->sh_type == SHT_NULL ||
	        (sh->sh_flags & SHF_COMPRESSED) != 0)
		return -ENOENT;
	return elf_file_load(f, sh->sh_offset, sh->sh_size, out);
}

const Elf64_Phdr *elf_file_find_phdr(const struct elf_file *f, uint32_t type)
{
	for (size_t i = 0; i < f->nr_phdrs; i++) {
		if (f->phdrs[i].p_type == type)
			return &f->phdrs[i];
	}
	return NULL;
}

const Elf64_Phdr *elf_file_find_load(const struct elf_file *f, uint64_t vaddr, uint64_t n)
{
	for (size_t i = 0; i < f->nr_phdrs; i++) {
		const Elf64_Phdr *ph = &f->phdrs[i];
		uint64_t off = vaddr - ph->p_vaddr;

		if (ph->p_type == PT_LOAD && vaddr >= ph->p_vaddr && off < ph->p_filesz &&
		        n <= ph->p_filesz - off)
			return ph;
	}
	return NULL;
}

int elf_file_read_vaddr(const struct elf_file *f, uint64_t vaddr, void *out, size_t n)
{
	const Elf64_Phdr *ph = elf_file_find_load(f, vaddr, n);

	if (ph == NULL)
		return -EFAULT;
	return elf_file_read(f, ph->p_offset + (vaddr - ph->p_vaddr), out, n);
}

bool elf_file_find_dyn(const struct elf_file *f, int64_t tag, uint64_t *out)
{
	const Elf64_Phdr *ph = elf_file_find_phdr(f, PT_DYNAMIC);
	Elf64_Dyn dyn;

	if (ph == NULL)
		return false;
	for (uint64_t i = 0; i < NR_DYN_MAX && (i + 1) * sizeof(dyn) <= ph->p_filesz; i++) {
		uint64_t off = ph->p_offset + i * sizeof(dyn);

		if (off < ph->p_offset || elf_file_read(f, off, &dyn, sizeof(dyn)) != 0 ||
		        dyn.d_tag == DT_NULL)
			return false;
		if (dyn.d_tag == tag) {
			*out = dyn.d_un.d_val;
			return true;
		}
	}
	return false;
}

static size_t find_build_id_note(
        const struct elf_file *f, uint64_t off, uint64_t size, uint64_t align, unsigned char *out)
{
	uint64_t pad = align == 8 ? 7 : 3;
	Elf64_Nhdr nh;
	char name[4];

	if (!in_file(f, off, size) || size > NOTE_SZ_MAX)
		return 0;
	for (uint64_t at = 0; size - at >= sizeof(nh);) {
		uint64_t name_at = at + sizeof(nh), desc_at, next;

		if (elf_file_read(f, off + at, &nh, sizeof(nh)) != 0)
			return 0;
		desc_at = (name_at + nh.n_namesz + pad) & ~pad;
		next = (desc_at + nh.n_descsz + pad) & ~pad;
		if (desc_at > size || nh.n_descsz > size - desc_at)
			return 0;
		if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == 4 && nh.n_descsz != 0 &&
		        nh.n_descsz <= ELF_BUILD_ID_SZ &&
		        elf_file_read(f, off + name_at, name, 4) == 0 &&
		        memcmp(name, "GNU", 4) == 0 &&
		        elf_file_read(f, off + desc_at, out, nh.n_descsz) == 0)
			return nh.n_descsz;
		if (next >= size)
			return 0;
		at = next;
	}
	return 0;
}

size_t elf_file_build_id(const struct elf_file *f, unsigned char out[ELF_BUILD_ID_SZ])
{
	size_t n = 0;

	for (size_t i = 0; i < f->nr_phdrs && n == 0; i++) {
		const Elf64_Phdr *ph = &f->phdrs[i];

		if (ph->p_type == PT_NOTE)
			n = find_build_id_note(f, ph->p_offset, ph->p_filesz, ph->p_align, out);
	}
	/* In a separate debug file the program headers' offsets are those of the stripped file. */
	for (size_t i = 1; i < f->nr_shdrs && n == 0; i++) {
		const Elf64_Shdr *sh = &f->shdrs[i];

		if (sh->sh_type == SHT_NOTE)
			n = find_build_id_note(
			        f, sh->sh_offset, sh->sh_size, sh->sh_addralign, out);
	}
	return n;
}
