/*
 * The decoders on real code: the libruby of each Ruby of tests/rubies.list. The truth is .dynsym
 * (3.1 exports what 3.3 hides) and the layout table.
 */
#include "runtimes/ruby/ruby_decode.h"
#include "runtimes/ruby/ruby_layout.h"
#include "runtimes/ruby/ruby_runtime.h"
#include "tests/unit/rubies.h"
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct lib {
	const uint8_t *data;
	size_t sz;
};

/* False: it is not here, and the test is skipped. */
static bool lib_open(struct lib *lib, const char *version)
{
	struct test_ruby ruby;
	struct stat st;
	int fd;

	if (!test_ruby_find(version, &ruby))
		return false;
	fd = open(ruby.libruby, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) != 0) {
		TAP_FAIL("%s cannot be read", ruby.libruby);
		return false;
	}
	lib->sz = (size_t)st.st_size;
	lib->data = mmap(NULL, lib->sz, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	return lib->data != MAP_FAILED;
}

static const Elf64_Sym *lib_symbol(const struct lib *lib, const char *name)
{
	const Elf64_Ehdr *eh = (const void *)lib->data;
	const Elf64_Shdr *sh = (const void *)(lib->data + eh->e_shoff);

	for (int i = 0; i < eh->e_shnum; i++) {
		const Elf64_Sym *sym = (const void *)(lib->data + sh[i].sh_offset);
		const char *str = (const char *)lib->data + sh[sh[i].sh_link].sh_offset;

		if (sh[i].sh_type != SHT_DYNSYM)
			continue;
		for (size_t k = 0; k < sh[i].sh_size / sizeof(*sym); k++)
			if (sym[k].st_shndx != 0 && strcmp(str + sym[k].st_name, name) == 0)
				return &sym[k];
	}
	return NULL;
}

/* The bytes at a vaddr, through the PT_LOAD segments. */
static const uint8_t *lib_code(const struct lib *lib, uint64_t vaddr)
{
	const Elf64_Ehdr *eh = (const void *)lib->data;
	const Elf64_Phdr *ph = (const void *)(lib->data + eh->e_phoff);

	for (int i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && vaddr >= ph[i].p_vaddr &&
		        vaddr < ph[i].p_vaddr + ph[i].p_filesz)
			return lib->data + (vaddr - ph[i].p_vaddr + ph[i].p_offset);
	return NULL;
}

/* The relocation of a GOT word: its symbol's name, or NULL. */
static const char *lib_reloc(const struct lib *lib, uint64_t vaddr, unsigned int *type)
{
	const Elf64_Ehdr *eh = (const void *)lib->data;
	const Elf64_Shdr *sh = (const void *)(lib->data + eh->e_shoff);

	for (int i = 0; i < eh->e_shnum; i++) {
		const Elf64_Rela *rela = (const void *)(lib->data + sh[i].sh_offset);

		if (sh[i].sh_type != SHT_RELA)
			continue;
		for (size_t k = 0; k < sh[i].sh_size / sizeof(*rela); k++) {
			const Elf64_Shdr *syms = &sh[sh[i].sh_link];
			const Elf64_Sym *sym = (const void *)(lib->data + syms->sh_offset);

			if (rela[k].r_offset != vaddr)
				continue;
			*type = ELF64_R_TYPE(rela[k].r_info);
			return (const char *)lib->data + sh[syms->sh_link].sh_offset +
			       sym[ELF64_R_SYM(rela[k].r_info)].st_name;
		}
	}
	return NULL;
}

#define CODE(lib, name)                                                                            \
	lib_code(lib, lib_symbol(lib, name)->st_value), 256, lib_symbol(lib, name)->st_value

static void check_agrees_with_table(const char *version)
{
	const struct ruby_layout *l;
	struct ruby_gc_code gc, count;
	struct ruby_ec_code ec, err;
	struct ruby_id_code id;
	const Elf64_Sym *sym;
	struct lib lib;
	uint64_t ids;
	int32_t buffer;

	if (!lib_open(&lib, version))
		return;
	sym = lib_symbol(&lib, "ruby_version");
	REQUIRE(sym != NULL);
	l = ruby_layout_find(ruby_version_parse((const char *)lib_code(&lib, sym->st_value)));
	REQUIRE(l != NULL);

	REQUIRE(ruby_decode_ec(CODE(&lib, "rb_thread_current"), &ec));
	CHECK_EQ(ec.form, RUBY_TLS_GD);
	CHECK_EQ(ec.nr_fields, 2);
	CHECK_EQ(ec.field[0], l->ec.thread_ptr);
	CHECK_EQ(ec.field[1], l->thread.self);
	REQUIRE(ruby_decode_ec(CODE(&lib, "rb_errinfo"), &err));
	CHECK_EQ(err.slot, ec.slot);
	CHECK_EQ(err.field[0], l->ec.errinfo);

	REQUIRE(ruby_decode_during_gc(CODE(&lib, "rb_during_gc"), &gc));
	CHECK_EQ(gc.objspace, l->vm.objspace);
	CHECK_EQ(gc.field, l->objspace.flags);
	CHECK_EQ(gc.bit, 5);
	REQUIRE(ruby_decode_gc_count(CODE(&lib, "rb_gc_count"), &count));
	CHECK_EQ(count.vm_ptr, gc.vm_ptr);
	CHECK_EQ(count.objspace, gc.objspace);
	CHECK_EQ(count.field, l->objspace.gc_count);

	REQUIRE(ruby_decode_gvl(CODE(&lib, "ruby_thread_has_gvl_p"), &buffer));
	CHECK_EQ(buffer, l->thread.blocking_region_buffer);

	REQUIRE(ruby_decode_id2str(CODE(&lib, "rb_id2str"), &id));
	CHECK_EQ(id.last_op_id, l->last_op_id);
	REQUIRE(id.lookup != 0);
	REQUIRE(ruby_decode_ids(lib_code(&lib, id.lookup), 512, id.lookup, &ids));
	/* rb_sym_all_symbols loads the word 8 bytes before ids from the same structure. */
	CHECK(ids % 8 == 0);
}

#define OF_RUBY(id, version)                                                                       \
	TEST(code_of_ruby_##id##_agrees_with_its_layout_row)                                       \
	{                                                                                          \
		check_agrees_with_table(version);                                                  \
	}
RUBIES(OF_RUBY)

TEST(slots_decoded_from_3_1_are_those_that_its_relocations_name)
{
	struct ruby_gc_code gc;
	struct ruby_ec_code ec;
	unsigned int type;
	struct lib lib;

	if (!lib_open(&lib, "3.1"))
		return;
	REQUIRE(ruby_decode_ec(CODE(&lib, "rb_thread_current"), &ec));
	CHECK_STR(lib_reloc(&lib, ec.slot, &type), "ruby_current_ec");
	CHECK_EQ(type, R_X86_64_DTPMOD64);
	REQUIRE(ruby_decode_during_gc(CODE(&lib, "rb_during_gc"), &gc));
	CHECK(gc.vm_ptr_is_got);
	CHECK_STR(lib_reloc(&lib, gc.vm_ptr, &type), "ruby_current_vm_ptr");
}

TEST(a_spilled_value_is_followed)
{
	/* 4.0: mov %fs:-8,%rax; mov %rax,-8(%rsp); mov -8(%rsp),%rax; mov 0x30(%rax),%rax; mov
	 * 0x10(%rax),%rax; ret */
	static const uint8_t code[] = {0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff, 0x48,
	        0x89, 0x44, 0x24, 0xf8, 0x48, 0x8b, 0x44, 0x24, 0xf8, 0x48, 0x8b, 0x40, 0x30, 0x48,
	        0x8b, 0x40, 0x10, 0xc3};
	struct ruby_ec_code ec;

	REQUIRE(ruby_decode_ec(code, sizeof(code), 0x1000, &ec));
	CHECK_EQ(ec.form, RUBY_TLS_LE);
	CHECK_EQ(ec.tp_off, -8);
	CHECK_EQ(ec.field[0], 0x30);
	CHECK_EQ(ec.field[1], 0x10);
}

TEST(an_initial_exec_access_is_known)
{
	/* mov 0x100(%rip),%rax; mov %fs:(%rax),%rax; mov 0x30(%rax),%rax; mov 0x10(%rax),%rax; ret
	 */
	static const uint8_t code[] = {0x48, 0x8b, 0x05, 0x00, 0x01, 0x00, 0x00, 0x64, 0x48, 0x8b,
	        0x00, 0x48, 0x8b, 0x40, 0x30, 0x48, 0x8b, 0x40, 0x10, 0xc3};
	struct ruby_ec_code ec;

	REQUIRE(ruby_decode_ec(code, sizeof(code), 0x1000, &ec));
	CHECK_EQ(ec.form, RUBY_TLS_IE);
	CHECK_EQ(ec.slot, 0x1107);
	CHECK_EQ(ec.field[0], 0x30);
}

TEST(code_that_is_cut_anywhere_is_refused)
{
	struct ruby_ec_code ec;
	struct lib lib;

	if (!lib_open(&lib, "3.1"))
		return;
	/* The function is 36 bytes; its ret is the last. */
	for (size_t n = 0; n < 36; n++)
		CHECK(!ruby_decode_ec(
		        lib_code(&lib, lib_symbol(&lib, "rb_thread_current")->st_value), n, 0x1000,
		        &ec));
}

TEST(the_call_of_a_c_function_is_known_by_its_two_loads)
{
	static const uint8_t text[] = {
	        0x48, 0x8b, 0x4b, 0x08,             /* mov 0x8(%rbx),%rcx */
	        0x89, 0xc6,                         /* mov %eax,%esi */
	        0xff, 0x53, 0x10,                   /* call *0x10(%rbx): ends at 9 */
	        0x49, 0x8b, 0x4c, 0x24, 0x08,       /* mov 0x8(%r12),%rcx */
	        0x41, 0xff, 0x54, 0x24, 0x10,       /* call *0x10(%r12): ends at 19 */
	        0x48, 0x8b, 0x4d, 0x08, 0xff, 0x53, /* mov 0x8(%rbp),%rcx; */
	        0x10,                               /* call *0x10(%rbx): of another register */
	};
	uint64_t sites[4];

	REQUIRE(ruby_call_sites_decode(text, sizeof(text) - 7, sites, 4) == 2);
	CHECK_EQ(sites[0], 9);
	CHECK_EQ(sites[1], 19);
	CHECK_EQ(ruby_call_sites_decode(text, sizeof(text), sites, 1), 1);
	CHECK_EQ(ruby_call_sites_decode(text + 4, 5, sites, 4), 0); /* no load before it */
	CHECK_EQ(ruby_call_sites_decode(text + 19, 7, sites, 4), 0);
	for (size_t n = 0; n < 9; n++)
		CHECK_EQ(ruby_call_sites_decode(text, n, sites, 4), 0);
}

TEST(any_bytes_are_survived)
{
	uint64_t x = 88172645463325252ULL;
	struct ruby_gc_code gc;
	struct ruby_ec_code ec;
	struct ruby_id_code id;
	uint64_t ids;
	uint8_t code[48];

	for (int round = 0; round < 20000; round++) {
		for (size_t i = 0; i < sizeof(code); i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			code[i] = (uint8_t)x;
		}
		code[0] = round & 1 ? 0x48 : code[0];
		code[1] = round & 1 ? 0x8b : code[1];
		ruby_decode_ec(code, sizeof(code), x, &ec);
		ruby_decode_during_gc(code, sizeof(code), x, &gc);
		ruby_decode_id2str(code, sizeof(code), x, &id);
		ruby_decode_ids(code, sizeof(code), x, &ids);
	}
	CHECK(true);
}

#define RUN(out, ...)                                                                              \
	ruby_decode_run((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}),    \
	        0x1000, out)

/* What is returned is known only if it is. */
TEST(a_value_that_a_call_an_index_or_another_register_made_is_not_known)
{
	struct ruby_run run;

	RUN(&run, 0x48, 0x8b, 0x47, 0x08, 0xc3); /* mov 0x8(%rdi),%rax; ret */
	CHECK(run.returned);
	CHECK_EQ(run.result.base, RUBY_BASE_ARG);
	REQUIRE(run.result.nr_loads == 1);
	CHECK_EQ(run.result.load[0], 8);
	/* mov (%rdi,%rsi,8),%rax */
	RUN(&run, 0x48, 0x8b, 0x04, 0xf7, 0xc3);
	CHECK(run.returned);
	CHECK_EQ(run.result.base, RUBY_BASE_UNKNOWN);
	/* mov %rdi,%rax; mov 0x8(%r8),%rax */
	RUN(&run, 0x48, 0x89, 0xf8, 0x49, 0x8b, 0x40, 0x08, 0xc3);
	CHECK(run.returned);
	CHECK_EQ(run.result.base, RUBY_BASE_UNKNOWN);
	/* mov %rdi,%rsi; call; mov %rsi,%rax */
	RUN(&run, 0x48, 0x89, 0xfe, 0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xf0, 0xc3);
	CHECK(run.returned);
	CHECK_EQ(run.result.base, RUBY_BASE_UNKNOWN);
	/* mov %rdi,%rbx; call; mov %rbx,%rax: that one is kept */
	RUN(&run, 0x48, 0x89, 0xfb, 0xe8, 0, 0, 0, 0, 0x48, 0x89, 0xd8, 0xc3);
	CHECK(run.returned);
	CHECK_EQ(run.result.base, RUBY_BASE_ARG);
}

TEST(an_address_beside_the_pc_counts_from_the_end_of_the_instruction)
{
	struct ruby_run run;

	/* cmpl $0x7,0x100(%rip): an immediate stands behind the displacement */
	RUN(&run, 0x83, 0x3d, 0x00, 0x01, 0x00, 0x00, 0x07, 0xc3);
	REQUIRE(run.nr_seen == 1);
	CHECK_EQ(run.seen[0], 0x1000 + 7 + 0x100);
	/* lea 0x100(%rip),%rax */
	RUN(&run, 0x48, 0x8d, 0x05, 0x00, 0x01, 0x00, 0x00, 0xc3);
	CHECK_EQ(run.result.base, RUBY_BASE_ADDR);
	CHECK_EQ(run.result.addr + (uint64_t)run.result.add, 0x1000 + 7 + 0x100);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
