/*
 * The unit tests' harness: one function a behaviour, TAP on stdout.
 *
 *	TEST(a_page_without_rows_has_no_rule) { CHECK_EQ(find(...), NULL); }
 *	int main(int argc, char **argv) { return tap_run(argc, argv); }
 *
 * A failed CHECK reports and goes on; a failed REQUIRE ends the test. `test_x NAME` runs one.
 * A test that cannot run says why: SKIP("no %s here", path) ends it, tap_skip() in a function that
 *it calls does all but that. In `make check` a skip is a failure.
 */
#ifndef TESTS_UNIT_TAP_H
#define TESTS_UNIT_TAP_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct tap_test {
	const char *name;
	void (*run)(void);
	struct tap_test *next;
};

static struct tap_test *tap_first, **tap_last = &tap_first;
static bool tap_failed;
static char tap_skipped[256]; /* why */

static inline void tap_add(struct tap_test *test)
{
	*tap_last = test;
	tap_last = &test->next;
}

#define TEST(id)                                                                                   \
	static void test_##id(void);                                                               \
	static struct tap_test tap_##id = {.name = #id, .run = test_##id};                         \
	__attribute__((constructor)) static void add_##id(void)                                    \
	{                                                                                          \
		tap_add(&tap_##id);                                                                \
	}                                                                                          \
	static void test_##id(void)

__attribute__((format(printf, 1, 2))) static inline void tap_skip(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(tap_skipped, sizeof(tap_skipped), fmt, args);
	va_end(args);
}

#define SKIP(...)                                                                                  \
	do {                                                                                       \
		tap_skip(__VA_ARGS__);                                                             \
		return;                                                                            \
	} while (0)

#define TAP_FAIL(...)                                                                              \
	do {                                                                                       \
		tap_failed = true;                                                                 \
		printf("# %s:%d: ", __FILE__, __LINE__);                                           \
		printf(__VA_ARGS__);                                                               \
		printf("\n");                                                                      \
	} while (0)

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			TAP_FAIL("%s", #cond);                                                     \
	} while (0)

#define REQUIRE(cond)                                                                              \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			TAP_FAIL("%s", #cond);                                                     \
			return;                                                                    \
		}                                                                                  \
	} while (0)

#define CHECK_EQ(got, want)                                                                        \
	do {                                                                                       \
		uint64_t got_ = (uint64_t)(got), want_ = (uint64_t)(want);                         \
		if (got_ != want_)                                                                 \
			TAP_FAIL("%s is %#" PRIx64 ", not %#" PRIx64, #got, got_, want_);          \
	} while (0)

#define CHECK_STR(got, want)                                                                       \
	do {                                                                                       \
		const char *got_ = (got), *want_ = (want);                                         \
		if (got_ == NULL || want_ == NULL ? got_ != want_ : strcmp(got_, want_) != 0)      \
			TAP_FAIL("%s is \"%s\", not \"%s\"", #got, got_ ? got_ : "(null)",         \
			        want_ ? want_ : "(null)");                                         \
	} while (0)

static inline int tap_run(int argc, char **argv)
{
	int nr = 0, nr_failed = 0;

	for (struct tap_test *t = tap_first; t != NULL; t = t->next) {
		if (argc > 1 && strcmp(argv[1], t->name) != 0)
			continue;
		tap_failed = false;
		tap_skipped[0] = '\0';
		t->run();
		nr++;
		nr_failed += tap_failed;
		printf("%s %d - %s%s%s\n", tap_failed ? "not ok" : "ok", nr, t->name,
		        tap_skipped[0] != '\0' ? " # SKIP " : "", tap_skipped);
		fflush(stdout);
	}
	printf("1..%d\n", nr);
	return nr_failed != 0 || nr == 0;
}

#endif
