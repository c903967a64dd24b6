#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "tests/unit/tap.h"

#include <errno.h>

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

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
