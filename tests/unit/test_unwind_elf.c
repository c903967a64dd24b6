/*
 * The unwind table of real files against libdw's reading of the same bytes: at the start, in the
 * middle and at the end of every row of libdw's, at every byte without CFI, and around every row of
 * ours.
 */
#include "symbolizer/unwind_table.h"
#include "tests/unit/rubies.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { MAX_REPORTED = 10 };

struct file {
	const char *name;
	Elf *elf;
	Dwarf_CFI *cfi;
	struct unwind_table table;
	uint64_t text_lo, text_hi;
	size_t nr_compared, nr_unsupported, nr_differences;
};

/* rsp + 8 + (((rip & 15) >= N) << 3) */
static bool ops_are_plt(const Dwarf_Op *ops, size_t nr)
{
	static const Dwarf_Op want[] = {
	        {.atom = DW_OP_breg7, .number = 8},
	        {.atom = DW_OP_breg16},
	        {.atom = DW_OP_lit15},
	        {.atom = DW_OP_and},
	        {.atom = 0},
	        {.atom = DW_OP_ge},
	        {.atom = DW_OP_lit3},
	        {.atom = DW_OP_shl},
	        {.atom = DW_OP_plus},
	};

	if (nr != ARRAY_SIZE(want) || ops[4].atom < DW_OP_lit0 || ops[4].atom > DW_OP_lit15)
		return false;
	for (size_t i = 0; i < nr; i++)
		if (i != 4 && (ops[i].atom != want[i].atom || ops[i].number != want[i].number))
			return false;
	return true;
}

/* What libdw says, in our terms. False: outside of what a rule can say. */
static bool cfa_of(Dwarf_Frame *frame, struct unwind_rule *rule)
{
	Dwarf_Op *ops;
	size_t nr;

	if (dwarf_frame_cfa(frame, &ops, &nr) != 0)
		return false;
	if (nr == 1 && ops[0].atom == DW_OP_bregx && (ops[0].number == 6 || ops[0].number == 7)) {
		rule->cfa_kind = ops[0].number == 6 ? CFA_FP : CFA_SP;
		rule->cfa_off = (int32_t)ops[0].number2;
	} else if (nr == 2 && ops[1].atom == DW_OP_deref &&
	           (ops[0].atom == DW_OP_breg6 || ops[0].atom == DW_OP_breg7)) {
		rule->cfa_kind = ops[0].atom == DW_OP_breg6 ? CFA_FP_DEREF : CFA_SP_DEREF;
		rule->cfa_off = (int32_t)ops[0].number;
	} else if (ops_are_plt(ops, nr)) {
		rule->cfa_kind = CFA_PLT;
		rule->cfa_off = ops[4].atom - DW_OP_lit0;
	} else {
		return false;
	}
	return true;
}

enum where { WHERE_UNDEFINED, WHERE_SAME, WHERE_AT_CFA, WHERE_AT_FP, WHERE_OTHER };

static enum where where_is(Dwarf_Frame *frame, int reg, int32_t *off)
{
	Dwarf_Op mem[3], *ops;
	size_t nr;

	if (dwarf_frame_register(frame, reg, mem, &ops, &nr) != 0)
		return WHERE_OTHER;
	*off = 0;
	if (nr == 0)
		return ops == NULL ? WHERE_SAME : WHERE_UNDEFINED;
	if (ops[0].atom != DW_OP_call_frame_cfa)
		return WHERE_OTHER;
	if (nr == 1)
		return WHERE_AT_CFA;
	if (nr != 2 || (ops[1].atom != DW_OP_plus_uconst && ops[1].atom != DW_OP_breg6))
		return WHERE_OTHER;
	*off = (int32_t)ops[1].number;
	return ops[1].atom == DW_OP_plus_uconst ? WHERE_AT_CFA : WHERE_AT_FP;
}

static bool rule_of(Dwarf_Frame *frame, struct unwind_rule *rule)
{
	Dwarf_Op *ops;
	size_t nr;
	bool is_signal;
	enum where ra, fp;

	*rule = (struct unwind_rule){0};
	dwarf_frame_info(frame, NULL, NULL, &is_signal);
	if (is_signal) {
		/* Where the kernel put rsp, rip and rbp: uc_mcontext at rsp + 40. */
		if (dwarf_frame_cfa(frame, &ops, &nr) != 0 || nr != 2 ||
		        ops[0].atom != DW_OP_breg7 || ops[0].number != 160 ||
		        ops[1].atom != DW_OP_deref)
			return false;
		rule->cfa_kind = CFA_SIGFRAME;
		rule->flags = UNWIND_F_SIGNAL;
		return true;
	}
	ra = where_is(frame, 16, &rule->ra_off);
	if (ra == WHERE_UNDEFINED) {
		rule->ra_kind = RA_END;
		return true;
	}
	if (ra != WHERE_AT_CFA || !cfa_of(frame, rule))
		return false;
	fp = where_is(frame, 6, &rule->fp_off);
	rule->fp_kind = fp == WHERE_SAME     ? FP_SAME
	                : fp == WHERE_AT_CFA ? FP_AT_CFA
	                : fp == WHERE_AT_FP  ? FP_AT_FP
	                                     : FP_UNDEFINED;
	return fp != WHERE_OTHER;
}

static void compare_at(struct file *f, uint64_t vaddr, Dwarf_Frame *frame)
{
	struct unwind_rule want = {0};
	const struct unwind_rule *got = unwind_table_find(&f->table, vaddr);

	f->nr_compared++;
	if (frame != NULL && !rule_of(frame, &want)) {
		f->nr_unsupported++;
		want = (struct unwind_rule){0};
	}
	if (memcmp(got, &want, sizeof(want)) == 0)
		return;
	if (f->nr_differences++ >= MAX_REPORTED)
		return;
	TAP_FAIL("%s %#" PRIx64 ": cfa %u%+d fp %u%+d ra %u%+d flags %u, libdw: cfa %u%+d fp %u%+d "
	         "ra %u%+d flags %u",
	        f->name, vaddr, got->cfa_kind, got->cfa_off, got->fp_kind, got->fp_off,
	        got->ra_kind, got->ra_off, got->flags, want.cfa_kind, want.cfa_off, want.fp_kind,
	        want.fp_off, want.ra_kind, want.ra_off, want.flags);
}

static void compare_our_row(struct file *f, uint64_t vaddr)
{
	Dwarf_Frame *frame = NULL;

	if (vaddr < f->text_lo || vaddr >= f->text_hi)
		return;
	if (dwarf_cfi_addrframe(f->cfi, vaddr, &frame) != 0)
		frame = NULL;
	compare_at(f, vaddr, frame);
	free(frame);
}

static void compare_file(struct file *f)
{
	uint64_t vaddr = f->text_lo;

	while (vaddr < f->text_hi) {
		Dwarf_Frame *frame;
		Dwarf_Addr start, end;

		if (dwarf_cfi_addrframe(f->cfi, vaddr, &frame) != 0) {
			compare_at(f, vaddr++, NULL);
			continue;
		}
		dwarf_frame_info(frame, &start, &end, NULL);
		if (end <= vaddr) {
			TAP_FAIL(
			        "%s: libdw's row at %#" PRIx64 " does not hold it", f->name, vaddr);
			free(frame);
			return;
		}
		if (end > f->text_hi)
			end = f->text_hi;
		compare_at(f, vaddr, frame);
		compare_at(f, vaddr + (end - vaddr) / 2, frame);
		compare_at(f, end - 1, frame);
		free(frame);
		vaddr = end;
	}
	for (size_t p = 0; p < f->table.nr_pages; p++) {
		const struct unwind_table_page *page = &f->table.pages[p];

		for (uint32_t i = 0; i < page->nr; i++) {
			uint64_t at = ((uint64_t)p << UNWIND_PAGE_SHIFT) +
			              UNWIND_ROW_LOW(f->table.rows[page->first + i]);

			compare_our_row(f, at);
			if (at != 0)
				compare_our_row(f, at - 1);
		}
	}
}

/* The invariants of bpf/abi.h that the kernel side relies on without checking them. */
static void check_form(const struct file *f)
{
	const struct unwind_table *t = &f->table;
	size_t nr = 0;

	for (size_t p = 0; p < t->nr_pages; p++) {
		const struct unwind_table_page *page = &t->pages[p];

		CHECK(page->nr <= UNWIND_CHUNK_ROWS);
		nr += page->nr;
		if (page->nr == 0)
			continue;
		CHECK(page->first + (size_t)page->nr <= t->nr_rows);
		CHECK_EQ(UNWIND_ROW_LOW(t->rows[page->first]), 0);
		for (uint32_t i = 0; i < page->nr; i++) {
			const uint32_t *row = &t->rows[page->first + i];

			CHECK(UNWIND_ROW_RULE(*row) < t->nr_rules);
			if (i == 0)
				continue;
			CHECK(UNWIND_ROW_LOW(row[-1]) < UNWIND_ROW_LOW(*row));
			CHECK(UNWIND_ROW_RULE(row[-1]) != UNWIND_ROW_RULE(*row));
		}
	}
	CHECK_EQ(nr, t->nr_rows);
	CHECK_EQ(t->rules[0].cfa_kind, CFA_INVALID);
	for (size_t i = 1; i < t->nr_fdes; i++)
		CHECK(t->fdes[i - 1].end <= t->fdes[i].start);
}

static bool find_eh_frame(Elf *elf, GElf_Shdr *shdr, Elf_Data **data)
{
	Elf_Scn *scn = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return false;
	while ((scn = elf_nextscn(elf, scn)) != NULL) {
		const char *name;

		if (gelf_getshdr(scn, shdr) == NULL)
			return false;
		name = elf_strptr(elf, names, shdr->sh_name);
		if (name == NULL || strcmp(name, ".eh_frame") != 0)
			continue;
		*data = elf_rawdata(scn, NULL);
		return *data != NULL;
	}
	return false;
}

static void find_text(struct file *f)
{
	size_t nr = 0;

	f->text_lo = UINT64_MAX;
	f->text_hi = 0;
	elf_getphdrnum(f->elf, &nr);
	for (size_t i = 0; i < nr; i++) {
		GElf_Phdr ph;

		if (gelf_getphdr(f->elf, (int)i, &ph) == NULL || ph.p_type != PT_LOAD ||
		        (ph.p_flags & PF_X) == 0)
			continue;
		if (ph.p_vaddr < f->text_lo)
			f->text_lo = ph.p_vaddr;
		if (ph.p_vaddr + ph.p_memsz > f->text_hi)
			f->text_hi = ph.p_vaddr + ph.p_memsz;
	}
}

static void check_elf(struct file *f)
{
	GElf_Shdr shdr;
	Elf_Data *data;
	struct err err = {0};

	REQUIRE(f->elf != NULL);
	REQUIRE(find_eh_frame(f->elf, &shdr, &data));
	find_text(f);
	f->cfi = dwarf_getcfi_elf(f->elf);
	REQUIRE(f->cfi != NULL);
	if (unwind_table_build(&f->table, data->d_buf, data->d_size, shdr.sh_addr, f->text_lo,
	            f->text_hi, &err) != 0) {
		TAP_FAIL("%s: %s", f->name, err.msg);
		return;
	}
	compare_file(f);
	check_form(f);
	CHECK_EQ(f->nr_differences, 0);
	CHECK_EQ(f->table.nr_bad_fdes, 0);
	CHECK_EQ(f->table.nr_full_pages, 0);
	printf("# %s: %zu FDEs, %zu rows, %zu rules, %zu rows unsupported; compared %zu, "
	       "unsupported "
	       "%zu\n",
	        f->name, f->table.nr_fdes, f->table.nr_rows, f->table.nr_rules,
	        f->table.nr_unsupported, f->nr_compared, f->nr_unsupported);
	/* DRAP prologues and the loader's trampolines are what cannot be said. */
	CHECK(f->table.nr_unsupported * 50 <= f->table.nr_rows);
	unwind_table_release(&f->table);
}

static void check_path(const char *path)
{
	struct file f = {.name = path};
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	REQUIRE(fd >= 0);
	f.elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	check_elf(&f);
	if (f.cfi != NULL)
		dwarf_cfi_end(f.cfi);
	elf_end(f.elf);
	close(fd);
}

#define LIB "/usr/lib/x86_64-linux-gnu/"

/* A library of a package that the tests' own needs bring along. */
static void check_library(const char *path)
{
	if (access(path, R_OK) != 0)
		SKIP("no %s here: tools/setup check installs it", path);
	check_path(path);
}

static void check_ruby(const char *version, const char *file)
{
	struct test_ruby ruby;
	char path[256];

	if (!test_ruby_find(version, &ruby))
		return;
	snprintf(path, sizeof(path), "%s%s", ruby.root, file);
	check_path(path);
}

static void check_libruby(const char *version)
{
	struct test_ruby ruby;

	if (test_ruby_find(version, &ruby))
		check_path(ruby.libruby);
}

#define OF_RUBY(id, version)                                                                       \
	TEST(libruby_of_##id##_has_libdws_rules)                                                   \
	{                                                                                          \
		check_libruby(version);                                                            \
	}                                                                                          \
	TEST(libc_of_ruby_##id##_has_libdws_rules)                                                 \
	{                                                                                          \
		check_ruby(version, RUBY_LIB_DIR "/libc.so.6");                                    \
	}                                                                                          \
	TEST(ruby_##id##_has_libdws_rules)                                                         \
	{                                                                                          \
		check_ruby(version, "usr/bin/ruby" version);                                       \
	}
RUBIES(OF_RUBY)

TEST(libc_has_libdws_rules)
{
	check_path(LIB "libc.so.6");
}

TEST(the_loader_has_libdws_rules)
{
	check_path(LIB "ld-linux-x86-64.so.2");
}

TEST(libgmp_has_libdws_rules)
{
	check_library(LIB "libgmp.so.10");
}

TEST(libcrypto_has_libdws_rules)
{
	check_library(LIB "libcrypto.so.3");
}

TEST(libstdcxx_has_libdws_rules)
{
	check_library(LIB "libstdc++.so.6");
}

TEST(a_library_of_tiny_functions_has_libdws_rules)
{
	check_library(LIB "libepoxy.so.0");
}

TEST(this_program_has_libdws_rules)
{
	check_path("/proc/self/exe");
}

TEST(the_vdso_has_libdws_rules)
{
	char *image = (char *)getauxval(AT_SYSINFO_EHDR);
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)image;
	struct file f = {.name = "vdso"};

	if (image == NULL)
		SKIP("this kernel has no vDSO");
	f.elf = elf_memory(image, eh->e_shoff + (size_t)eh->e_shnum * eh->e_shentsize);
	check_elf(&f);
	if (f.cfi != NULL)
		dwarf_cfi_end(f.cfi);
	elf_end(f.elf);
}

int main(int argc, char **argv)
{
	elf_version(EV_CURRENT);
	return tap_run(argc, argv);
}
