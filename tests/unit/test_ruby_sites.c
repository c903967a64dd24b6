/* The calls of C functions in Ruby's code: on made-up code, and in the libraries that are here. */
#include "runtimes/ruby/ruby_runtime.h"
#include "symbolizer/dso.h"
#include "tests/unit/tap.h"

#include <stdlib.h>
#include <unistd.h>

enum { MAX_SITES = 8 };

TEST(the_load_of_the_function_and_the_call_of_its_invoker_make_a_site)
{
	static const uint8_t code[] = {
	        0x48,
	        0x8b,
	        0x4b,
	        0x08, /* mov 0x8(%rbx),%rcx */
	        0x4c,
	        0x89,
	        0xe2, /* mov %r12,%rdx */
	        0xff,
	        0x53,
	        0x10, /* call *0x10(%rbx) */
	        0x90,
	};
	uint64_t sites[MAX_SITES];

	REQUIRE(ruby_call_sites_decode(code, sizeof(code), sites, MAX_SITES) == 1);
	CHECK_EQ(sites[0], 10);
}

TEST(registers_that_need_a_prefix_or_a_sib_byte_are_understood)
{
	static const uint8_t r13[] = {0x49, 0x8b, 0x4d, 0x08, 0x41, 0xff, 0x55, 0x10};
	static const uint8_t r12[] = {0x49, 0x8b, 0x4c, 0x24, 0x08, 0x41, 0xff, 0x54, 0x24, 0x10};
	uint64_t sites[MAX_SITES];

	CHECK_EQ(ruby_call_sites_decode(r13, sizeof(r13), sites, MAX_SITES), 1);
	CHECK_EQ(sites[0], sizeof(r13));
	CHECK_EQ(ruby_call_sites_decode(r12, sizeof(r12), sites, MAX_SITES), 1);
	CHECK_EQ(sites[0], sizeof(r12));
}

TEST(a_call_through_another_register_or_without_the_load_is_no_site)
{
	static const uint8_t other[] = {0x48, 0x8b, 0x4b, 0x08, 0xff, 0x55, 0x10, 0x90};
	static const uint8_t alone[] = {0x90, 0x90, 0x90, 0x90, 0xff, 0x53, 0x10, 0x90};
	static const uint8_t field[] = {0x48, 0x8b, 0x4b, 0x10, 0xff, 0x53, 0x10, 0x90};
	uint64_t sites[MAX_SITES];

	CHECK_EQ(ruby_call_sites_decode(other, sizeof(other), sites, MAX_SITES), 0);
	CHECK_EQ(ruby_call_sites_decode(alone, sizeof(alone), sites, MAX_SITES), 0);
	CHECK_EQ(ruby_call_sites_decode(field, sizeof(field), sites, MAX_SITES), 0);
}

TEST(code_that_ends_anywhere_is_read_within_its_bounds)
{
	static const uint8_t code[] = {0x49, 0x8b, 0x4c, 0x24, 0x08, 0x41, 0xff, 0x54, 0x24, 0x10};
	uint64_t sites[MAX_SITES];

	for (size_t n = 0; n < sizeof(code); n++) {
		uint8_t *copy = malloc(n + 1); /* the sanitizer watches its end */

		REQUIRE(copy != NULL);
		memcpy(copy, code, n);
		uint8_t *exact = n != 0 ? realloc(copy, n) : copy;

		CHECK_EQ(ruby_call_sites_decode(exact, n, sites, MAX_SITES), 0);
		free(exact);
	}
}

/* Two functions push the frames of C functions: vm_call_cfunc_with_frame and
 * vm_call0_cfunc_with_frame; each calls once. */
static void check_library(const char *path)
{
	struct dso_cache *cache = NULL;
	uint64_t sites[MAX_SITES], vaddr, size, start, end, first = 0;
	struct runtime rt = {0};
	struct err err = {0};
	size_t nr;

	if (access(path, R_OK) != 0) {
		printf("# %s is not here\n", path);
		return;
	}
	REQUIRE(dso_cache_new(&cache) == 0);
	REQUIRE(dso_cache_get_path(cache, path, &rt.dso, &err) == 0);
	nr = ruby_call_sites(&rt, sites, MAX_SITES);
	CHECK_EQ(nr, 2);
	for (size_t i = 0; i < nr; i++) {
		CHECK(dso_fde_at(rt.dso, sites[i] - 1, &start, &end));
		CHECK(i == 0 || start != first);
		first = start;
	}
	CHECK(dso_text_segment(rt.dso, 0, &vaddr, &size));
	dso_cache_free(cache);
}

TEST(ruby_3_1_calls_c_functions_at_two_places)
{
	check_library("/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1");
}

TEST(ruby_3_3_calls_c_functions_at_two_places)
{
	check_library("build/rubies/3.3/usr/lib/x86_64-linux-gnu/libruby-3.3.so.3.3");
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
