/* Where the return address lies in YJIT's code, against the code that YJIT of 3.1 and 3.3 makes. */
#include "base/base.h"
#include "runtimes/ruby/ruby_jit_abi.h"
#include "tests/unit/tap.h"
#include <string.h>

/* One instruction, and how many registers are on the stack before it. */
struct instruction {
	const char *bytes;
	size_t n;
	int saved;
};

static const struct instruction entry[] = {
        {"\x41\x55", 2, 0},                                 /* push r13 */
        {"\x41\x54", 2, 1},                                 /* push r12 */
        {"\x53", 1, 2},                                     /* push rbx */
        {"\x49\x89\xfc", 3, 3},                             /* mov r12, rdi */
        {"\x49\x89\xf5", 3, 3},                             /* mov r13, rsi */
        {"\x49\x8b\x5d\x08", 4, 3},                         /* mov rbx, [r13 + 8] */
        {"\x48\xb8\x00\xb0\x26\x00\x39\x7f\x00\x00", 10, 3} /* mov rax, leave_exit */
};

/* 3.1 returns Qundef as 0x34, 3.3 as 0x24. */
static const struct instruction side_exit[] = {
        {"\x49\x89\x45\x00", 4, 3},     /* mov [r13], rax */
        {"\x5b", 1, 3},                 /* pop rbx */
        {"\x41\x5c", 2, 2},             /* pop r12 */
        {"\x41\x5d", 2, 1},             /* pop r13 */
        {"\xb8\x34\x00\x00\x00", 5, 0}, /* mov eax, Qundef */
        {"\xc3", 1, 0},                 /* ret */
};

static const struct instruction leave_exit[] = {
        {"\x5b", 1, 3},
        {"\x41\x5c", 2, 2},
        {"\x41\x5d", 2, 1},
        {"\xc3", 1, 0},
};

static void check_saved(const struct instruction *code, size_t nr)
{
	uint8_t bytes[128] = {0};
	size_t n = 0, at = 0;
	uint64_t word;

	for (size_t i = 0; i < nr; i++) {
		memcpy(bytes + n, code[i].bytes, code[i].n);
		n += code[i].n;
	}
	/* What comes behind is other code. */
	memcpy(bytes + n, "\x49\x8b\x4d\x08\x48\x89\x01\x90", 8);
	for (size_t i = 0; i < nr; i++) {
		memcpy(&word, bytes + at, sizeof(word));
		if (ruby_jit_saved(word) != code[i].saved)
			TAP_FAIL("instruction %zu: %d registers, %d saved", i, ruby_jit_saved(word),
			        code[i].saved);
		at += code[i].n;
	}
}

TEST(the_registers_that_the_jit_saved_are_counted_at_each_of_its_instructions)
{
	check_saved(entry, ARRAY_SIZE(entry));
	check_saved(side_exit, ARRAY_SIZE(side_exit));
	check_saved(leave_exit, ARRAY_SIZE(leave_exit));
}

static int is_called(const char *bytes, size_t n)
{
	uint8_t before[8];
	uint64_t word;

	memset(before, 0x90, sizeof(before));
	memcpy(before + 8 - n, bytes, n);
	memcpy(&word, before, sizeof(word));
	return ruby_jit_is_called(word);
}

TEST(a_return_address_of_the_jit_is_behind_an_indirect_call)
{
	CHECK(is_called("\xff\xd0", 2));                 /* call rax */
	CHECK(is_called("\x41\xff\xd4", 3));             /* call r12 */
	CHECK(is_called("\xff\x10", 2));                 /* call [rax] */
	CHECK(is_called("\xff\x50\x18", 3));             /* call [rax + 24] */
	CHECK(is_called("\xff\x90\x18\x01\x00\x00", 6)); /* call [rax + 280] */
	CHECK(!is_called("\xe8\x01\x02\x03\x04", 5));    /* call f */
	CHECK(!is_called("\xff\xe0", 2));                /* jmp rax */
	CHECK(!is_called("\xff\x30", 2));                /* push [rax] */
	CHECK(!is_called("\x48\x89\xc5", 3));            /* mov rbp, rax */
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
