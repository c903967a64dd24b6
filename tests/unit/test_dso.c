/*
 * Truth is what binutils say about the same file, what the compiler says about this program, and a
 * library that is built here.
 */
#include "symbolizer/dso.h"
#include "tests/unit/tap.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/inotify.h>
#include <unistd.h>

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"

static char dir[] = "/tmp/test_dsoXXXXXX";

/* ---- the library built here ------------------------------------------------------ */

/* clang-format off */
static const char source[] =
	"#include <stdlib.h>\n"                                                     /* 1 */
	"struct point { char tag; struct { int x; long y; }; union { int u; char c; }; };\n"
	"struct point origin;\n"                                                    /* 3 */
	"int hidden_var = 7;\n"
	"static inline __attribute__((always_inline)) int inner(int n)\n"           /* 5 */
	"{\n"
	"\treturn rand() + n * hidden_var;\n"                                       /* 7 */
	"}\n"
	"static __attribute__((noinline)) int local_fn(int n)\n"                    /* 9 */
	"{\n"
	"\treturn inner(n) + 1;\n"                                                  /* 11 */
	"}\n"
	"int exported_fn(int n)\n"                                                  /* 13 */
	"{\n"
	"\torigin.tag = n;\n"
	"\treturn local_fn(n) * 3;\n"                                               /* 16 */
	"}\n";
/* clang-format on */

static bool run(const char *fmt, ...)
{
	char command[2048];
	va_list args;
	size_t len;

	va_start(args, fmt);
	len = (size_t)snprintf(command, sizeof(command), "cd %s && { ", dir);
	len += (size_t)vsnprintf(command + len, sizeof(command) - len, fmt, args);
	va_end(args);
	snprintf(command + len, sizeof(command) - len, "; } >/dev/null 2>&1");
	return system(command) == 0;
}

static const char *in_dir(const char *name)
{
	static char path[4][256];
	static int i;

	i = (i + 1) % 4;
	snprintf(path[i], sizeof(path[i]), "%s/%s", dir, name);
	return path[i];
}

static bool build(void)
{
	static int built = -1;

	if (built >= 0)
		return built;
	FILE *f = fopen(in_dir("lib.c"), "w");

	if (f == NULL)
		return false;
	fputs(source, f);
	fclose(f);
	built = run(
	        "cc -g -O2 -fPIC -shared -Wl,--build-id -o full.so lib.c && "
	        "strip -o stripped.so full.so && "
	        "objcopy --only-keep-debug full.so linked.debug && "
	        "cc -g -O2 -fPIC -shared -Wl,--build-id=none -o noid.so lib.c && "
	        "objcopy --only-keep-debug noid.so noid.debug && "
	        "strip -o linked.so noid.so && objcopy --add-gnu-debuglink=noid.debug linked.so");
	return built;
}

struct opened {
	struct dso_cache *cache;
	struct dso *dso;
};

static bool open_path(struct opened *o, const char *path)
{
	struct err err = {0};

	if (dso_cache_new(&o->cache) != 0)
		return false;
	if (dso_cache_get_path(o->cache, path, &o->dso, &err) == 0)
		return true;
	printf("# %s\n", err.msg);
	dso_cache_free(o->cache);
	return false;
}

/* ---- against binutils
 * ---------------------------------------------------------------------------- */

TEST(each_exported_function_of_libc_is_found_by_name_and_by_address)
{
	FILE *nm = popen("nm -D -S --defined-only " LIBC, "r");
	size_t nr = 0, nr_by_name = 0, nr_by_addr = 0, nr_last_byte = 0;
	struct opened o;
	char line[512];

	REQUIRE(nm != NULL && open_path(&o, LIBC));
	while (fgets(line, sizeof(line), nm) != NULL) {
		uint64_t addr, size;
		char type, name[256];

		if (sscanf(line, "%" SCNx64 " %" SCNx64 " %c %255s", &addr, &size, &type, name) !=
		                4 ||
		        strchr("TW", type) == NULL)
			continue;
		char *at = strchr(name, '@');
		bool is_default = at == NULL || at[1] == '@';

		if (at != NULL)
			*at = '\0';
		nr++;
		const struct dso_symbol *sym = dso_find_symbol(o.dso, name);

		if (sym != NULL && (!is_default || (sym->vaddr == addr && sym->size == size)) &&
		        sym->dynamic)
			nr_by_name++;
		sym = dso_function_at(o.dso, addr);
		nr_by_addr += sym != NULL && sym->vaddr == addr;
		sym = dso_function_at(o.dso, addr + size - 1);
		nr_last_byte += sym != NULL && sym->vaddr <= addr + size - 1 &&
		                addr + size - 1 < sym->vaddr + sym->size;
	}
	pclose(nm);
	CHECK(nr > 2000);
	CHECK_EQ(nr_by_name, nr);
	CHECK_EQ(nr_by_addr, nr);
	CHECK_EQ(nr_last_byte, nr);
	dso_cache_free(o.cache);
}

TEST(of_aliases_the_name_without_underscores)
{
	static const char *const names[] = {
	        "malloc", "write", "qsort_r", "pthread_create", "nanosleep"};
	struct opened o;

	REQUIRE(open_path(&o, LIBC));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct dso_symbol *sym = dso_find_symbol(o.dso, names[i]);

		REQUIRE(sym != NULL);
		CHECK_STR(dso_function_at(o.dso, sym->vaddr + 1)->name, names[i]);
	}
	dso_cache_free(o.cache);
}

TEST(the_bounds_of_each_fde_are_those_of_readelf)
{
	FILE *readelf = popen("readelf -wF " LIBC " 2>/dev/null", "r");
	size_t nr = 0, nr_right = 0;
	struct opened o;
	char line[512];

	REQUIRE(readelf != NULL && open_path(&o, LIBC));
	while (fgets(line, sizeof(line), readelf) != NULL) {
		uint64_t from, to, start, end;
		const char *pc = strstr(line, " FDE ") != NULL ? strstr(line, "pc=") : NULL;

		if (pc == NULL || sscanf(pc, "pc=%" SCNx64 "..%" SCNx64, &from, &to) != 2)
			continue;
		nr++;
		nr_right += dso_fde_at(o.dso, from, &start, &end) && start == from && end == to &&
		            dso_fde_at(o.dso, to - 1, &start, &end) && start == from;
	}
	pclose(readelf);
	CHECK(nr > 1000);
	CHECK_EQ(nr_right, nr);
	REQUIRE(dso_unwind_table(o.dso, NULL) != NULL);
	CHECK_EQ(dso_unwind_table(o.dso, NULL)->nr_fdes, nr);
	dso_cache_free(o.cache);
}

TEST(plt_entries_have_the_names_that_objdump_gives_them)
{
	FILE *objdump = popen(
	        "objdump -d -j .plt -j .plt.got -j .plt.sec /usr/lib/x86_64-linux-gnu/libgmp.so.10 "
	        "2>/dev/null | grep '@plt>:'",
	        "r");
	size_t nr = 0, nr_right = 0;
	struct opened o;
	char line[512];

	REQUIRE(objdump != NULL && open_path(&o, "/usr/lib/x86_64-linux-gnu/libgmp.so.10"));
	while (fgets(line, sizeof(line), objdump) != NULL) {
		struct frame frame;
		uint64_t addr;
		char name[256];

		if (sscanf(line, "%" SCNx64 " <%255[^>]>", &addr, name) != 2)
			continue;
		nr++;
		nr_right += dso_resolve(o.dso, addr + 6, &frame, 1) == 1 &&
		            strcmp(frame.name, name) == 0 && frame.func_addr == addr;
	}
	pclose(objdump);
	CHECK(nr > 300);
	CHECK_EQ(nr_right, nr);
	dso_cache_free(o.cache);
}

TEST(the_build_id_is_that_of_readelf)
{
	FILE *readelf = popen("readelf -n " LIBC " | sed -n 's/.*Build ID: //p'", "r");
	char want[128] = "";
	struct opened o;

	REQUIRE(readelf != NULL && fgets(want, sizeof(want), readelf) != NULL);
	pclose(readelf);
	want[strcspn(want, "\n")] = '\0';
	REQUIRE(open_path(&o, LIBC));
	CHECK_STR(dso_build_id(o.dso), want);
	CHECK_STR(dso_name(o.dso), "libc.so.6");
	dso_cache_free(o.cache);
}

TEST(a_library_is_no_program_even_if_it_can_be_run)
{
	struct opened o;

	REQUIRE(open_path(&o, LIBC));
	CHECK(!dso_is_executable(o.dso));
	dso_cache_free(o.cache);
	REQUIRE(open_path(&o, "/proc/self/exe"));
	CHECK(dso_is_executable(o.dso));
	dso_cache_free(o.cache);
}

/* ---- this process
 * -------------------------------------------------------------------------------- */

struct self {
	struct dso_cache *cache;
	struct target target;
	struct maps maps;
};

static bool self_open(struct self *s)
{
	*s = (struct self){0};
	return dso_cache_new(&s->cache) == 0 && target_open(&s->target, getpid(), NULL) == 0 &&
	       maps_read(&s->maps, getpid(), NULL) == 0;
}

static void self_close(struct self *s)
{
	dso_cache_free(s->cache);
	target_close(&s->target);
	maps_release(&s->maps);
}

/* The file and the vaddr of an address of ours. */
static struct dso *self_dso(struct self *s, const void *addr, uint64_t *vaddr)
{
	const struct mapping *m = maps_find(&s->maps, (uintptr_t)addr);
	struct err err = {0};
	struct dso *dso;
	uint64_t bias;

	if (m == NULL || dso_cache_get(s->cache, &s->target, m, &dso, &err) != 0 ||
	        !dso_load_bias(dso, m, &bias)) {
		printf("# %s\n", err.msg);
		return NULL;
	}
	*vaddr = (uintptr_t)addr - bias;
	return dso;
}

static const void *here;
static int inlined_line, inlining_line, plain_line;

#define HERE()                                                                                     \
	({                                                                                         \
		const void *pc_;                                                                   \
		__asm__ volatile("lea 0(%%rip), %0" : "=r"(pc_));                                  \
		pc_;                                                                               \
	})

static inline __attribute__((always_inline)) void inlined(void)
{
	inlined_line = __LINE__, here = HERE();
}

static __attribute__((noinline)) void inlining(void)
{
	inlining_line = __LINE__, inlined();
}

static __attribute__((noinline)) void plain(void)
{
	plain_line = __LINE__, here = HERE();
}

TEST(a_line_of_this_program)
{
	struct self s;
	struct frame frames[4];
	uint64_t vaddr;

	plain();
	REQUIRE(self_open(&s));
	struct dso *dso = self_dso(&s, here, &vaddr);
	REQUIRE(dso != NULL);
	REQUIRE(dso_resolve(dso, vaddr - 1, frames, 4) == 1);
	CHECK_STR(frames[0].name, "plain");
	CHECK_EQ(frames[0].line, plain_line);
	REQUIRE(frames[0].path != NULL);
	CHECK(strstr(frames[0].path, "test_dso.c") != NULL);
	CHECK_EQ(frames[0].flags, 0);
	CHECK_EQ(dso_find_symbol(dso, "plain")->vaddr, frames[0].func_addr);
	self_close(&s);
}

TEST(an_inlined_function_stands_before_the_one_that_holds_it)
{
	struct self s;
	struct frame frames[4];
	uint64_t vaddr;

	inlining();
	REQUIRE(self_open(&s));
	struct dso *dso = self_dso(&s, here, &vaddr);
	REQUIRE(dso != NULL);
	REQUIRE(dso_resolve(dso, vaddr - 1, frames, 4) == 2);
	CHECK_STR(frames[0].name, "inlined");
	CHECK_EQ(frames[0].line, inlined_line);
	CHECK_EQ(frames[0].flags, FRAME_F_INLINED);
	CHECK_STR(frames[1].name, "inlining");
	CHECK_EQ(frames[1].line, inlining_line);
	CHECK_EQ(frames[1].flags, 0);
	CHECK_EQ(frames[0].file_off, frames[1].file_off);
	/* Room for one: the innermost. */
	REQUIRE(dso_resolve(dso, vaddr - 1, frames, 1) == 1);
	CHECK_STR(frames[0].name, "inlined");
	self_close(&s);
}

TEST(offsets_of_the_file_and_bytes_agree_with_memory)
{
	struct self s;
	uint64_t vaddr, off;
	unsigned char bytes[32];

	REQUIRE(self_open(&s));
	struct dso *dso = self_dso(&s, (const void *)(uintptr_t)&plain, &vaddr);
	REQUIRE(dso != NULL);
	const struct mapping *m = maps_find(&s.maps, (uintptr_t)&plain);
	CHECK(dso_offset_of_vaddr(dso, vaddr, &off));
	CHECK_EQ(off, (uintptr_t)&plain - m->start + m->file_off);
	CHECK_EQ(dso_read(dso, vaddr, bytes, sizeof(bytes)), 0);
	CHECK(memcmp(bytes, (const void *)(uintptr_t)&plain, sizeof(bytes)) == 0);
	CHECK_EQ(dso_read(dso, 1ULL << 62, bytes, 1), -EFAULT);
	CHECK_EQ(dso_read(dso, UINT64_MAX, bytes, 2), -EFAULT);
	self_close(&s);
}

TEST(every_mapping_of_a_file_gives_the_same_bias)
{
	struct self s;
	size_t nr = 0;

	REQUIRE(self_open(&s));
	for (size_t i = 0; i < s.maps.nr; i++) {
		const struct mapping *m = &s.maps.v[i];
		uint64_t bias = 0, other = 1;
		struct dso *a, *b;

		if (m->path[0] != '/' || dso_cache_get(s.cache, &s.target, m, &a, NULL) != 0 ||
		        i == 0 || strcmp(m[-1].path, m->path) != 0)
			continue;
		REQUIRE(dso_cache_get(s.cache, &s.target, m - 1, &b, NULL) == 0);
		CHECK(a == b);
		CHECK(dso_load_bias(a, m, &bias) && dso_load_bias(a, m - 1, &other));
		CHECK_EQ(bias, other);
		nr++;
	}
	CHECK(nr > 10);
	self_close(&s);
}

TEST(the_vdso_comes_from_memory)
{
	struct self s;
	struct dso *dso = NULL;
	struct frame frame;
	uint64_t bias;

	REQUIRE(self_open(&s));
	for (size_t i = 0; i < s.maps.nr; i++) {
		const struct mapping *m = &s.maps.v[i];

		if (strcmp(m->path, "[vdso]") != 0)
			continue;
		REQUIRE(dso_cache_get(s.cache, &s.target, m, &dso, NULL) == 0);
		CHECK(dso_load_bias(dso, m, &bias));
		CHECK_EQ(bias, m->start);
	}
	REQUIRE(dso != NULL);
	CHECK_STR(dso_name(dso), "[vdso]");
	CHECK(dso_build_id(dso)[0] != '\0');
	const struct dso_symbol *sym = dso_find_symbol(dso, "__vdso_clock_gettime");
	REQUIRE(sym != NULL);
	REQUIRE(dso_resolve(dso, sym->vaddr + 1, &frame, 1) == 1);
	CHECK_STR(frame.name, "clock_gettime");
	uint64_t start, end;
	CHECK(dso_fde_at(dso, sym->vaddr, &start, &end));
	CHECK_EQ(start, sym->vaddr);
	self_close(&s);
}

TEST(a_deleted_file_is_still_read)
{
	struct self s;
	uint64_t vaddr;

	if (geteuid() != 0)
		SKIP("needs root");
	REQUIRE(build() && run("cp full.so deleted.so"));
	void *lib = dlopen(in_dir("deleted.so"), RTLD_NOW);
	REQUIRE(lib != NULL);
	/* Something else takes its place. */
	REQUIRE(run("rm deleted.so && cp lib.c deleted.so"));
	REQUIRE(self_open(&s));
	struct dso *dso = self_dso(&s, dlsym(lib, "exported_fn"), &vaddr);
	REQUIRE(dso != NULL);
	CHECK_STR(dso_function_at(dso, vaddr)->name, "exported_fn");
	CHECK_STR(dso_path(dso), in_dir("deleted.so"));
	self_close(&s);
	dlclose(lib);
}

TEST(what_is_no_elf_file_is_refused)
{
	struct dso_cache *cache;
	struct dso *dso;
	struct err err;

	REQUIRE(build() && run("mkfifo fifo; : > empty") && dso_cache_new(&cache) == 0);
	CHECK_EQ(dso_cache_get_path(cache, in_dir("lib.c"), &dso, &err), -ENOEXEC);
	CHECK(strstr(err.msg, "lib.c") != NULL);
	CHECK_EQ(dso_cache_get_path(cache, in_dir("empty"), &dso, &err), -ENOEXEC);
	CHECK_EQ(dso_cache_get_path(cache, in_dir("fifo"), &dso, &err), -ENOEXEC);
	CHECK_EQ(dso_cache_get_path(cache, dir, &dso, &err), -ENOEXEC);
	CHECK_EQ(dso_cache_get_path(cache, in_dir("nothing"), &dso, &err), -ENOENT);
	dso_cache_free(cache);
}

TEST(the_same_build_is_one_dso)
{
	struct dso_cache *cache;
	struct dso *a, *b, *c;

	REQUIRE(build() && run("cp full.so copy.so") && dso_cache_new(&cache) == 0);
	REQUIRE(dso_cache_get_path(cache, in_dir("full.so"), &a, NULL) == 0);
	REQUIRE(dso_cache_get_path(cache, in_dir("copy.so"), &b, NULL) == 0);
	REQUIRE(dso_cache_get_path(cache, in_dir("noid.so"), &c, NULL) == 0);
	CHECK(a == b);
	CHECK(a != c);
	dso_cache_free(cache);
}

/* ---- symbols from elsewhere
 * ------------------------------------------------------------------------- */

/* The vaddr of local_fn, by nm of the file that has all symbols. */
static uint64_t truth_of_local_fn(const char *file)
{
	char command[512];
	uint64_t addr = 0;

	snprintf(command, sizeof(command), "nm %s/%s | sed -n 's/ t local_fn$//p'", dir, file);
	FILE *nm = popen(command, "r");

	if (nm == NULL || fscanf(nm, "%" SCNx64, &addr) != 1)
		addr = 0;
	if (nm != NULL)
		pclose(nm);
	return addr;
}

TEST(a_function_without_symbol_is_named_by_its_start)
{
	struct opened o;
	struct frame frame;
	char want[64];

	REQUIRE(build());
	uint64_t addr = truth_of_local_fn("full.so");
	REQUIRE(addr != 0 && open_path(&o, in_dir("stripped.so")));
	CHECK(dso_function_at(o.dso, addr + 4) == NULL);
	REQUIRE(dso_resolve(o.dso, addr + 4, &frame, 1) == 1);
	snprintf(want, sizeof(want), "stripped.so+0x%" PRIx64, addr);
	CHECK_STR(frame.name, want);
	CHECK_EQ(frame.func_addr, addr);
	CHECK(frame.path == NULL);
	dso_cache_free(o.cache);
}

TEST(a_debug_link_is_followed_and_its_checksum_counts)
{
	struct opened o;
	struct frame frames[4];
	char text[512];

	REQUIRE(build());
	uint64_t addr = truth_of_local_fn("noid.so");
	REQUIRE(addr != 0 && open_path(&o, in_dir("linked.so")));
	CHECK(dso_describe_symbols(o.dso, text, sizeof(text)) > 0);
	CHECK(strstr(text, "debug file ") != NULL && strstr(text, "noid.debug") != NULL);
	REQUIRE(dso_resolve(o.dso, addr, frames, 4) >= 1);
	size_t nr = dso_resolve(o.dso, addr, frames, 4);
	CHECK_STR(frames[nr - 1].name, "local_fn");
	CHECK(frames[nr - 1].path != NULL && strstr(frames[nr - 1].path, "lib.c") != NULL);
	dso_cache_free(o.cache);

	/* One byte more, and it is another file. */
	REQUIRE(run("mkdir -p other && cp linked.so other && cp noid.debug other && echo >> "
	            "other/noid.debug"));
	REQUIRE(open_path(&o, in_dir("other/linked.so")));
	CHECK(dso_function_at(o.dso, addr) == NULL);
	dso_cache_free(o.cache);
}

TEST(mini_debug_info_gives_symbols)
{
	struct opened o;
	char text[256];

	if (system("command -v xz >/dev/null") != 0)
		SKIP("xz is not installed");
	REQUIRE(build());
	REQUIRE(run("objcopy -S --remove-section=.comment --keep-symbol=local_fn full.so mini && "
	            "rm -f mini.xz && xz mini && cp stripped.so minidebug.so && "
	            "objcopy --add-section .gnu_debugdata=mini.xz minidebug.so"));
	uint64_t addr = truth_of_local_fn("full.so");
	REQUIRE(open_path(&o, in_dir("minidebug.so")));
	const struct dso_symbol *sym = dso_find_symbol(o.dso, "local_fn");
	REQUIRE(sym != NULL);
	CHECK_EQ(sym->vaddr, addr);
	CHECK(dso_function_at(o.dso, addr) == sym);
	dso_describe_symbols(o.dso, text, sizeof(text));
	CHECK_STR(text, "dynsym, gnu_debugdata");
	dso_cache_free(o.cache);
}

TEST(libc_has_lines_and_inlined_functions_by_its_debug_file)
{
	struct opened o;
	struct frame frames[8];
	char text[512];

	REQUIRE(open_path(&o, LIBC));
	dso_describe_symbols(o.dso, text, sizeof(text));
	if (strstr(text, "/.build-id/") == NULL) {
		dso_cache_free(o.cache);
		SKIP("libc6-dbg is not installed");
	}
	/* addr2line reads the same debug file with another library. */
	const struct dso_symbol *sym = dso_find_symbol(o.dso, "pthread_create");
	size_t nr_same = 0, nr = 0;

	REQUIRE(sym != NULL);
	for (uint64_t at = sym->vaddr; at < sym->vaddr + MIN(sym->size, 400); at += 37, nr++) {
		char command[256], function[256], place[512];
		size_t want = 0, same = 0;

		snprintf(command, sizeof(command), "addr2line -fie " LIBC " %#" PRIx64, at);
		FILE *addr2line = popen(command, "r");
		REQUIRE(addr2line != NULL);
		size_t got = dso_resolve(o.dso, at, frames, 8);
		while (fscanf(addr2line, "%255s %511[^\n]", function, place) == 2) {
			const char *colon = strrchr(place, ':');

			same += want < got && colon != NULL &&
			        (uint32_t)atoi(colon + 1) == frames[want].line &&
			        (want + 1 == got || strcmp(frames[want].name, function) == 0);
			want++;
		}
		pclose(addr2line);
		nr_same += want == got && same == got;
	}
	CHECK_EQ(nr_same, nr);
	dso_cache_free(o.cache);
}

TEST(a_file_without_section_headers)
{
	struct opened o;
	uint64_t start, end, addr;
	FILE *f;

	REQUIRE(build() && run("cp stripped.so bare.so"));
	addr = truth_of_local_fn("full.so");
	f = fopen(in_dir("bare.so"), "r+");
	REQUIRE(f != NULL);
	/* As `strip --strip-section-headers` of newer binutils does it. */
	fseek(f, offsetof(Elf64_Ehdr, e_shoff), SEEK_SET);
	fwrite(&(uint64_t){0}, 8, 1, f);
	fseek(f, offsetof(Elf64_Ehdr, e_shnum), SEEK_SET);
	fwrite(&(uint32_t){0}, 4, 1, f);
	fclose(f);
	REQUIRE(open_path(&o, in_dir("bare.so")));
	const struct dso_symbol *sym = dso_find_symbol(o.dso, "exported_fn");
	REQUIRE(sym != NULL);
	CHECK(dso_function_at(o.dso, sym->vaddr) == sym);
	CHECK(dso_fde_at(o.dso, addr, &start, &end));
	CHECK_EQ(start, addr);
	CHECK(dso_build_id(o.dso)[0] != '\0');
	dso_cache_free(o.cache);
}

/* clang writes no .debug_aranges. */
TEST(lines_do_not_need_aranges)
{
	struct opened o;
	struct frame frames[4];

	REQUIRE(build() && run("objcopy --remove-section=.debug_aranges full.so noaranges.so"));
	REQUIRE(open_path(&o, in_dir("noaranges.so")));
	const struct dso_symbol *sym = dso_find_symbol(o.dso, "exported_fn");
	REQUIRE(sym != NULL);
	REQUIRE(dso_resolve(o.dso, sym->vaddr, frames, 4) == 1);
	CHECK_EQ(frames[0].line, 14);
	dso_cache_free(o.cache);
}

/* ---- broken files
 * ----------------------------------------------------------------------------------- */

/* All that can be asked of a file; what comes back doesn't matter, but that it does. */
static void query_all(const char *path)
{
	struct dso_cache *cache;
	struct dso *dso;
	struct err err;
	struct frame frames[8];
	char text[256], bytes[64];
	uint64_t a, b;

	if (dso_cache_new(&cache) != 0)
		return;
	if (dso_cache_get_path(cache, path, &dso, &err) == 0) {
		dso_describe_symbols(dso, text, sizeof(text));
		dso_is_executable(dso);
		dso_unwind_table(dso, &err);
		for (uint64_t at = 0; at < 0x5000; at += 0xe5) {
			dso_function_at(dso, at);
			dso_fde_at(dso, at, &a, &b);
			dso_offset_of_vaddr(dso, at, &a);
			dso_read(dso, at, bytes, sizeof(bytes));
			dso_resolve(dso, at, frames, 8);
		}
		dso_find_symbol(dso, "exported_fn");
	}
	dso_cache_free(cache);
}

struct image {
	unsigned char *data;
	size_t size;
	int fd;
	char path[64];
};

static bool image_open(struct image *im, const char *path)
{
	FILE *f = fopen(path, "r");
	struct stat st;

	if (f == NULL || fstat(fileno(f), &st) != 0)
		return false;
	im->size = (size_t)st.st_size;
	im->data = malloc(im->size);
	im->fd = memfd_create("broken", 0);
	snprintf(im->path, sizeof(im->path), "/proc/self/fd/%d", im->fd);
	bool ok = fread(im->data, 1, im->size, f) == im->size && im->fd >= 0;
	fclose(f);
	return ok;
}

static void image_query(const struct image *im, size_t size)
{
	if (ftruncate(im->fd, (off_t)size) == 0 &&
	        pwrite(im->fd, im->data, size, 0) == (ssize_t)size)
		query_all(im->path);
}

static void image_close(struct image *im)
{
	free(im->data);
	close(im->fd);
}

TEST(a_file_cut_off_anywhere_does_no_harm)
{
	struct image im;

	REQUIRE(build() && image_open(&im, in_dir("full.so")));
	for (size_t size = 0; size < im.size; size += size < 1024 ? 13 : 397)
		image_query(&im, size);
	image_close(&im);
}

TEST(a_file_with_bytes_changed_anywhere_does_no_harm)
{
	static const unsigned char values[] = {0x00, 0xff, 0x7f, 0x80};
	Elf64_Ehdr eh;
	struct image im;
	uint64_t seed = 12345;

	REQUIRE(build() && image_open(&im, in_dir("full.so")));
	memcpy(&eh, im.data, sizeof(eh));
	/* Each byte of the ELF header, of the program headers and of the section headers; then
	 * random ones. */
	size_t nr_phdr = eh.e_phoff + (size_t)eh.e_phnum * eh.e_phentsize,
	       nr_shdr = (size_t)eh.e_shnum * eh.e_shentsize, nr = nr_phdr + nr_shdr + 600;

	for (size_t i = 0; i < nr; i++) {
		size_t at = i < nr_phdr ? i : eh.e_shoff + (i - nr_phdr);

		if (i >= nr_phdr + nr_shdr) {
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			at = (seed >> 33) % im.size;
		}
		unsigned char old = im.data[at];

		im.data[at] = values[i % 4] == old ? 0x55 : values[i % 4];
		image_query(&im, im.size);
		im.data[at] = old;
	}
	image_close(&im);
}

/* What stands at a path is not what was mapped: the links of /proc lead nowhere for a process that
 * is not there. */
static const char *mapped_text;

static int read_mapped(const struct target *t, uint64_t addr, void *out, size_t n)
{
	memcpy(out, mapped_text, n);
	return 0;
}

TEST(a_file_that_took_the_place_of_the_mapped_one_is_not_it)
{
	struct target t = {.pid = 0, .pidfd = -1, .read = read_mapped};
	struct mapping m = {
	        .start = 0x10000, .end = 0x12000, .prot = MAPS_PROT_READ | MAPS_PROT_EXEC};
	static char text[4096];
	struct dso_cache *cache;
	struct err err = {0};
	struct dso *dso;
	FILE *f;

	REQUIRE(build() && run("cp full.so place.so") && dso_cache_new(&cache) == 0);
	m.path = in_dir("place.so");
	f = fopen(m.path, "r");
	REQUIRE(f != NULL && fread(text, 1, sizeof(text), f) == sizeof(text));
	fclose(f);
	mapped_text = text;
	CHECK_EQ(dso_cache_get(cache, &t, &m, &dso, &err), 0);
	text[4095]++;
	CHECK_EQ(dso_cache_get(cache, &t, &m, &dso, &err), -ENOENT);
	CHECK(strstr(err.msg, "replaced") != NULL);
	dso_cache_free(cache);
}

TEST(a_file_that_was_written_anew_is_another)
{
	struct dso_cache *cache;
	struct dso *a, *b, *c;

	/* The same file, of the same size. */
	REQUIRE(build() && run("cp noid.so anew.so && touch -d @1000000000 anew.so") &&
	        dso_cache_new(&cache) == 0);
	REQUIRE(dso_cache_get_path(cache, in_dir("anew.so"), &a, NULL) == 0);
	REQUIRE(dso_cache_get_path(cache, in_dir("anew.so"), &b, NULL) == 0);
	CHECK(a == b);
	REQUIRE(run("sed 's/exported_fn/imported_fn/g' noid.so >tmp && cat tmp >anew.so && "
	            "touch -d @1000000001 anew.so"));
	REQUIRE(dso_cache_get_path(cache, in_dir("anew.so"), &c, NULL) == 0);
	CHECK(a != c);
	CHECK(dso_find_symbol(c, "imported_fn") != NULL);
	CHECK(dso_find_symbol(c, "exported_fn") == NULL);
	dso_cache_free(cache);
}

TEST(a_build_id_is_no_proof_that_two_files_are_laid_out_alike)
{
	struct dso_cache *cache;
	struct dso *a, *b;

	REQUIRE(build() &&
	        run("cc -O2 -fPIC -shared -Wl,--build-id=0x1234567890abcdef -o one.so lib.c && "
	            "cc -O0 -g -fPIC -shared -Wl,-z,noseparate-code "
	            "-Wl,--build-id=0x1234567890abcdef "
	            "-o two.so lib.c") &&
	        dso_cache_new(&cache) == 0);
	REQUIRE(dso_cache_get_path(cache, in_dir("one.so"), &a, NULL) == 0);
	REQUIRE(dso_cache_get_path(cache, in_dir("two.so"), &b, NULL) == 0);
	CHECK_STR(dso_build_id(a), dso_build_id(b));
	CHECK(a != b);
	dso_cache_free(cache);
}

TEST(a_debug_file_of_another_build_gives_no_names)
{
	struct opened o;

	REQUIRE(build() &&
	        run("mkdir -p ids && cd ids && "
	            "cc -g -O2 -fPIC -shared -Wl,--build-id=0x1111222233334444 -o a.so ../lib.c && "
	            "cc -g -O2 -fPIC -shared -Wl,--build-id=0x1111222233335555 -o b.so ../lib.c && "
	            "objcopy --only-keep-debug a.so a.debug && strip a.so && "
	            "objcopy --add-gnu-debuglink=a.debug a.so && "
	            "cp a.so stranger.so && cp a.debug right.debug"));
	REQUIRE(open_path(&o, in_dir("ids/a.so")));
	CHECK(dso_find_symbol(o.dso, "local_fn") != NULL);
	dso_cache_free(o.cache);
	REQUIRE(run("cd ids && objcopy --only-keep-debug b.so a.debug"));
	REQUIRE(open_path(&o, in_dir("ids/stranger.so")));
	CHECK(dso_find_symbol(o.dso, "local_fn") == NULL);
	dso_cache_free(o.cache);
}

/* The other half of split debug information is a file that the file names: any. */
TEST(debug_information_opens_no_file_that_it_names)
{
	char events[4096];
	struct frame frames[8];
	struct opened o;
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), fifo;

	REQUIRE(build() && run("cc -g -gsplit-dwarf -O2 -fPIC -shared -o split.so lib.c && "
	                       "rm -f *.dwo && mkfifo split.so-lib.dwo"));
	/* With a writer, so that who opens it does not wait. */
	fifo = open(in_dir("split.so-lib.dwo"), O_RDWR | O_CLOEXEC);
	REQUIRE(fifo >= 0 && inotify_add_watch(watch, in_dir("split.so-lib.dwo"), IN_OPEN) >= 0);
	REQUIRE(open_path(&o, in_dir("split.so")));
	for (uint64_t vaddr = 0x1000; vaddr < 0x1200; vaddr += 4)
		CHECK(dso_resolve(o.dso, vaddr, frames, 8) >= 1);
	CHECK(read(watch, events, sizeof(events)) < 0 && errno == EAGAIN);
	dso_cache_free(o.cache);
	close(fifo);
	close(watch);
}

int main(int argc, char **argv)
{
	if (mkdtemp(dir) == NULL)
		return 1;
	int rc = tap_run(argc, argv);

	run("rm -rf %s", dir);
	return rc;
}
