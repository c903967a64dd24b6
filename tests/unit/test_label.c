#include "profile/label.h"
#include "tests/unit/profile_fixture.h"
#include "tests/unit/tap.h"

static struct frame block_at(const char *name, const char *path, uint32_t first_line)
{
	return (struct frame){.kind = FRAME_INTERP,
	        .name = name,
	        .path = path,
	        .first_line = first_line,
	        .line = first_line + 1};
}

/* What the functions are called, in the order of the frames; "-" where the name is enough. */
static const char *places(const char *file, const struct frame *frames, size_t nr)
{
	static char out[1024];
	struct labels labels;
	struct reader *r;
	struct fixture f;
	struct buf b;

	out[0] = '\0';
	fixture_create(&f, fixture_path(file));
	fixture_sample(&f, f.thread, f.cpu, 1, frames, nr);
	recording_close(f.rec, NULL);
	r = fixture_open(fixture_path(file));
	if (r == NULL || labels_init(&labels, r) != 0)
		return "(no labels)";
	buf_init(&b, sizeof(out) - 1);
	for (uint32_t id = 1; id <= reader_nr_functions(r); id++) {
		buf_puts(&b, id > 1 ? " " : "");
		if (labels_has_place(&labels, id))
			labels_put_place(&labels, id, &b);
		else
			buf_puts(&b, "-");
	}
	strcpy(out, b.data);
	buf_release(&b);
	labels_release(&labels);
	reader_free(r);
	return out;
}

TEST(functions_that_share_a_name_are_shown_with_their_first_lines)
{
	const struct frame frames[] = {
	        block_at("block in <main>", "/srv/shop.rb", 12),
	        block_at("block in <main>", "/srv/shop.rb", 40),
	        block_at("block in <main>", "jobs.rb", 3),
	        block_at("block in Foo#bar", "/srv/shop.rb", 60),
	};

	CHECK_STR(places("share.rprof", frames, ARRAY_SIZE(frames)),
	        "shop.rb:12 shop.rb:40 jobs.rb:3 -");
}

TEST(the_whole_path_is_shown_where_its_end_tells_nothing)
{
	const struct frame frames[] = {
	        block_at("block in <main>", "/srv/a/spec.rb", 3),
	        block_at("block in <main>", "/srv/b/spec.rb", 3),
	        block_at("block in <main>", "/srv/b/spec.rb", 9),
	};

	CHECK_STR(places("ends.rprof", frames, ARRAY_SIZE(frames)),
	        "/srv/a/spec.rb:3 /srv/b/spec.rb:3 spec.rb:9");
}

TEST(one_place_run_in_two_ways_is_no_namesake)
{
	struct frame frames[] = {
	        block_at("Foo#bar", "/a.rb", 12),
	        block_at("Foo#bar", "/a.rb", 12),
	};

	frames[1].kind = FRAME_INTERP_JIT;
	CHECK_STR(places("jit.rprof", frames, ARRAY_SIZE(frames)), "- -");
}

TEST(a_method_made_of_a_block_has_a_name_of_its_own)
{
	struct frame frames[] = {
	        block_at("block in <main>", "/a.rb", 12),
	        block_at("block in <main>", "/a.rb", 20),
	        block_at("block in <main>", "/a.rb", 30),
	};
	struct buf b;

	frames[1].method = "A#one";
	frames[2].method = "A#two";
	CHECK_STR(places("made.rprof", frames, ARRAY_SIZE(frames)), "- - -");
	frames[2].method = "A#one";
	CHECK_STR(places("again.rprof", frames, ARRAY_SIZE(frames)), "- a.rb:20 a.rb:30");
	buf_init(&b, 100);
	label_put_name(&b, &frames[1]);
	CHECK_STR(b.data, "block in <main> (A#one)");
	buf_release(&b);
}

TEST(what_has_no_first_line_keeps_its_name)
{
	struct frame frames[] = {
	        block_at("Array#each", "/a.rb", 0),
	        block_at("Array#each", "/b.rb", 0),
	        native_frame(ROLE_LIB, "Array#each", "/lib/libc.so.6"),
	        block_at("Array#each", "<internal:array>", 7),
	        block_at("no path", NULL, 1),
	        block_at("no path", NULL, 2),
	        block_at(NULL, "/a.rb", 4),
	        block_at("", "/a.rb", 5),
	};

	frames[0].kind = frames[1].kind = FRAME_INTERP_C;
	CHECK_STR(places("without.rprof", frames, ARRAY_SIZE(frames)), "- - - - - - a.rb:4 a.rb:5");
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
