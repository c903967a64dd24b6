/* What addresses are, looked up in this very program with a runtime that is made up. */
#include "record/address.h"
#include "symbolizer/kallsyms.h"
#include "tests/unit/failing_alloc.h"
#include "tests/unit/record_fixture.h"
#include "tests/unit/tap.h"

#include <sys/mman.h>

static struct runtime rt;
static struct process *process;
static struct addresses addresses;

/* Code to look up. */
int looked_up(int x);
__attribute__((noinline, used)) int looked_up(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3 + 1;
}

static void start(bool interpreted)
{
	rt = (struct runtime){0};
	process = process_made(interpreted ? &rt : NULL);
	addresses_init(&addresses, process);
}

static void end(void)
{
	addresses_release(&addresses);
	process_made_free(process);
}

/* One address as a record has it. */
static struct address *look_up(uint64_t frame)
{
	struct address *at = NULL;

	if (addresses_find(&addresses, &frame, 1, &at) != 0)
		abort();
	return at;
}

static uint64_t in_code(void)
{
	return (uint64_t)(uintptr_t)looked_up;
}

static struct dso *dso_of(uint64_t addr)
{
	const struct mapping *m = maps_find(&process->maps, addr);

	return m != NULL ? process_mapping(process, m)->dso : NULL;
}

TEST(a_function_of_a_file_has_its_name_and_bounds)
{
	const struct address *at;

	start(false);
	at = look_up((in_code() + 2) | NATIVE_INTERRUPTED);
	CHECK(at->known);
	CHECK_EQ(at->nr_frames, 1);
	CHECK_STR(at->frames[0].frame.name, "looked_up");
	CHECK_EQ(at->frames[0].frame.kind, FRAME_NATIVE);
	CHECK_EQ(at->frames[0].frame.role, ROLE_PROGRAM);
	CHECK_EQ(at->frames[0].frame.addr, in_code() + 2);
	CHECK_EQ(at->frames[0].frame.func_addr, in_code());
	CHECK_EQ(at->stitch.func_addr, in_code());
	CHECK(at->frames[0].frame.library != NULL && at->frames[0].frame.build_id != NULL);
	CHECK_EQ(at->frames[0].id, 0);
	CHECK(!at->stitch.runtime && !at->stitch.enters_gc && at->stitch.role == STITCH_PLAIN);
	end();
}

TEST(a_return_address_belongs_to_the_call_before_it)
{
	start(false);
	CHECK_STR(look_up(in_code() | NATIVE_INTERRUPTED)->frames[0].frame.name, "looked_up");
	CHECK(strcmp(look_up(in_code())->frames[0].frame.name, "looked_up") != 0);
	CHECK_EQ(look_up(in_code() + 1)->frames[0].frame.addr, in_code());
	CHECK_STR(look_up(in_code() + 1)->frames[0].frame.name, "looked_up");
	end();
}

TEST(a_library_is_one)
{
	start(false);
	CHECK_EQ(look_up((uint64_t)(uintptr_t)qsort | NATIVE_INTERRUPTED)->frames[0].frame.role,
	        ROLE_LIB);
	end();
}

TEST(what_lies_in_no_mapping_is_unknown)
{
	const struct address *at;

	start(true);
	at = look_up(0x1000);
	CHECK(!at->known);
	CHECK_EQ(at->nr_frames, 1);
	CHECK_STR(at->frames[0].frame.name, "[unknown]");
	CHECK_EQ(at->frames[0].frame.role, ROLE_NONE);
	/* Memory that cannot run is no code. */
	CHECK(!look_up((uint64_t)(uintptr_t)&rt)->known);
	end();
}

TEST(executable_memory_without_a_file_is_a_jits)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t addr = (uint64_t)(uintptr_t)page + 16;

	REQUIRE(page != MAP_FAILED);
	start(true);
	CHECK(look_up(addr)->known);
	CHECK_STR(look_up(addr)->frames[0].frame.name, "[jit]");
	CHECK_EQ(look_up(addr)->frames[0].frame.role, ROLE_JIT);
	CHECK_EQ(look_up(addr)->stitch.role, STITCH_JIT);
	end();
	/* Of a process without an interpreter it calls nobody's methods. */
	start(false);
	CHECK_STR(look_up(addr)->frames[0].frame.name, "[jit]");
	CHECK_EQ(look_up(addr)->stitch.role, STITCH_PLAIN);
	end();
	munmap(page, 4096);
}

TEST(a_jits_code_need_not_be_executable_at_the_moment)
{
	/* In a file's mapping, too. */
	static int initialized = 5;

	start(true);
	rt.jit_lo = (uint64_t)(uintptr_t)&initialized;
	rt.jit_hi = rt.jit_lo + 64;
	CHECK(look_up(rt.jit_lo + 8)->known);
	CHECK_STR(look_up(rt.jit_lo + 8)->frames[0].frame.name, "[jit]");
	CHECK_EQ(look_up(rt.jit_lo + 8)->stitch.role, STITCH_JIT);
	end();
}

TEST(a_file_that_cannot_be_read_has_no_names)
{
	static const char text[] = "10000-20000 r-xp 00000000 00:00 0 [vsyscall]\n";

	start(true);
	CHECK_EQ(maps_parse(&process->maps, text, sizeof(text) - 1, NULL), 0);
	CHECK(look_up(0x10010)->known);
	CHECK_STR(look_up(0x10010)->frames[0].frame.name, "[unknown]");
	CHECK_EQ(look_up(0x10010)->frames[0].frame.role, ROLE_LIB);
	CHECK_EQ(look_up(0x10010)->frames[0].frame.library, NULL);
	end();
}

TEST(the_interpreters_own_code_is_told)
{
	const struct address *at;

	start(true);
	rt.dso = dso_of(in_code());
	rt.entry = in_code();
	rt.gc_entry = in_code();
	rt.native_name = "the loop";
	at = look_up((in_code() + 2) | NATIVE_INTERRUPTED);
	CHECK_EQ(at->frames[0].frame.role, ROLE_VM);
	CHECK_EQ(at->stitch.role, STITCH_ENTRY);
	CHECK(at->stitch.runtime);
	CHECK(at->stitch.enters_gc);
	/* It has a name, so it needs none. */
	CHECK_STR(at->frames[0].frame.name, "looked_up");
	end();
}

TEST(code_without_a_symbol_is_called_by_what_it_is)
{
	const struct mapping *m;
	uint64_t bias = 0, addr = 0, start_vaddr, end_vaddr;
	struct dso *dso;

	start(true);
	m = maps_find(&process->maps, (uint64_t)(uintptr_t)qsort);
	REQUIRE(m != NULL);
	dso = dso_of(m->start);
	REQUIRE(dso != NULL && dso_load_bias(dso, m, &bias));
	for (uint64_t at = m->start; at < m->end && addr == 0; at += 16)
		if (dso_fde_at(dso, at - bias, &start_vaddr, &end_vaddr) &&
		        start_vaddr == at - bias && dso_function_at(dso, start_vaddr) == NULL)
			addr = at;
	if (addr == 0) {
		end();
		SKIP("libc has a symbol for each function here");
	}
	CHECK(strstr(look_up(addr | NATIVE_INTERRUPTED)->frames[0].frame.name, "+0x") != NULL);
	rt.native_name = "the loop";
	process->generation++;
	CHECK(strstr(look_up(addr | NATIVE_INTERRUPTED)->frames[0].frame.name, "+0x") != NULL);
	/* Once it is the interpreter's. */
	rt.dso = dso;
	process->generation++;
	for (size_t i = 0; i < process->maps.nr; i++)
		process->mapped[i].has_role = false;
	CHECK_STR(look_up(addr | NATIVE_INTERRUPTED)->frames[0].frame.name, "the loop");
	end();
}

TEST(an_extension_is_no_library)
{
	const struct address *at;

	start(true);
	rt.ext = dso_of((uint64_t)(uintptr_t)qsort);
	at = look_up((uint64_t)(uintptr_t)qsort | NATIVE_INTERRUPTED);
	CHECK_EQ(at->frames[0].frame.role, ROLE_EXT);
	CHECK(!at->stitch.runtime);
	/* A file is asked about once. */
	look_up((uint64_t)(uintptr_t)qsort + 4);
	CHECK_EQ(rt.nr_extensions, 1);
	end();
}

/* ---- what is remembered -----------------------------------------------------------------------
 */

TEST(an_address_is_looked_up_once)
{
	uint64_t frames[] = {in_code() | NATIVE_INTERRUPTED, in_code() + 4, in_code() + 4};
	struct address *at[3], *again[3];

	start(true);
	CHECK_EQ(addresses_find(&addresses, frames, 3, at), 0);
	CHECK_EQ(rt.nr_roles, 2);
	at[1]->frames[0].id = 5;
	CHECK_EQ(addresses_find(&addresses, frames, 3, again), 0);
	CHECK_EQ(rt.nr_roles, 2);
	CHECK(at[0] == again[0] && at[1] == again[1] && at[1] == at[2] && at[0] != at[1]);
	CHECK_EQ(again[2]->frames[0].id, 5);
	end();
}

TEST(where_it_was_interrupted_an_address_is_another)
{
	start(true);
	CHECK(look_up(in_code() + 4) != look_up((in_code() + 4) | NATIVE_INTERRUPTED));
	end();
}

TEST(when_something_has_changed_it_is_looked_up_again)
{
	start(true);
	look_up(in_code() + 4)->frames[0].id = 5;
	process->generation++;
	CHECK_EQ(look_up(in_code() + 4)->frames[0].id, 0);
	CHECK_EQ(rt.nr_roles, 2);
	end();
}

/* ---- where the interpreter calls C functions
 * ------------------------------------------------------ */

TEST(the_sites_are_those_of_the_interpreter_that_runs)
{
	struct runtime other = {.sites = {0x77}, .nr_sites = 1};

	start(true);
	rt.sites[0] = in_code() + 4;
	rt.nr_sites = 1;
	CHECK_EQ(addresses_find(&addresses, NULL, 0, NULL), 0);
	CHECK_EQ(addresses.sites.nr, 1);
	CHECK(addresses.sites.complete);
	CHECK_EQ(addresses.sites.addr[0], in_code() + 4);
	CHECK_EQ(addresses.sites.func_addr[0], in_code());
	/* An exec: none, and then those of another. */
	process->ops = NULL;
	process->rt = NULL;
	process->generation++;
	CHECK_EQ(addresses_find(&addresses, NULL, 0, NULL), 0);
	CHECK_EQ(addresses.sites.nr, 0);
	CHECK(!addresses.sites.complete);
	process->ops = &toy_ops;
	process->rt = &other;
	process->generation++;
	CHECK_EQ(addresses_find(&addresses, NULL, 0, NULL), 0);
	CHECK_EQ(addresses.sites.addr[0], 0x77);
	CHECK_EQ(addresses.sites.func_addr[0], 0);
	end();
}

TEST(sites_that_were_learnt_outlive_a_change_of_the_mappings)
{
	start(true);
	CHECK_EQ(addresses_find(&addresses, NULL, 0, NULL), 0);
	CHECK(!addresses.sites.complete);
	addresses.sites.addr[0] = 0x55;
	addresses.sites.nr = 1;
	process->generation++;
	CHECK_EQ(addresses_find(&addresses, NULL, 0, NULL), 0);
	CHECK_EQ(addresses.sites.nr, 1);
	CHECK_EQ(addresses.sites.addr[0], 0x55);
	end();
}

/* ---- the kernel
 * ---------------------------------------------------------------------------------- */

TEST(kernel_addresses_without_symbols_are_their_names)
{
	uint64_t pcs[] = {0xffffffff81000010, 0xffffffff81000010};
	struct address *at[2];

	addresses_init_kernel(&addresses, NULL);
	CHECK_EQ(addresses_find(&addresses, pcs, 2, at), 0);
	CHECK_STR(at[0]->frames[0].frame.name, "[kernel]+0xffffffff81000010");
	CHECK_EQ(at[0]->frames[0].frame.addr, pcs[0]);
	/* But for the leaf they are return addresses. */
	CHECK_STR(at[1]->frames[0].frame.name, "[kernel]+0xffffffff8100000f");
	CHECK_EQ(at[1]->frames[0].frame.kind, FRAME_KERNEL);
	CHECK_STR(at[1]->frames[0].frame.library, "[kernel]");
	CHECK(at[0]->known);
	addresses_release(&addresses);
}

TEST(kernel_addresses_have_the_kernels_names)
{
	static const char text[] = "ffffffff81000000 T first\nffffffff81000100 T second\n"
	                           "ffffffffc0000000 t in_module\t[toys]\n"
	                           "ffffffffc0000100 t end_of_it\t[toys]\n";
	struct kallsyms *kallsyms = NULL;
	uint64_t pcs[] = {0xffffffff81000110, 0xffffffff81000100, 0xffffffffc0000020};
	struct address *at[3];

	REQUIRE(kallsyms_parse(&kallsyms, text, sizeof(text) - 1, NULL) == 0);
	addresses_init_kernel(&addresses, kallsyms);
	CHECK_EQ(addresses_find(&addresses, pcs, 3, at), 0);
	CHECK_STR(at[0]->frames[0].frame.name, "second");
	CHECK_EQ(at[0]->frames[0].frame.func_addr, 0xffffffff81000100);
	CHECK_STR(at[0]->frames[0].frame.library, "[kernel]");
	CHECK_STR(at[1]->frames[0].frame.name, "first");
	CHECK_STR(at[2]->frames[0].frame.name, "in_module");
	CHECK(strstr(at[2]->frames[0].frame.library, "toys") != NULL);
	addresses_release(&addresses);
	kallsyms_free(kallsyms);
}

/* ---- without memory
 * ------------------------------------------------------------------------------- */

TEST(without_memory_nothing_is_said_of_an_address)
{
	uint64_t frames[] = {in_code() | NATIVE_INTERRUPTED, 0x1000};
	size_t nr_failed = 0;

	for (size_t nth = 1; nth < 100000; nth++) {
		struct address *at[2] = {NULL, NULL};
		bool failed;
		int rc;

		start(true);
		rt.sites[0] = in_code() + 4;
		rt.nr_sites = 1;
		/* What the file says is read before: it is not ours. */
		look_up(in_code() + 8);
		process->generation++;
		addresses.rt = NULL; /* the sites are looked up again, too */
		alloc_fail(nth);
		rc = addresses_find(&addresses, frames, 2, at);
		failed = alloc_failed();
		CHECK(rc == 0 || (rc == -ENOMEM && failed));
		nr_failed += rc != 0;
		/* It was for that one time. */
		CHECK_EQ(addresses_find(&addresses, frames, 2, at), 0);
		CHECK_STR(at[0]->frames[0].frame.name, "looked_up");
		CHECK_STR(at[1]->frames[0].frame.name, "[unknown]");
		CHECK_EQ(addresses.sites.func_addr[0], in_code());
		end();
		if (!failed)
			break;
	}
	CHECK(nr_failed >= 2);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
