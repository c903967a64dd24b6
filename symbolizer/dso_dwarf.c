/*
 * Source lines and inlined functions, by libdw.
 *
 * libdw finds the compilation unit of an address by .debug_aranges, which clang doesn't write, and
 * the functions of a unit by walking all of it each time. So both are kept here as sorted arrays:
 * the units' ranges for the file, the functions' for each unit that an address fell into.
 */
#include "symbolizer/dso_internal.h"
#include "base/array.h"
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

enum {
	NR_DIES_MAX = 1 << 24, /* looked at in one walk: a broken tree must not keep us */
	NR_RANGES_MAX = 1 << 22,
	NAMESPACE_DEPTH_MAX = 32,
	INLINE_DEPTH_MAX = 64,
};

struct die_range {
	uint64_t start, end;
	Dwarf_Off die;
};

struct die_ranges {
	struct die_range *v; /* owned, ascending by start */
	size_t nr, cap;
};

struct dso_dwarf {
	Elf *elf;
	Dwarf *dw;
	const char *info; /* .debug_info as libdw has it, borrowed from elf */
	size_t info_sz;
	struct die_ranges units;
	struct die_ranges *seen; /* owned: the functions of units that were read */
	size_t nr_seen, cap_seen;
	struct hash64 by_die; /* a unit's DIE to its index in seen */
};

/* ---- ranges ---------------------------------------------------------------------- */

static void ranges_add(struct die_ranges *r, uint64_t start, uint64_t end, Dwarf_Off die)
{
	if (start >= end || start == 0)
		return; /* at 0: code that the linker dropped */
	if (ARRAY_RESERVE(r->v, r->cap, r->nr + 1, NR_RANGES_MAX) != 0)
		return; /* lines will be missing */
	r->v[r->nr++] = (struct die_range){start, end, die};
}

static void ranges_add_die(struct die_ranges *r, Dwarf_Die *die)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	for (size_t i = 0;
	        i < NR_RANGES_MAX && (at = dwarf_ranges(die, at, &base, &start, &end)) > 0; i++)
		ranges_add(r, start, end, dwarf_dieoffset(die));
}

static int compare_ranges(const void *a, const void *b)
{
	const struct die_range *x = a, *y = b;

	return x->start != y->start ? (x->start > y->start) - (x->start < y->start)
	                            : (x->die > y->die) - (x->die < y->die);
}

static void ranges_sort(struct die_ranges *r)
{
	if (r->nr > 0)
		qsort(r->v, r->nr, sizeof(*r->v), compare_ranges);
}

/* The last range that begins at or below addr, if it holds addr. */
static const struct die_range *ranges_find(const struct die_ranges *r, uint64_t addr)
{
	size_t lo = 0, hi = r->nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->v[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > 0 && addr < r->v[lo - 1].end ? &r->v[lo - 1] : NULL;
}

/* ---- opening --------------------------------------------------------------------- */

static bool has_debug_info(const struct elf_file *f)
{
	static const char *const names[] = {".debug_info", ".zdebug_info"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const Elf64_Shdr *sh = elf_file_find_section(f, names[i]);

		if (sh != NULL && sh->sh_type != SHT_NOBITS)
			return true;
	}
	return false;
}

/* libelf trusts more than we do: each section must lie in the file. */
static bool sections_are_sound(const struct elf_file *f)
{
	for (size_t i = 0; i < f->nr_shdrs; i++) {
		const Elf64_Shdr *sh = &f->shdrs[i];

		if (i > 0 && sh->sh_type != SHT_NOBITS && sh->sh_type != SHT_NULL &&
		        (sh->sh_offset > f->size || sh->sh_size > f->size - sh->sh_offset))
			return false;
	}
	return true;
}

static void collect_units(struct dso_dwarf *d)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	uint8_t type;

	for (size_t i = 0; i < NR_RANGES_MAX; i++) {
		/* Of a skeleton unit no other half is asked for: libdw would open the file that it
		 * names, which is any, a FIFO or a device. */
		if (dwarf_get_units(d->dw, cu, &cu, NULL, &type, &die, NULL) != 0)
			break;
		if (type == DW_UT_compile || type == DW_UT_skeleton)
			ranges_add_die(&d->units, &die);
	}
	ranges_sort(&d->units);
}

/*
 * libdw unpacks all compressed sections when it opens a file. Those that nothing here asks for are
 * made to look as if a debug file didn't have them (dwarf_begin_elf.c, check_section of elfutils
 * 0.188 leaves out SHT_NOBITS). In memory: the file was opened for reading.
 */
static void hide_sections(Elf *elf, bool trusted)
{
	static const char *const unused[] = {".debug_loclists", ".debug_loc", ".debug_aranges",
	        ".debug_frame", ".debug_macro", ".debug_macinfo", ".debug_pubnames",
	        ".debug_pubtypes"};
	Elf_Scn *scn = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return;
	while ((scn = elf_nextscn(elf, scn)) != NULL) {
		Elf64_Shdr *sh = elf64_getshdr(scn);
		const char *name = sh != NULL ? elf_strptr(elf, names, sh->sh_name) : NULL;

		for (size_t i = 0; name != NULL && i < ARRAY_SIZE(unused); i++)
			if (strcmp(name, unused[i]) == 0)
				sh->sh_type = SHT_NOBITS;
		/* libdw would open whatever file it names, be it a FIFO or a device. */
		if (name != NULL && !trusted && strcmp(name, ".gnu_debugaltlink") == 0)
			sh->sh_type = SHT_NOBITS;
	}
}

static bool is_named(const char *name, const char *plain)
{
	return strcmp(name, plain) == 0 ||
	       (strncmp(name, ".z", 2) == 0 && strcmp(name + 2, plain + 1) == 0);
}

/*
 * Strings must end where their section does, which libdw doesn't see to (elfutils 0.188,
 * dwarf_formstring.c). Asked when it has unpacked them. False: those of a section of strings don't.
 * Those in .debug_info are looked at one by one.
 */
static bool strings_end(struct dso_dwarf *d)
{
	Elf_Scn *scn = NULL;
	size_t names;

	if (elf_getshdrstrndx(d->elf, &names) != 0)
		return false;
	while ((scn = elf_nextscn(d->elf, scn)) != NULL) {
		const Elf64_Shdr *sh = elf64_getshdr(scn);
		const char *name = sh != NULL ? elf_strptr(d->elf, names, sh->sh_name) : NULL;
		bool is_info = name != NULL && is_named(name, ".debug_info");
		const Elf_Data *data;

		if (name == NULL || (!is_info && !is_named(name, ".debug_str") &&
		                            !is_named(name, ".debug_line_str")))
			continue;
		data = elf_rawdata(scn, NULL);
		if (data == NULL || data->d_buf == NULL || data->d_size == 0)
			continue;
		if (!is_info && ((const char *)data->d_buf)[data->d_size - 1] != '\0')
			return false;
		if (is_info && d->info == NULL) {
			d->info = data->d_buf;
			d->info_sz = data->d_size;
		}
	}
	return true;
}

/* trusted: the file may name one that libdw opens (dwz's common one). */
static struct dso_dwarf *dwarf_open(const struct elf_file *f, bool trusted)
{
	struct dso_dwarf *d;

	if (f == NULL || f->fd < 0 || !has_debug_info(f) || !sections_are_sound(f) ||
	        elf_version(EV_CURRENT) == EV_NONE)
		return NULL;
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return NULL;
	hash64_init(&d->by_die);
	/* Not ELF_C_READ_MMAP: see elf_file.h. */
	d->elf = elf_begin(f->fd, ELF_C_READ, NULL);
	if (d->elf != NULL)
		hide_sections(d->elf, trusted);
	d->dw = d->elf != NULL ? dwarf_begin_elf(d->elf, DWARF_C_READ, NULL) : NULL;
	if (d->dw == NULL || !strings_end(d)) {
		dso_dwarf_free(d);
		return NULL;
	}
	collect_units(d);
	return d;
}

static struct dso_dwarf *dso_dwarf(struct dso *dso)
{
	if (!dso->tried_dwarf) {
		dso->tried_dwarf = true;
		dso->dwarf = dwarf_open(&dso->elf, false);
		if (dso->dwarf == NULL)
			dso->dwarf = dwarf_open(dso_debug_file(dso), dso->debug_is_installed);
	}
	return dso->dwarf;
}

void dso_dwarf_free(struct dso_dwarf *d)
{
	if (d == NULL)
		return;
	for (size_t i = 0; i < d->nr_seen; i++)
		free(d->seen[i].v);
	free(d->seen);
	free(d->units.v);
	hash64_release(&d->by_die);
	dwarf_end(d->dw);
	elf_end(d->elf);
	free(d);
}

/* ---- functions of a unit
 * -------------------------------------------------------------------------- */

static bool holds_functions(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_class_type ||
	       tag == DW_TAG_structure_type || tag == DW_TAG_union_type ||
	       tag == DW_TAG_enumeration_type;
}

/* The next sibling, which a broken file may place before its elder. */
static bool next_sibling(Dwarf_Die *die, size_t *budget)
{
	Dwarf_Off before = dwarf_dieoffset(die);
	Dwarf_Die next;

	if (*budget == 0 || dwarf_siblingof(die, &next) != 0 || dwarf_dieoffset(&next) <= before)
		return false;
	(*budget)--;
	*die = next;
	return true;
}

static void collect_functions(struct die_ranges *r, Dwarf_Die *parent, int depth, size_t *budget)
{
	Dwarf_Die die;

	if (dwarf_child(parent, &die) != 0)
		return;
	do {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_subprogram)
			ranges_add_die(r, &die);
		else if (depth < NAMESPACE_DEPTH_MAX && holds_functions(tag))
			collect_functions(r, &die, depth + 1, budget);
	} while (next_sibling(&die, budget));
}

static const struct die_ranges *functions_of(struct dso_dwarf *d, Dwarf_Die *cu)
{
	Dwarf_Off key = dwarf_dieoffset(cu);
	const uint64_t *i = hash64_find(&d->by_die, key);
	size_t budget = NR_DIES_MAX;

	if (i != NULL)
		return &d->seen[*i];
	if (ARRAY_RESERVE(d->seen, d->cap_seen, d->nr_seen + 1, NR_DIES_MAX) != 0 ||
	        hash64_put(&d->by_die, key, d->nr_seen) != 0)
		return NULL;
	struct die_ranges *functions = &d->seen[d->nr_seen++];

	*functions = (struct die_ranges){0};
	collect_functions(functions, cu, 0, &budget);
	ranges_sort(functions);
	return functions;
}

/* ---- resolving
 * ---------------------------------------------------------------------------------------- */

/*
 * The chain of DIEs around addr inside a function: chain[0] is the function, then each inlined
 * call. Lexical blocks are passed through.
 */
static size_t find_chain(Dwarf_Die *function, uint64_t addr, Dwarf_Die chain[INLINE_DEPTH_MAX])
{
	size_t nr = 1, budget = NR_DIES_MAX;
	Dwarf_Die parent = *function, die;
	bool deeper = true;

	chain[0] = *function;
	while (deeper && dwarf_child(&parent, &die) == 0) {
		deeper = false;
		do {
			int tag = dwarf_tag(&die);

			if ((tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block) ||
			        dwarf_haspc(&die, addr) != 1)
				continue;
			if (tag == DW_TAG_inlined_subroutine) {
				if (nr == INLINE_DEPTH_MAX)
					return nr;
				chain[nr++] = die;
			}
			parent = die;
			deeper = true;
			break;
		} while (next_sibling(&die, &budget));
	}
	return nr;
}

/* See strings_end(). */
static const char *name_of(const struct dso_dwarf *d, Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &attr));
	uintptr_t off = (uintptr_t)name - (uintptr_t)d->info;

	if (name != NULL && off < d->info_sz && memchr(name, '\0', d->info_sz - off) == NULL)
		return NULL;
	return name;
}

static uint32_t attr_u32(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;
	Dwarf_Word v;

	/* Of this DIE alone: the call's place isn't the inlined function's. */
	if (dwarf_attr(die, name, &attr) == NULL || dwarf_formudata(&attr, &v) != 0 ||
	        v > UINT32_MAX)
		return 0;
	return (uint32_t)v;
}

static void set_call_place(Dwarf_Die *cu, Dwarf_Die *inlined, struct frame *caller)
{
	uint32_t file = attr_u32(inlined, DW_AT_call_file);
	Dwarf_Files *files;
	size_t nr;

	caller->line = attr_u32(inlined, DW_AT_call_line);
	if (caller->line != 0 && dwarf_getsrcfiles(cu, &files, &nr) == 0 && file < nr)
		caller->path = dwarf_filesrc(files, file, NULL, NULL);
}

static void set_line(Dwarf_Die *cu, uint64_t addr, struct frame *frame)
{
	Dwarf_Line *line = dwarf_getsrc_die(cu, addr);
	int lineno;

	if (line == NULL)
		return;
	frame->path = dwarf_linesrc(line, NULL, NULL);
	if (frame->path != NULL && dwarf_lineno(line, &lineno) == 0 && lineno > 0)
		frame->line = (uint32_t)lineno;
}

size_t dso_dwarf_resolve(struct dso *dso, uint64_t vaddr, struct frame *out, size_t max)
{
	struct dso_dwarf *d = dso_dwarf(dso);
	const struct die_range *unit = d != NULL ? ranges_find(&d->units, vaddr) : NULL;
	const struct die_range *function = NULL;
	const struct die_ranges *functions;
	Dwarf_Die cu, die, chain[INLINE_DEPTH_MAX];
	size_t nr = 0;

	if (max == 0 || unit == NULL || dwarf_offdie(d->dw, unit->die, &cu) == NULL)
		return 0;
	functions = functions_of(d, &cu);
	if (functions != NULL)
		function = ranges_find(functions, vaddr);
	if (function != NULL && dwarf_offdie(d->dw, function->die, &die) != NULL)
		nr = find_chain(&die, vaddr, chain);
	/* Innermost first: frame i is chain[nr - 1 - i], called at the place that chain[nr - i]
	 * names. */
	for (size_t i = 0; i < MAX(nr, 1) && i < max; i++) {
		struct frame *frame = &out[i];

		*frame = (struct frame){0};
		if (i == 0)
			set_line(&cu, vaddr, frame);
		else
			set_call_place(&cu, &chain[nr - i], frame);
		if (nr > 0)
			frame->name = name_of(d, &chain[nr - 1 - i]);
		if (i + 1 < nr)
			frame->flags |= FRAME_F_INLINED;
		if (frame->name == NULL && i + 1 < nr)
			frame->name = "?";
	}
	return MIN(MAX(nr, 1), max);
}
