#include "symbolizer/kallsyms.h"
#include "tests/unit/tap.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static const char sample[] = "0000000000000000 A fixed_percpu_data\n"
                             "ffffffff81000000 T _stext\n"
                             "ffffffff81000000 T first\n"
                             "ffffffff81000500 D some_data\n"
                             "ffffffff81002000 t third\n"
                             "ffffffff81001000 W second\n"
                             "ffffffff81003000 T __ia32_sys_getpid\n"
                             "ffffffff81003000 T __x64_sys_getpid\n"
                             "ffffffff81004000 T _etext\n"
                             "ffffffffc0000000 t mod_fn\t[ext4]\n"
                             "ffffffffc0000100 t other_fn\t[xfs]\n";

static const char *name_at(struct kallsyms *k, uint64_t addr)
{
	const struct kallsym *sym = kallsyms_find(k, addr);

	return sym != NULL ? sym->name : NULL;
}

TEST(an_address_belongs_to_the_text_symbol_at_or_below_it)
{
	struct kallsyms *k;

	REQUIRE(kallsyms_parse(&k, sample, strlen(sample), NULL) == 0);
	CHECK_STR(name_at(k, 0xffffffff81000000), "first");
	CHECK_STR(name_at(k, 0xffffffff81000fff), "first");
	CHECK_STR(name_at(k, 0xffffffff81001000), "second");
	CHECK_STR(name_at(k, 0xffffffff81002fff), "third");
	CHECK_EQ(kallsyms_find(k, 0xffffffff81002fff)->addr, 0xffffffff81002000);
	CHECK(kallsyms_find(k, 0xffffffff81002fff)->module == NULL);
	kallsyms_free(k);
}

TEST(of_aliases_the_one_that_a_reader_wants)
{
	struct kallsyms *k;

	REQUIRE(kallsyms_parse(&k, sample, strlen(sample), NULL) == 0);
	CHECK_STR(name_at(k, 0xffffffff81003000), "__x64_sys_getpid");
	CHECK_STR(name_at(k, 0xffffffff81003fff), "__x64_sys_getpid");
	kallsyms_free(k);
}

TEST(outside_of_all_functions_there_is_no_symbol)
{
	struct kallsyms *k;

	REQUIRE(kallsyms_parse(&k, sample, strlen(sample), NULL) == 0);
	CHECK(kallsyms_find(k, 0) == NULL);
	CHECK(kallsyms_find(k, 0xffffffff80ffffff) == NULL);
	CHECK(kallsyms_find(k, 0xffffffff81004000) == NULL);
	CHECK(kallsyms_find(k, 0xffffffffbfffffff) == NULL);
	/* The last symbol has no end. */
	CHECK(kallsyms_find(k, 0xffffffffc0000100) == NULL);
	CHECK(kallsyms_find(k, UINT64_MAX) == NULL);
	kallsyms_free(k);
}

TEST(a_module_is_named)
{
	struct kallsyms *k;

	REQUIRE(kallsyms_parse(&k, sample, strlen(sample), NULL) == 0);
	const struct kallsym *sym = kallsyms_find(k, 0xffffffffc0000010);
	REQUIRE(sym != NULL);
	CHECK_STR(sym->name, "mod_fn");
	CHECK_STR(sym->module, "ext4");
	kallsyms_free(k);
}

TEST(hidden_addresses_are_an_error_that_names_the_sysctl)
{
	static const char hidden[] = "0000000000000000 T _stext\n0000000000000000 t foo\t[bar]\n";
	struct kallsyms *k;
	struct err err = {0};

	CHECK_EQ(kallsyms_parse(&k, hidden, strlen(hidden), &err), -EPERM);
	CHECK(strstr(err.msg, "CAP_SYSLOG") != NULL);
}

TEST(text_that_is_not_kallsyms_is_refused)
{
	static const char *const bad[] = {"", "hello\n", "12\n", "12 T\n", "12 T \n",
	        "12 T x\t[m\n", "12 T x\tm]\n", "12345678901234567 T x\n", "12 T \t[m]\n"};
	struct kallsyms *k;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(kallsyms_parse(&k, bad[i], strlen(bad[i]), NULL), -EINVAL);
}

TEST(text_cut_at_any_byte_does_no_harm)
{
	for (size_t len = 0; len < strlen(sample); len++) {
		struct kallsyms *k;
		char *cut = malloc(len + 1);

		memcpy(cut, sample, len);
		if (kallsyms_parse(&k, cut, len, NULL) == 0) {
			(void)name_at(k, 0xffffffff81002fff);
			kallsyms_free(k);
		}
		free(cut);
	}
}

/* Ground truth: each line of /proc/kallsyms finds a symbol at its own address. */
static void check_against_kernel(struct kallsyms *k)
{
	FILE *f = fopen("/proc/kallsyms", "r");
	char line[1024];
	size_t nr = 0, nr_wrong = 0;

	REQUIRE(f != NULL);
	while (fgets(line, sizeof(line), f) != NULL) {
		uint64_t addr;
		char type, name[512];

		if (sscanf(line, "%" SCNx64 " %c %511s", &addr, &type, name) != 3 ||
		        (type | 0x20) != 't' || strcmp(name, "_etext") == 0 ||
		        strcmp(name, "_einittext") == 0)
			continue;
		/* BPF programs come and go while this runs. */
		if (strstr(line, "[bpf]") != NULL)
			continue;
		const struct kallsym *sym = kallsyms_find(k, addr);

		nr++;
		nr_wrong += sym == NULL || sym->addr != addr;
	}
	fclose(f);
	CHECK(nr > 1000);
	/* The highest function has no end. */
	CHECK(nr_wrong <= 1);
}

static bool kernel_shows_symbols(void)
{
	struct kallsyms *k;
	struct err err = {0};

	if (kallsyms_new(&k, &err) == 0) {
		kallsyms_free(k);
		return true;
	}
	tap_skip("%s", err.msg);
	CHECK_EQ(err.code, -EPERM);
	return false;
}

TEST(each_function_of_the_running_kernel_is_found_at_its_address)
{
	struct kallsyms *k;

	if (!kernel_shows_symbols())
		return;
	REQUIRE(kallsyms_new(&k, NULL) == 0);
	check_against_kernel(k);
	kallsyms_free(k);
}

TEST(symbols_that_are_not_read_yet_are_read_for_the_first_question)
{
	struct kallsyms *k;

	if (!kernel_shows_symbols())
		return;
	REQUIRE(kallsyms_new_unread(&k, NULL) == 0);
	check_against_kernel(k);
	kallsyms_free(k);
}

TEST(the_first_question_waits_for_what_is_read_ahead)
{
	struct kallsyms *k;

	if (!kernel_shows_symbols())
		return;
	REQUIRE(kallsyms_new_unread(&k, NULL) == 0);
	kallsyms_read_ahead(k);
	check_against_kernel(k);
	kallsyms_free(k);
	/* Nobody asks. */
	REQUIRE(kallsyms_new_unread(&k, NULL) == 0);
	kallsyms_read_ahead(k);
	kallsyms_free(k);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
