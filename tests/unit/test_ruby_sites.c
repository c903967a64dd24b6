/* The calls of C functions and the entries of the collector in Ruby's code: on made-up code, and in
 * the libraries that are here. */
#include "runtimes/ruby/ruby_runtime.h"
#include "symbolizer/dso.h"
#include "tests/unit/rubies.h"

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

/* ---- where the collector is entered ---------------------------------------------------- */

enum { FLAGS = 0x10, NOT = 1000 };

/* The place, or NOT. The sanitizer watches the end. */
static size_t decode_flag(const uint8_t *code, size_t n, bool set, size_t from)
{
	uint8_t *copy = malloc(n);
	size_t at = 0;
	bool found;

	if (copy == NULL)
		abort();
	memcpy(copy, code, n);
	found = ruby_during_gc_decode(copy, n, FLAGS, set, from, &at);
	free(copy);
	return found ? at : NOT;
}

#define FLAG(set, ...)                                                                             \
	decode_flag((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), set, 0)

TEST(the_flag_is_set_and_cleared_in_memory)
{
	CHECK_EQ(FLAG(true, 0x80, 0x4d, 0x10, 0x20), 3);              /* orb $0x20,0x10(%rbp) */
	CHECK_EQ(FLAG(true, 0x90, 0x41, 0x80, 0x4e, 0x10, 0x20), 5);  /* (%r14) */
	CHECK_EQ(FLAG(true, 0x41, 0x80, 0x4c, 0x24, 0x10, 0x20), 5);  /* (%r12) */
	CHECK_EQ(FLAG(false, 0x80, 0x65, 0x10, 0xdf), 3);             /* andb $0xdf,0x10(%rbp) */
	CHECK_EQ(FLAG(false, 0x41, 0x80, 0x64, 0x24, 0x10, 0xdf), 5); /* (%r12) */
}

TEST(the_flag_is_changed_in_a_register_that_is_stored)
{
	/* or $0x20,%eax; mov %al,0x10(%rbx) */
	CHECK_EQ(FLAG(true, 0x83, 0xc8, 0x20, 0x88, 0x43, 0x10), 2);
	/* or $0x20,%al; mov %al,0x10(%r12) */
	CHECK_EQ(FLAG(true, 0x0c, 0x20, 0x41, 0x88, 0x44, 0x24, 0x10), 1);
	/* or $0x20,%r8d; nop; mov %r8b,0x10(%rbp) */
	CHECK_EQ(FLAG(true, 0x41, 0x83, 0xc8, 0x20, 0x90, 0x44, 0x88, 0x45, 0x10), 3);
	/* and $0xffffffdf,%edx; mov %dl,0x10(%rax) */
	CHECK_EQ(FLAG(false, 0x83, 0xe2, 0xdf, 0x88, 0x50, 0x10), 2);
}

TEST(another_field_bit_register_or_operation_is_not_the_flag)
{
	CHECK_EQ(FLAG(true, 0x80, 0x4d, 0x18, 0x20), NOT);
	CHECK_EQ(FLAG(true, 0x80, 0x4d, 0x10, 0x10), NOT);
	CHECK_EQ(FLAG(true, 0x80, 0x65, 0x10, 0x20), NOT);  /* and */
	CHECK_EQ(FLAG(true, 0x80, 0x7d, 0x10, 0x20), NOT);  /* cmpb */
	CHECK_EQ(FLAG(true, 0xf6, 0x45, 0x10, 0x20), NOT);  /* testb */
	CHECK_EQ(FLAG(false, 0x80, 0x4d, 0x10, 0xdf), NOT); /* or */
	/* or $0x20,%eax; mov %cl,0x10(%rbx): another register */
	CHECK_EQ(FLAG(true, 0x83, 0xc8, 0x20, 0x88, 0x4b, 0x10), NOT);
	/* or $0x20,%r8d; mov %al,0x10(%rbp) */
	CHECK_EQ(FLAG(true, 0x41, 0x83, 0xc8, 0x20, 0x88, 0x45, 0x10), NOT);
	/* or $0x20,%eax; mov 0x10(%rbx),%al: a load */
	CHECK_EQ(FLAG(true, 0x83, 0xc8, 0x20, 0x8a, 0x43, 0x10), NOT);
	/* or $0x20,%eax; mov %eax,0x10(%rbx); orl $0x20,0x10(%rbx): numbers, not bits */
	CHECK_EQ(FLAG(true, 0x83, 0xc8, 0x20, 0x89, 0x43, 0x10), NOT);
	CHECK_EQ(FLAG(true, 0x83, 0x4b, 0x10, 0x20, 0x90), NOT);
	CHECK_EQ(FLAG(true, 0x83, 0xc8, 0x20), NOT);
	CHECK_EQ(FLAG(true, 0x20), NOT);
}

TEST(each_change_of_the_flag_is_found)
{
	static const uint8_t code[] = {0x20, 0x80, 0x4d, 0x10, 0x20, 0x20, 0x80, 0x4b, 0x10, 0x20};

	CHECK_EQ(decode_flag(code, sizeof(code), true, 0), 4);
	CHECK_EQ(decode_flag(code, sizeof(code), true, 5), 9);
	CHECK_EQ(decode_flag(code, sizeof(code), true, 10), NOT);
	for (size_t n = 1; n < 5; n++)
		CHECK_EQ(decode_flag(code, n, true, 0), n == 5 ? 4 : NOT);
}

/* ---- in real libraries -------------------------------------------------------------------- */

/*
 * The collector is entered by four functions that are no part of Ruby's interface: gc.c, gc_start,
 * gc_rest, rb_objspace_call_finalizer, and heap_prepare (3.1) or gc_continue (3.3), with gc_enter
 * and gc_exit inlined. What asks for memory or for a collection is none of them.
 */
static void check_gc_entries(struct runtime *rt)
{
	static const char *const askers[] = {"rb_gc", "rb_gc_start", "rb_newobj_of", "ruby_xmalloc",
	        "ruby_xrealloc2", "rb_wb_protected_newobj_of", "rb_class_new_instance_pass_kw",
	        "rb_ary_push", "rb_memerror", "rb_gc_mark", "rb_during_gc"};
	size_t nr = 0;

	rt->proc.objspace_flags = FLAGS;
	ruby_gc_entries_find(rt);
	for (size_t i = 0; i < rt->nr_gc_entries; i++) {
		const struct dso_symbol *sym = dso_function_at(rt->dso, rt->gc_entries[i]);
		uint64_t start, end;
		uint8_t *code;
		size_t at;

		CHECK(dso_fde_at(rt->dso, rt->gc_entries[i], &start, &end));
		CHECK_EQ(start, rt->gc_entries[i]);
		CHECK(sym == NULL || !sym->dynamic);
		/* A part that was moved out sets no flag. */
		code = malloc(end - start);
		REQUIRE(code != NULL);
		CHECK_EQ(dso_read(rt->dso, start, code, end - start), 0);
		nr += ruby_during_gc_decode(code, end - start, FLAGS, true, 0, &at);
		free(code);
	}
	CHECK_EQ(nr, 4);
	for (size_t i = 0; i < ARRAY_SIZE(askers); i++) {
		const struct dso_symbol *sym = dso_find_symbol(rt->dso, askers[i]);

		REQUIRE(sym != NULL);
		CHECK(!ruby_enters_gc(rt, sym->vaddr));
	}
}

/* Two functions push the frames of C functions: vm_call_cfunc_with_frame and
 * vm_call0_cfunc_with_frame; each calls once. */
static void check_library(const char *version)
{
	struct dso_cache *cache = NULL;
	uint64_t sites[MAX_SITES], vaddr, size, start, end, first = 0;
	struct runtime rt = {0};
	struct test_ruby ruby;
	struct err err = {0};
	size_t nr;

	if (!test_ruby_find(version, &ruby))
		return;
	REQUIRE(dso_cache_new(&cache) == 0);
	REQUIRE(dso_cache_get_path(cache, ruby.libruby, &rt.dso, &err) == 0);
	nr = ruby_call_sites(&rt, sites, MAX_SITES);
	CHECK_EQ(nr, 2);
	for (size_t i = 0; i < nr; i++) {
		CHECK(dso_fde_at(rt.dso, sites[i] - 1, &start, &end));
		CHECK(i == 0 || start != first);
		first = start;
	}
	CHECK(dso_text_segment(rt.dso, 0, &vaddr, &size));
	check_gc_entries(&rt);
	dso_cache_free(cache);
}

#define OF_RUBY(id, version)                                                                       \
	TEST(ruby_##id##_calls_c_functions_at_two_places_and_enters_the_collector_in_four)         \
	{                                                                                          \
		check_library(version);                                                            \
	}
RUBIES(OF_RUBY)

TEST(no_more_sites_are_written_than_there_is_room_for)
{
	/* The call with its prefix is one of %r8, and without it one of %rax: both are loaded from.
	 */
	static const uint8_t code[] = {
	        0x48, 0x8b, 0x48, 0x08, 0x49, 0x8b, 0x48, 0x08, 0x41, 0xff, 0x50, 0x10, 0x90};
	uint64_t *sites = malloc(sizeof(*sites)); /* the sanitizer watches its end */

	REQUIRE(sites != NULL);
	CHECK_EQ(ruby_call_sites_decode(code, sizeof(code), sites, 1), 1);
	CHECK_EQ(sites[0], 12);
	CHECK_EQ(ruby_call_sites_decode(code, sizeof(code), sites, 0), 0);
	free(sites);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
