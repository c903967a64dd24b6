/*
 * ELF files of any content: identity, segments, symbols, PLT, unwind table, all without debug
 * information (that is fuzz_dwarf.c's). The file is in the memory of a made-up process, as a vDSO
 * is.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/unwind_check.h"

#include "symbolizer/dso.h"

#include <ctype.h>
#include <errno.h>

enum { BASE = 0x10000000, MAX_FRAMES = 16, MAX_RANGES = 64, NR_PROBES = 256 };

static int read_input(const struct target *t, uint64_t addr, void *out, size_t n)
{
	const struct feed *f = t->ctx;

	if (addr < BASE || addr - BASE > f->n || n > f->n - (addr - BASE))
		return -EFAULT;
	memcpy(out, f->p + (addr - BASE), n);
	return 0;
}

static void check_identity(const struct dso *dso, const struct mapping *m)
{
	const char *id = dso_build_id(dso);
	uint64_t vaddr, size, off, bias;

	MUST(strlen(id) <= 128 && strlen(id) % 2 == 0);
	for (; *id != '\0'; id++)
		MUST(isxdigit((unsigned char)*id));
	(void)dso_is_executable(dso);
	(void)dso_load_bias(dso, m, &bias);
	for (size_t i = 0; i < MAX_RANGES && dso_text_segment(dso, i, &vaddr, &size); i++) {
		char byte;

		MUST(vaddr + size >= vaddr);
		if (!dso_offset_of_vaddr(dso, vaddr, &off))
			continue;
		MUST(off < m->end - m->start && dso_read(dso, vaddr, &byte, 1) == 0);
	}
}

static void check_symbol(struct dso *dso, const struct dso_symbol *sym, uint64_t vaddr)
{
	const struct dso_symbol *named;

	MUST(sym->name[0] != '\0' && strchr(sym->name, '@') == NULL);
	MUST(vaddr >= sym->vaddr && (sym->size == 0 || vaddr - sym->vaddr < sym->size));
	named = dso_find_symbol(dso, sym->name);
	MUST(named != NULL && strcmp(named->name, sym->name) == 0);
	MUST(dso_function_at(dso, sym->vaddr) != NULL);
}

static void check_at(struct dso *dso, uint64_t vaddr)
{
	const struct dso_symbol *sym = dso_function_at(dso, vaddr);
	struct frame frames[MAX_FRAMES];
	uint64_t start, end;
	size_t nr;

	if (sym != NULL)
		check_symbol(dso, sym, vaddr);
	if (dso_fde_at(dso, vaddr, &start, &end))
		MUST(vaddr >= start && vaddr < end);
	nr = dso_resolve(dso, vaddr, frames, MAX_FRAMES);
	MUST(nr >= 1 && nr <= MAX_FRAMES);
	for (size_t i = 0; i < nr; i++)
		MUST(frames[i].name != NULL && frames[i].name[0] != '\0' &&
		        frames[i].func_addr <= vaddr);
	if (sym != NULL)
		MUST(frames[nr - 1].name == sym->name);
}

static void check(struct dso *dso, const struct mapping *m, struct feed addrs)
{
	const struct unwind_table *table = dso_unwind_table(dso, NULL);
	char text[64];
	uint64_t vaddr, size;

	check_identity(dso, m);
	if (table != NULL)
		unwind_table_check(table, 0, UINT64_MAX);
	dso_describe_symbols(dso, text, sizeof(text));
	MUST(memchr(text, '\0', sizeof(text)) != NULL);
	for (size_t i = 0; table != NULL && i < table->nr_fdes && i < MAX_RANGES; i++) {
		check_at(dso, table->fdes[i].start);
		check_at(dso, table->fdes[i].end);
	}
	for (size_t i = 0; i < 8 && dso_text_segment(dso, i, &vaddr, &size); i++) {
		check_at(dso, vaddr);
		check_at(dso, vaddr + size - 1);
		/* Everywhere in a small one, PLT and all. */
		for (uint64_t k = 0; k < NR_PROBES; k++)
			check_at(dso, vaddr + size / NR_PROBES * k);
	}
	(void)dso_find_symbol(dso, "main");
	for (size_t i = 0; i < 8 && addrs.n > 0; i++)
		check_at(dso, feed_u64(&addrs));
}

/* The file; its last bytes are addresses to look up, too. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size},
	            addrs = {data + size - MIN(size, (size_t)128), MIN(size, 128)};
	struct target target = {.pidfd = -1, .read = read_input, .ctx = &f};
	struct mapping m = {.start = BASE,
	        .end = BASE + size,
	        .prot = MAPS_PROT_READ | MAPS_PROT_EXEC,
	        .path = "[vdso]"};
	struct dso_cache *cache;
	struct dso *dso = NULL;
	struct err err = {0};

	if (size == 0 || dso_cache_new(&cache) != 0)
		return 0;
	if (dso_cache_get(cache, &target, &m, &dso, &err) == 0)
		check(dso, &m, addrs);
	else
		MUST(err.msg[0] != '\0' && dso == NULL);
	dso_cache_free(cache);
	return 0;
}
