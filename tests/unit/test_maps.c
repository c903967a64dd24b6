#include "symbolizer/maps.h"
#include "tests/unit/tap.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <fcntl.h>

static const char sample[] =
        "55d0c0a00000-55d0c0a01000 r--p 00000000 08:01 1234567                    "
        "/usr/bin/ruby3.1\n"
        "55d0c0a01000-55d0c0a02000 r-xp 00001000 08:01 1234567                    "
        "/usr/bin/ruby3.1\n"
        "55d0c1b00000-55d0c1b21000 rw-p 00000000 00:00 0                          [heap]\n"
        "7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n"
        "7f0000002000-7f0000003000 r-xp 00002000 103:0a 99                 /a b\\012c (deleted)\n"
        "7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

TEST(each_field_of_a_line_is_read)
{
	struct maps maps = {0};

	REQUIRE(maps_parse(&maps, sample, strlen(sample), NULL) == 0);
	REQUIRE(maps.nr == 7);
	const struct mapping *m = &maps.v[1];
	CHECK_EQ(m->start, 0x55d0c0a01000);
	CHECK_EQ(m->end, 0x55d0c0a02000);
	CHECK_EQ(m->file_off, 0x1000);
	CHECK_EQ(m->prot, MAPS_PROT_READ | MAPS_PROT_EXEC);
	CHECK_EQ(m->ino, 1234567);
	CHECK_STR(m->path, "/usr/bin/ruby3.1");
	CHECK(!m->deleted);
	CHECK_STR(maps.v[2].path, "[heap]");
	CHECK_STR(maps.v[3].path, "");
	CHECK_EQ(maps.v[3].prot, MAPS_PROT_READ | MAPS_PROT_WRITE | MAPS_PROT_EXEC);
	CHECK_EQ(maps.v[6].prot, MAPS_PROT_EXEC);
	CHECK_EQ(maps.v[6].end, 0xffffffffff601000);
	maps_release(&maps);
}

TEST(a_deleted_file_with_blank_and_newline_in_its_name)
{
	struct maps maps = {0};

	REQUIRE(maps_parse(&maps, sample, strlen(sample), NULL) == 0);
	CHECK_STR(maps.v[4].path, "/a b\nc");
	CHECK(maps.v[4].deleted);
	CHECK_EQ(maps.v[4].ino, 99);
	CHECK(maps.v[4].dev != maps.v[0].dev);
	maps_release(&maps);
}

TEST(find_takes_the_start_in_and_leaves_the_end_out)
{
	struct maps maps = {0};

	REQUIRE(maps_parse(&maps, sample, strlen(sample), NULL) == 0);
	CHECK(maps_find(&maps, 0x55d0c0a01000) == &maps.v[1]);
	CHECK(maps_find(&maps, 0x55d0c0a01fff) == &maps.v[1]);
	CHECK(maps_find(&maps, 0x55d0c0a02000) == NULL);
	CHECK(maps_find(&maps, 0) == NULL);
	CHECK(maps_find(&maps, UINT64_MAX) == NULL);
	maps_release(&maps);
}

TEST(text_that_is_no_maps_file_is_refused_and_leaves_the_old_maps)
{
	static const char *const bad[] = {
	        "hello\n",
	        "1000-2000\n",
	        "2000-1000 r-xp 00000000 00:00 0 \n",
	        "11112222333344445-2000 r-xp 00000000 00:00 0 \n",
	        "1000-2000 r-xp 00000000 00:00 99999999999999999999999 \n",
	        "1000-2000 r-xp 00000000 00:00 0x\n",
	        "1000-2000 r-xp",
	};
	struct maps maps = {0};
	struct err err = {0};

	REQUIRE(maps_parse(&maps, sample, strlen(sample), NULL) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_EQ(maps_parse(&maps, bad[i], strlen(bad[i]), &err), -EINVAL);
		CHECK_EQ(err.code, -EINVAL);
		CHECK_EQ(maps.nr, 7);
	}
	maps_release(&maps);
}

/* Each prefix is a file cut off at some byte: no crash, and what is accepted is in order. */
TEST(a_file_cut_at_any_byte_does_no_harm)
{
	for (size_t len = 0; len < strlen(sample); len++) {
		struct maps maps = {0};
		char *cut = malloc(len + 1);

		memcpy(cut, sample, len);
		if (maps_parse(&maps, cut, len, NULL) == 0) {
			for (size_t i = 1; i < maps.nr; i++)
				CHECK(maps.v[i - 1].end <= maps.v[i].start);
		}
		maps_release(&maps);
		free(cut);
	}
}

TEST(same_code_sees_executable_mappings_only)
{
	static const char a[] =
	        "1000-2000 r-xp 00000000 08:01 7 /x\n3000-4000 rw-p 00000000 00:00 0 \n";
	static const char b[] =
	        "1000-2000 r-xp 00000000 08:01 7 /y\n5000-6000 rw-p 00000000 00:00 0 \n";
	static const char c[] = "1000-2000 r-xp 00000000 08:01 8 /x\n";
	static const char d[] =
	        "1000-2000 r-xp 00000000 08:01 7 /x\n6000-7000 r-xp 00000000 00:00 0 \n";
	struct maps x = {0}, y = {0};

	REQUIRE(maps_parse(&x, a, strlen(a), NULL) == 0);
	REQUIRE(maps_parse(&y, b, strlen(b), NULL) == 0);
	CHECK(maps_same_code(&x, &y));
	REQUIRE(maps_parse(&y, c, strlen(c), NULL) == 0);
	CHECK(!maps_same_code(&x, &y));
	REQUIRE(maps_parse(&y, d, strlen(d), NULL) == 0);
	CHECK(!maps_same_code(&x, &y));
	CHECK(!maps_same_code(&y, &x));
	maps_release(&x);
	maps_release(&y);
}

TEST(our_own_maps_hold_our_code_and_a_deleted_file)
{
	struct maps maps = {0};
	char name[] = "/tmp/test mapsXXXXXX";
	int fd = mkstemp(name);
	struct stat st;

	REQUIRE(fd >= 0 && ftruncate(fd, 4096) == 0 && fstat(fd, &st) == 0);
	void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	REQUIRE(p != MAP_FAILED);
	unlink(name);
	close(fd);
	REQUIRE(maps_read(&maps, getpid(), NULL) == 0);
	const struct mapping *code = maps_find(&maps, (uintptr_t)&maps_read);
	REQUIRE(code != NULL);
	CHECK((code->prot & MAPS_PROT_EXEC) != 0);
	const struct mapping *gone = maps_find(&maps, (uintptr_t)p);
	REQUIRE(gone != NULL);
	CHECK(gone->deleted);
	CHECK_STR(gone->path, name);
	CHECK_EQ(gone->ino, st.st_ino);
	CHECK_EQ(gone->dev >> 32, major(st.st_dev));
	CHECK_EQ((uint32_t)gone->dev, minor(st.st_dev));
	munmap(p, 4096);
	maps_release(&maps);
}

TEST(a_process_that_is_not_there)
{
	struct maps maps = {0};
	struct err err;

	CHECK_EQ(maps_read(&maps, 0x3fffffff, &err), -ESRCH);
	CHECK(maps.v == NULL);
}

/* The kernel writes the file page by page, while the process changes its mappings. */
TEST(of_mappings_that_overlap_the_first_one_stays)
{
	static const char text[] = "1000-3000 r-xp 00000000 08:01 1 /a\n"
	                           "2000-3000 r-xp 00001000 08:01 1 /a\n"
	                           "3000-4000 r-xp 00002000 08:01 1 /a\n";
	struct maps maps = {0};

	REQUIRE(maps_parse(&maps, text, strlen(text), NULL) == 0);
	REQUIRE(maps.nr == 2);
	CHECK_EQ(maps.v[0].end, 0x3000);
	CHECK_EQ(maps.v[1].start, 0x3000);
	maps_release(&maps);
}

TEST(code_is_the_same_if_place_and_file_are)
{
	static const char *const texts[] = {
	        "1000-3000 r-xp 00000000 08:01 7 /a\n", /* what the others are compared with */
	        "1000-3000 r-xp 00000000 08:01 7 /a\n8000-9000 rw-p 00000000 00:00 0 \n",
	        "1000-3000 r-xp 00000000 08:02 7 /a\n",
	        "1000-3000 r-xp 00000000 08:01 8 /a\n",
	        "1000-3000 r-xp 00001000 08:01 7 /a\n",
	        "1000-4000 r-xp 00000000 08:01 7 /a\n",
	        "1000-3000 r--p 00000000 08:01 7 /a\n",
	        "1000-3000 r-xp 00000000 08:01 7 /a\n8000-9000 r-xp 00000000 00:00 0 \n",
	};
	struct maps first = {0};

	REQUIRE(maps_parse(&first, texts[0], strlen(texts[0]), NULL) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct maps other = {0};

		REQUIRE(maps_parse(&other, texts[i], strlen(texts[i]), NULL) == 0);
		if (maps_same_code(&first, &other) != (i < 2) ||
		        maps_same_code(&other, &first) != (i < 2))
			TAP_FAIL("case %zu", i);
		maps_release(&other);
	}
	maps_release(&first);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
