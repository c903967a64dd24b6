/*
 * Symbols by name and by address.
 *
 * By address a file's function symbols are cut into disjoint pieces once, each with the symbol that
 * a reader wants there, so that a lookup is one binary search whatever aliases and overlaps the
 * file has.
 */
#include "symbolizer/dso_internal.h"
#include "base/array.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NR_SYMBOLS_MAX = 1 << 24, DEBUGDATA_SZ_MAX = 1 << 28, DEBUGDATA_MEM_MAX = 1 << 28 };

/* Why an alias is less wanted, worst first; in between: the number of leading underscores. */
enum { RANK_LOCAL = 0x80, RANK_OLD_VERSION = 0x40, RANK_UNDERSCORES_MAX = 7, RANK_WEAK = 0x01 };

void dso_symbols_release(struct dso_symbols *s)
{
	free(s->v);
	free(s->rank);
	free(s->buckets);
	free(s->next);
	free(s->at);
	for (size_t i = 0; i < s->nr_strtabs; i++)
		free(s->strtabs[i]);
	*s = (struct dso_symbols){0};
}

/* ---- reading symbol tables ------------------------------------------------------- */

struct raw_table {
	Elf64_Sym *syms; /* owned */
	size_t nr;
	char *strtab; /* owned; NUL-terminated */
	size_t strtab_sz;
	uint16_t *versions; /* owned; NULL or nr entries of .gnu.version */
	bool dynamic;
};

static void raw_table_release(struct raw_table *t)
{
	free(t->syms);
	free(t->strtab);
	free(t->versions);
	*t = (struct raw_table){0};
}

/* 0, -ENOENT when there is none (or a broken one), -ENOMEM. */
static int load_section_table(const struct elf_file *f, uint32_t type, struct raw_table *t)
{
	const Elf64_Shdr *sh = elf_file_find_section_type(f, type), *str, *ver;
	void *data;
	int rc;

	*t = (struct raw_table){.dynamic = type == SHT_DYNSYM};
	if (sh == NULL || sh->sh_entsize != sizeof(Elf64_Sym) || sh->sh_link >= f->nr_shdrs)
		return -ENOENT;
	str = &f->shdrs[sh->sh_link];
	if (sh->sh_size / sizeof(Elf64_Sym) > NR_SYMBOLS_MAX || str->sh_type != SHT_STRTAB)
		return -ENOENT;
	rc = elf_file_load_section(f, sh, &data);
	if (rc != 0)
		return rc == -ENOMEM ? rc : -ENOENT;
	t->syms = data;
	t->nr = sh->sh_size / sizeof(Elf64_Sym);
	rc = elf_file_load_section(f, str, &data);
	if (rc != 0) {
		raw_table_release(t);
		return rc == -ENOMEM ? rc : -ENOENT;
	}
	t->strtab = data;
	t->strtab_sz = str->sh_size;
	ver = t->dynamic ? elf_file_find_section_type(f, SHT_GNU_versym) : NULL;
	if (ver != NULL && ver->sh_size / sizeof(uint16_t) >= t->nr &&
	        elf_file_load_section(f, ver, &data) == 0)
		t->versions = data;
	return 0;
}

/* .dynsym has no size in the dynamic segment: its last entry is found through the hash table. */
static size_t count_dynsym(const struct elf_file *f)
{
	uint64_t hash;
	uint32_t head[4], value;
	size_t last = 0;

	if (elf_file_find_dyn(f, DT_HASH, &hash) && elf_file_read_vaddr(f, hash, head, 8) == 0)
		return head[1];
	if (!elf_file_find_dyn(f, DT_GNU_HASH, &hash) ||
	        elf_file_read_vaddr(f, hash, head, sizeof(head)) != 0)
		return 0;
	uint64_t buckets = hash + 16 + (uint64_t)head[2] * 8,
	         chains = buckets + (uint64_t)head[0] * 4;

	if (head[0] > NR_SYMBOLS_MAX)
		return 0;
	for (uint32_t i = 0; i < head[0]; i++) {
		if (elf_file_read_vaddr(f, buckets + (uint64_t)i * 4, &value, 4) != 0)
			return 0;
		last = MAX(last, value);
	}
	if (last < head[1])
		return 0;
	/* A chain ends with the entry whose low bit is set. */
	for (; last < NR_SYMBOLS_MAX; last++) {
		if (elf_file_read_vaddr(f, chains + (last - head[1]) * 4, &value, 4) != 0)
			return 0;
		if ((value & 1) != 0)
			return last + 1;
	}
	return 0;
}

/* .dynsym of a file without section headers. */
static int load_dynamic_table(const struct elf_file *f, struct raw_table *t)
{
	uint64_t sym, str, str_sz;
	size_t nr = count_dynsym(f);
	const Elf64_Phdr *ph;
	void *data;
	int rc;

	*t = (struct raw_table){.dynamic = true};
	if (nr == 0 || nr > NR_SYMBOLS_MAX || !elf_file_find_dyn(f, DT_SYMTAB, &sym) ||
	        !elf_file_find_dyn(f, DT_STRTAB, &str) || !elf_file_find_dyn(f, DT_STRSZ, &str_sz))
		return -ENOENT;
	ph = elf_file_find_load(f, sym, nr * sizeof(Elf64_Sym));
	if (ph == NULL)
		return -ENOENT;
	rc = elf_file_load(f, ph->p_offset + (sym - ph->p_vaddr), nr * sizeof(Elf64_Sym), &data);
	if (rc != 0)
		return rc == -ENOMEM ? rc : -ENOENT;
	t->syms = data;
	t->nr = nr;
	ph = elf_file_find_load(f, str, str_sz);
	rc = ph == NULL ? -ENOENT
	                : elf_file_load(f, ph->p_offset + (str - ph->p_vaddr), str_sz, &data);
	if (rc != 0) {
		raw_table_release(t);
		return rc == -ENOMEM ? rc : -ENOENT;
	}
	t->strtab = data;
	t->strtab_sz = str_sz;
	return 0;
}

/* ---- collecting ------------------------------------------------------------------ */

static uint8_t rank_of(const Elf64_Sym *sym, const char *name, bool old_version)
{
	size_t underscores = strspn(name, "_");

	return (uint8_t)((ELF64_ST_BIND(sym->st_info) == STB_LOCAL ? RANK_LOCAL : 0) |
	                 (old_version ? RANK_OLD_VERSION : 0) |
	                 (ELF64_ST_BIND(sym->st_info) == STB_WEAK ? RANK_WEAK : 0) |
	                 MIN(underscores, RANK_UNDERSCORES_MAX) << 1);
}

static bool is_wanted(const Elf64_Sym *sym)
{
	switch (ELF64_ST_TYPE(sym->st_info)) {
	case STT_NOTYPE:
	case STT_OBJECT:
	case STT_FUNC:
	case STT_TLS:
	case STT_GNU_IFUNC:
		return sym->st_shndx != SHN_UNDEF;
	default:
		return false;
	}
}

static int reserve(struct dso_symbols *s, size_t n)
{
	int rc = ARRAY_RESERVE(s->v, s->cap, s->nr + n, NR_SYMBOLS_MAX);

	return rc != 0 ? rc : ARRAY_RESERVE(s->rank, s->cap_rank, s->nr + n, NR_SYMBOLS_MAX);
}

/* Takes over the table's strings; *nr is how many symbols came in. */
static int add_table(struct dso_symbols *s, struct raw_table *t, size_t *nr)
{
	size_t first = s->nr;

	if (s->nr_strtabs == ARRAY_SIZE(s->strtabs) || s->nr + t->nr > NR_SYMBOLS_MAX)
		return 0;
	if (reserve(s, t->nr) != 0)
		return -ENOMEM;
	for (size_t i = 0; i < t->nr; i++) {
		const Elf64_Sym *sym = &t->syms[i];

		if (!is_wanted(sym) || sym->st_name >= t->strtab_sz)
			continue;
		const char *name = t->strtab + sym->st_name, *at = strchr(name, '@');

		if (*name == '\0' || at == name)
			continue;
		bool old = at != NULL ? at[1] != '@' : t->versions != NULL && t->versions[i] >> 15;

		s->rank[s->nr] = rank_of(sym, name, old);
		s->v[s->nr++] = (struct dso_symbol){
		        .name = name,
		        .vaddr = sym->st_value,
		        .size = sym->st_size,
		        .type = ELF64_ST_TYPE(sym->st_info),
		        .dynamic = t->dynamic,
		};
	}
	/* .symtab has "memcpy@@GLIBC_2.14" where .dynsym has "memcpy" and a version beside. */
	for (size_t i = first; i < s->nr; i++) {
		char *at = strchr(s->v[i].name, '@');

		if (at != NULL && at != s->v[i].name)
			*at = '\0';
	}
	*nr = s->nr - first;
	s->strtabs[s->nr_strtabs++] = t->strtab;
	t->strtab = NULL;
	return 0;
}

static int add_from(struct dso_symbols *s, const struct elf_file *f, uint32_t type, size_t *nr)
{
	struct raw_table t;
	int rc = load_section_table(f, type, &t);

	if (rc == -ENOENT && type == SHT_DYNSYM && f->shdrs == NULL)
		rc = load_dynamic_table(f, &t);
	if (rc != 0)
		return rc == -ENOENT ? 0 : rc;
	rc = add_table(s, &t, nr);
	raw_table_release(&t);
	return rc;
}

/* xz-compressed ELF file with a .symtab of what .dynsym hasn't got ("MiniDebugInfo" of Fedora). */
static int unxz(const void *in, size_t in_sz, unsigned char **out, size_t *out_sz)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	unsigned char *data = NULL;
	size_t cap = 0;
	lzma_ret ret;

	if (lzma_stream_decoder(&stream, DEBUGDATA_MEM_MAX, 0) != LZMA_OK)
		return -ENOMEM;
	stream.next_in = in;
	stream.avail_in = in_sz;
	do {
		if (stream.avail_out == 0) {
			size_t used = cap;

			if (ARRAY_RESERVE(data, cap, used + (1 << 16), DEBUGDATA_SZ_MAX) != 0) {
				ret = LZMA_MEM_ERROR;
				break;
			}
			stream.next_out = data + used;
			stream.avail_out = cap - used;
		}
		ret = lzma_code(&stream, LZMA_FINISH);
	} while (ret == LZMA_OK);
	size_t n = cap - stream.avail_out;

	lzma_end(&stream);
	if (ret != LZMA_STREAM_END) {
		free(data);
		return ret == LZMA_MEM_ERROR ? -ENOMEM : -EINVAL;
	}
	*out = data;
	*out_sz = n;
	return 0;
}

static int add_debugdata(struct dso *dso)
{
	const Elf64_Shdr *sh = elf_file_find_section(&dso->elf, ".gnu_debugdata");
	struct elf_file inner;
	unsigned char *data;
	void *packed;
	size_t size;
	int rc;

	if (sh == NULL || elf_file_load_section(&dso->elf, sh, &packed) != 0)
		return 0;
	rc = unxz(packed, sh->sh_size, &data, &size);
	free(packed);
	if (rc != 0 || elf_file_open_mem(&inner, data, size, NULL) != 0)
		return 0;
	rc = add_from(&dso->symbols, &inner, SHT_SYMTAB, &dso->symbols.nr_debugdata);
	elf_file_close(&inner);
	return rc;
}

/* ---- separate debug file --------------------------------------------------------- */

/* The checksum of .gnu_debuglink: the common CRC-32. */
static bool has_crc(const struct elf_file *f, uint32_t want)
{
	unsigned char chunk[1 << 16];
	uint32_t crc = 0;

	for (uint64_t off = 0; off < f->size;) {
		size_t n = MIN(sizeof(chunk), f->size - off);

		if (elf_file_read(f, off, chunk, n) != 0)
			return false;
		crc = lzma_crc32(chunk, n, crc);
		off += n;
	}
	return crc == want;
}

/* Keeps the file when it belongs to dso: by build ID, or by checksum for a file without one. */
static bool try_debug_file(struct dso *dso, int root_fd, const char *path, const uint32_t *crc)
{
	unsigned char own[ELF_BUILD_ID_SZ], id[ELF_BUILD_ID_SZ];
	size_t own_sz = elf_file_build_id(&dso->elf, own);
	struct elf_file f;
	int fd = root_open(root_fd, path);

	if (fd < 0 || elf_file_open_fd(&f, fd, NULL) != 0)
		return false;
	bool same = own_sz != 0
	                    ? elf_file_build_id(&f, id) == own_sz && memcmp(own, id, own_sz) == 0
	                    : crc != NULL && has_crc(&f, *crc);

	if (!same || (dso->debug_path = strdup(path)) == NULL) {
		elf_file_close(&f);
		return false;
	}
	dso->debug_file = f;
	dso->debug_is_installed = root_fd < 0 && strncmp(path, "/usr/lib/debug/", 15) == 0;
	return true;
}

static bool find_by_build_id(struct dso *dso, int root_fd)
{
	char path[64 + ELF_BUILD_ID_SZ * 2];

	if (strlen(dso->build_id) < 4)
		return false;
	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", dso->build_id,
	        dso->build_id + 2);
	return try_debug_file(dso, root_fd, path, NULL);
}

/* The section names a file and its checksum; the file lies beside ours, in .debug/ there, or under
 * /usr/lib/debug. */
static bool find_by_link(struct dso *dso, int root_fd, const char *link, uint32_t crc)
{
	int dir = (int)(dso->name - dso->path);
	static const char *const forms[] = {"%.*s%s", "%.*s.debug/%s", "/usr/lib/debug%.*s%s"};
	char path[4096];

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		int n = snprintf(path, sizeof(path), forms[i], dir, dso->path, link);
#pragma GCC diagnostic pop

		if (n < (int)sizeof(path) && try_debug_file(dso, root_fd, path, &crc))
			return true;
	}
	return false;
}

static void find_debug_file(struct dso *dso)
{
	const Elf64_Shdr *sh = elf_file_find_section(&dso->elf, ".gnu_debuglink");
	void *link = NULL;
	uint32_t crc = 0;

	if (sh != NULL && sh->sh_size >= 8 && sh->sh_size <= 4096 &&
	        elf_file_load_section(&dso->elf, sh, &link) == 0)
		memcpy(&crc, (char *)link + sh->sh_size - 4, 4);
	bool has_link = link != NULL && ((char *)link)[0] != '\0' && strchr(link, '/') == NULL &&
	                dso->path[0] == '/';

	/* The process's own root first, then ours: a container seldom has debug files. */
	for (int i = dso->root_fd >= 0 ? 0 : 1; i < 2; i++) {
		int root_fd = i == 0 ? dso->root_fd : -1;

		if (find_by_build_id(dso, root_fd) ||
		        (has_link && find_by_link(dso, root_fd, link, crc)))
			break;
	}
	free(link);
}

const struct elf_file *dso_debug_file(struct dso *dso)
{
	if (!dso->tried_debug_file) {
		dso->tried_debug_file = true;
		find_debug_file(dso);
	}
	return dso->debug_path != NULL ? &dso->debug_file : NULL;
}

/* ---- by name --------------------------------------------------------------------- */

static int index_names(struct dso_symbols *s)
{
	size_t nr = 1;

	while (nr < s->nr)
		nr *= 2;
	s->buckets = malloc(nr * sizeof(*s->buckets));
	s->next = malloc((s->nr + 1) * sizeof(*s->next));
	if (s->buckets == NULL || s->next == NULL)
		return -ENOMEM;
	memset(s->buckets, 0xff, nr * sizeof(*s->buckets));
	s->nr_buckets = nr;
	for (size_t i = 0; i < s->nr; i++) {
		const char *name = s->v[i].name;
		uint32_t *head = &s->buckets[hash_bytes(name, strlen(name), 0) & (nr - 1)];

		s->next[i] = *head;
		*head = (uint32_t)i;
	}
	return 0;
}

/* ---- by address
 * ----------------------------------------------------------------------------------- */

/* A function symbol, with the size that it has or that its FDE gives it. */
struct span {
	uint64_t start, end;
	uint32_t index;
};

static bool in_text(const struct dso *dso, uint64_t vaddr)
{
	uint64_t start, size;

	for (size_t i = 0; dso_text_segment(dso, i, &start, &size); i++) {
		if (vaddr - start < size)
			return true;
	}
	return false;
}

static bool span_of(struct dso *dso, uint32_t index, struct span *out)
{
	const struct dso_symbol *sym = &dso->symbols.v[index];
	uint64_t start, end;

	if (sym->type == STT_OBJECT || sym->type == STT_TLS || !in_text(dso, sym->vaddr))
		return false;
	if (sym->size != 0) {
		end = sym->vaddr + sym->size;
		if (end < sym->vaddr)
			return false;
	} else if (!dso_fde_at(dso, sym->vaddr, &start, &end) ||
	           (start != sym->vaddr && start + 1 != sym->vaddr)) {
		return false; /* a signal trampoline's FDE begins a byte before it */
	}
	*out = (struct span){sym->vaddr, end, index};
	return true;
}

/* By start; of those that start together the longest first, then the one that a reader wants. */
static int compare_spans(const void *a, const void *b, void *arg)
{
	const struct span *x = a, *y = b;
	const struct dso_symbols *s = arg;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	if (s->rank[x->index] != s->rank[y->index])
		return s->rank[x->index] < s->rank[y->index] ? -1 : 1;
	const struct dso_symbol *p = &s->v[x->index], *q = &s->v[y->index];

	/* A label without a type is worth less than a function; then any fixed order will do. */
	if ((p->type == STT_NOTYPE) != (q->type == STT_NOTYPE))
		return p->type == STT_NOTYPE ? 1 : -1;
	int order = strcmp(p->name, q->name);

	return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static void add_boundary(struct dso_symbols *s, uint64_t vaddr, uint32_t index)
{
	if (s->nr_at > 0 && s->at[s->nr_at - 1].vaddr == vaddr)
		s->nr_at--;
	s->at[s->nr_at++] = (struct symbol_boundary){vaddr, index};
}

/* Where spans overlap, the one that began last holds: the piece inside of a larger one has its own
 * name. */
static void cut_spans(struct dso_symbols *s, const struct span *spans, size_t nr, uint32_t *stack)
{
	size_t depth = 0;

	for (size_t i = 0; i <= nr; i++) {
		uint64_t start = i < nr ? spans[i].start : UINT64_MAX;

		if (i > 0 && i < nr && spans[i - 1].start == start)
			continue; /* an alias that lost */
		while (depth > 0 && spans[stack[depth - 1]].end <= start) {
			uint64_t end = spans[stack[depth - 1]].end;

			while (depth > 0 && spans[stack[depth - 1]].end <= end)
				depth--;
			add_boundary(
			        s, end, depth > 0 ? spans[stack[depth - 1]].index : UINT32_MAX);
		}
		if (i < nr) {
			stack[depth++] = (uint32_t)i;
			add_boundary(s, start, spans[i].index);
		}
	}
}

static int index_addresses(struct dso *dso)
{
	struct dso_symbols *s = &dso->symbols;
	struct span *spans = calloc(s->nr + 1, sizeof(*spans));
	uint32_t *stack = NULL;
	size_t nr = 0;
	int rc = -ENOMEM;

	if (spans == NULL)
		goto out;
	for (size_t i = 0; i < s->nr; i++)
		nr += span_of(dso, (uint32_t)i, &spans[nr]);
	qsort_r(spans, nr, sizeof(*spans), compare_spans, s);
	s->at = calloc(2 * nr + 1, sizeof(*s->at));
	stack = calloc(nr + 1, sizeof(*stack));
	if (s->at == NULL || stack == NULL)
		goto out;
	cut_spans(s, spans, nr, stack);
	rc = 0;
out:
	free(spans);
	free(stack);
	return rc;
}

/* ---- the interface
 * ---------------------------------------------------------------------------------- */

static int load_symbols(struct dso *dso)
{
	struct dso_symbols *s = &dso->symbols;
	const struct elf_file *debug;
	int rc = add_from(s, &dso->elf, SHT_DYNSYM, &s->nr_dynsym);

	if (rc == 0)
		rc = add_from(s, &dso->elf, SHT_SYMTAB, &s->nr_symtab);
	if (rc == 0 && s->nr_symtab == 0 && (debug = dso_debug_file(dso)) != NULL)
		rc = add_from(s, debug, SHT_SYMTAB, &s->nr_debug_file);
	if (rc == 0 && s->nr_symtab == 0 && s->nr_debug_file == 0)
		rc = add_debugdata(dso);
	if (rc == 0)
		rc = index_names(s);
	if (rc == 0)
		rc = index_addresses(dso);
	return rc;
}

static const struct dso_symbols *get_symbols(struct dso *dso)
{
	if (!dso->tried_symbols) {
		dso->tried_symbols = true;
		if (load_symbols(dso) != 0)
			dso_symbols_release(&dso->symbols);
	}
	return &dso->symbols;
}

const struct dso_symbol *dso_find_symbol(struct dso *dso, const char *name)
{
	const struct dso_symbols *s = get_symbols(dso);
	uint32_t best = UINT32_MAX;

	if (s->nr_buckets == 0)
		return NULL;
	uint32_t i = s->buckets[hash_bytes(name, strlen(name), 0) & (s->nr_buckets - 1)];

	for (; i != UINT32_MAX; i = s->next[i]) {
		if (strcmp(s->v[i].name, name) != 0)
			continue;
		/* Of equals the first in the file, and .dynsym was read first. */
		if (best == UINT32_MAX || s->rank[i] < s->rank[best] ||
		        (s->rank[i] == s->rank[best] && i < best))
			best = i;
	}
	return best != UINT32_MAX ? &s->v[best] : NULL;
}

const struct dso_symbol *dso_function_at(struct dso *dso, uint64_t vaddr)
{
	const struct dso_symbols *s = get_symbols(dso);
	size_t lo = 0, hi = s->nr_at;

	/* The last boundary at or below vaddr. */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->at[mid].vaddr <= vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0 || s->at[lo - 1].index == UINT32_MAX)
		return NULL;
	return &s->v[s->at[lo - 1].index];
}

size_t dso_describe_symbols(struct dso *dso, char *out, size_t n)
{
	const struct dso_symbols *s = get_symbols(dso);
	size_t len = 0;
	const struct {
		size_t nr;
		const char *what, *path;
	} sources[] = {
	        {s->nr_symtab, "symtab", ""},
	        {s->nr_dynsym, "dynsym", ""},
	        {s->nr_debug_file, "debug file ", dso->debug_path != NULL ? dso->debug_path : ""},
	        {s->nr_debugdata, "gnu_debugdata", ""},
	};

	if (n > 0)
		out[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		if (sources[i].nr == 0 || len >= n)
			continue;
		len += (size_t)snprintf(out + len, n - len, "%s%s%s", len > 0 ? ", " : "",
		        sources[i].what, sources[i].path);
	}
	return s->nr;
}
