#include "base/array.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "tests/unit/tap.h"

#include <errno.h>
#include <stdlib.h>

TEST(a_buffer_never_grows_past_its_cap)
{
	struct buf b;

	buf_init(&b, 10);
	CHECK_EQ(buf_append(&b, "12345", 5), 0);
	CHECK_EQ(buf_append(&b, "678901", 6), -E2BIG);
	CHECK(b.failed);
	CHECK_STR(b.data, "12345");
	CHECK_EQ(buf_append(&b, "67890", 5), 0);
	CHECK_EQ(b.len, 10);
	buf_release(&b);
}

TEST(a_json_string_escapes_controls_and_mends_bad_utf8)
{
	struct buf b;

	buf_init(&b, 1000);
	buf_json_str(&b, "a\"b\\\n\x01\xff\xc3\xa9\xed\xa0\x80");
	CHECK_STR(b.data, "\"a\\\"b\\\\\\u000a\\u0001\\ufffd\xc3\xa9\\ufffd\\ufffd\\ufffd\"");
	buf_release(&b);
}

TEST(a_hash_keeps_every_key_through_growth)
{
	struct hash64 h;

	hash64_init(&h);
	CHECK(hash64_find(&h, 0) == NULL);
	for (uint64_t k = 0; k < 5000; k++)
		REQUIRE(hash64_put(&h, k * 4096, k) == 0);
	for (uint64_t k = 0; k < 5000; k++) {
		uint64_t *v = hash64_find(&h, k * 4096);

		REQUIRE(v != NULL);
		CHECK_EQ(*v, k);
	}
	CHECK(hash64_find(&h, 1) == NULL);
	hash64_release(&h);
}

TEST(a_prefixed_error_keeps_its_code_and_sentence)
{
	struct err err;

	CHECK_EQ(err_set(&err, -ENOENT, "no %s", "file"), -ENOENT);
	CHECK_EQ(err_prefix(&err, "open"), -ENOENT);
	CHECK_STR(err.msg, "open: no file");
	CHECK_EQ(err_set(NULL, -EIO, "x"), -EIO);
}

TEST(an_array_grows_by_more_than_is_asked_for_and_keeps_what_it_holds)
{
	uint32_t *v = NULL;
	size_t cap = 0;
	int nr_moves = 0;

	for (uint32_t i = 0; i < 10000; i++) {
		size_t before = cap;

		REQUIRE(ARRAY_RESERVE(v, cap, (size_t)i + 1, SIZE_MAX) == 0);
		nr_moves += cap != before;
		v[i] = i;
	}
	CHECK(nr_moves < 15);
	for (uint32_t i = 0; i < 10000; i++)
		REQUIRE(v[i] == i);
	free(v);
}

TEST(an_array_never_has_room_for_more_than_its_limit)
{
	uint32_t *v = NULL, *before;
	size_t cap = 0;

	CHECK_EQ(ARRAY_RESERVE(v, cap, 6, 5), -E2BIG);
	CHECK(v == NULL && cap == 0);
	REQUIRE(ARRAY_RESERVE(v, cap, 1, 5) == 0);
	CHECK_EQ(cap, 5);
	before = v;
	CHECK_EQ(ARRAY_RESERVE(v, cap, 6, 5), -E2BIG);
	CHECK(v == before && cap == 5);
	CHECK_EQ(ARRAY_RESERVE(v, cap, 5, 5), 0);
	REQUIRE(ARRAY_RESERVE(v, cap, 17, 20) == 0);
	CHECK_EQ(cap, 17);
	REQUIRE(ARRAY_RESERVE(v, cap, 18, 20) == 0);
	CHECK_EQ(cap, 20);
	free(v);
}

TEST(a_size_that_does_not_fit_is_no_memory_and_no_small_array)
{
	uint32_t *v = NULL;
	size_t cap = 0;

	/* Four times this is 4. */
	CHECK_EQ(ARRAY_RESERVE(v, cap, SIZE_MAX / 4 + 2, SIZE_MAX), -ENOMEM);
	CHECK(v == NULL && cap == 0);
	REQUIRE(ARRAY_RESERVE(v, cap, 3, SIZE_MAX) == 0);
	CHECK_EQ(ARRAY_RESERVE(v, cap, SIZE_MAX, SIZE_MAX), -ENOMEM);
	CHECK_EQ(cap, 16);
	v[2] = 7;
	free(v);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
