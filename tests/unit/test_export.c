#include "profile/export.h"
#include "tests/unit/profile_fixture.h"
#include "tests/unit/tap.h"

static const struct view all = {.mode = VIEW_ALL};

static struct buf fold(struct reader *r, const char *trigger, bool threads)
{
	struct reader_filter filter = {.trigger = trigger};
	struct buf b;

	buf_init(&b, 1 << 20);
	CHECK_EQ(export_folded(r, &filter, &all, threads, fixture_collect, &b, NULL), 0);
	return b;
}

TEST(folded_lines_have_the_usual_suffixes)
{
	const char *path = fixture_path("suffix.rprof");
	struct frame frames[5] = {ruby_frame("<main>", 1), native_frame(ROLE_EXT, "inl", "/x.so"),
	        ruby_frame("jitted", 2), native_frame(ROLE_JIT, "code", NULL),
	        ruby_frame("read", 3)};
	struct reader *r;
	struct fixture f;
	struct buf b;

	frames[1].flags = FRAME_F_INLINED;
	frames[2].kind = FRAME_INTERP_JIT;
	frames[4].kind = FRAME_KERNEL;
	fixture_create(&f, path);
	for (int i = 0; i < 3; i++)
		fixture_sample(&f, f.thread, f.cpu, 1000, frames, 5);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	b = fold(r, "cpu", false);
	CHECK_STR(b.data, "<main>;inl_[i];jitted_[j];code_[j];read_[k] 3\n");
	buf_release(&b);
	b = fold(r, "cpu", true);
	CHECK_STR(b.data, "ruby;main;<main>;inl_[i];jitted_[j];code_[j];read_[k] 3\n");
	buf_release(&b);
	reader_free(r);
}

TEST(names_cannot_break_a_folded_line)
{
	const char *path = fixture_path("names.rprof");
	struct frame frames[3] = {
	        ruby_frame("a;b\nc\"", 1), ruby_frame("", 1), ruby_frame("worker 12", 1)};
	struct reader *r;
	struct fixture f;
	struct buf b;

	fixture_create(&f, path);
	fixture_sample(&f, f.thread, f.cpu, 1, frames, 3);
	fixture_sample(&f, f.thread, f.cpu, 1, frames, 0);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	b = fold(r, "cpu", false);
	CHECK_STR(b.data, "a:b c\";[unknown];worker_12 1\n[no frames] 1\n");
	buf_release(&b);
	reader_free(r);
}

TEST(lines_that_fold_to_the_same_are_one)
{
	const char *path = fixture_path("same.rprof");
	struct frame a = ruby_frame("x", 1), b = ruby_frame("x", 2);
	struct reader *r;
	struct fixture f;
	struct buf out;

	fixture_create(&f, path);
	fixture_sample(&f, f.thread, f.cpu, 1, &a, 1);
	fixture_sample(&f, f.thread, f.cpu, 1, &b, 1);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	out = fold(r, "cpu", false);
	CHECK_STR(out.data, "x 2\n");
	buf_release(&out);
	reader_free(r);
}

TEST(functions_that_share_a_name_stay_apart_in_folded_lines)
{
	const char *path = fixture_path("blocks.rprof");
	struct frame frames[4];
	struct reader *r;
	struct fixture f;
	struct buf out;

	fixture_blocks(frames);
	frames[1].kind = FRAME_INTERP_JIT;
	fixture_create(&f, path);
	fixture_sample(&f, f.thread, f.cpu, 1, frames, 4);
	fixture_sample(&f, f.thread, f.cpu, 1, frames, 1);
	fixture_sample(&f, f.thread, f.cpu, 1, frames + 1, 1);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	out = fold(r, "cpu", false);
	CHECK_STR(out.data, "block in <main> [app.rb:4];block in <main> [app.rb:8]_[j];"
	                    "block in <main> (Shop#GET /hello);Foo#bar 1\n"
	                    "block in <main> [app.rb:4] 1\nblock in <main> [app.rb:8]_[j] 1\n");
	buf_release(&out);
	reader_free(r);
}

TEST(a_path_cannot_break_a_folded_line)
{
	const char *path = fixture_path("paths.rprof");
	struct frame frames[2] = {ruby_frame("x", 1), ruby_frame("x", 2)};
	struct reader *r;
	struct fixture f;
	struct buf out;

	frames[0].path = "/a;b\n";
	frames[0].first_line = 1;
	frames[1].method = "m;n";
	frames[1].first_line = 2;
	fixture_create(&f, path);
	fixture_sample(&f, f.thread, f.cpu, 1, frames, 2);
	frames[1].method = NULL;
	fixture_sample(&f, f.thread, f.cpu, 1, frames, 2);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	out = fold(r, "cpu", false);
	CHECK_STR(out.data, "x [a:b :1];x (m:n) 1\nx [a:b :1];x [app.rb:2] 1\n");
	buf_release(&out);
	reader_free(r);
}

TEST(folded_stacks_are_of_one_trigger)
{
	const char *path = fixture_path("two.rprof");
	struct frame frame = ruby_frame("x", 1);
	struct reader_filter none = {0};
	struct err err = {0};
	struct reader *r;
	uint32_t opens;
	struct fixture f;
	struct buf b;

	fixture_create(&f, path);
	recording_add_trigger(f.rec, "syscall:openat", "calls", &opens);
	fixture_sample(&f, f.thread, f.cpu, 500, &frame, 1);
	fixture_sample(&f, f.thread, opens, 1, &frame, 1);
	fixture_sample(&f, f.thread, opens, 1, &frame, 1);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	CHECK_STR(export_default_trigger(r), "cpu");
	buf_init(&b, 1 << 20);
	CHECK_EQ(-export_folded(r, &none, &all, false, fixture_collect, &b, &err), EINVAL);
	b = fold(r, "cpu", false);
	CHECK_STR(b.data, "x 1\n");
	buf_release(&b);
	b = fold(r, "syscall:openat", false);
	CHECK_STR(b.data, "x 2\n");
	buf_release(&b);
	reader_free(r);
}

/* Ruby reads it back and finds every field as it was written. */
static const char check_rb[] =
        "require 'json'\n"
        "text = File.read(ARGV[0], encoding: 'utf-8')\n"
        "$lines = text.lines.map { |l| JSON.parse(l) }\n"
        "def by(type) = $lines.select { |l| l['type'] == type }\n"
        "def same(got, want) = got == want || abort(\"#{got.inspect}, not #{want.inspect}\")\n"
        "same text.valid_encoding?, true\n"
        "same by('meta'), [{'type' => 'meta', 'key' => 'rate_hz', 'value' => '99'}]\n"
        "same by('process')[0].values_at('pid', 'start_time', 'runtime'), [42, 4711, 'ruby']\n"
        "t = by('thread')\n"
        "same t.map { |x| [x['tid'], x['name'], x['process']['pid']] }, [[43, 'main', 42]]\n"
        "same by('trigger'), [{'type' => 'trigger', 'name' => 'cpu', 'unit' => 'ns'}]\n"
        "same by('loss'), [{'type' => 'loss', 'what' => 'ring-buffer-full', 'count' => 2**63 - "
        "1}]\n"
        "s = by('stack')\n"
        "same s.size, 1\n"
        "s = s[0]\n"
        "same s.values_at('samples', 'weight', 'outcome', 'reason'), [2, 84, 'exact', nil]\n"
        "same s['process'], {'pid' => 42, 'start_time' => 4711}\n"
        "same s['thread'], {'tid' => 43, 'comm' => 'worker', 'name' => 'main'}\n"
        "same s['frames'], [\n"
        "  {'kind' => 'ruby', 'role' => nil, 'name' => \"a;\\\"b\\n\\ufffd\\u00e9\",\n"
        "   'owner' => 'A', 'method' => 'A#b', 'first_line' => 10, 'path' => '/app.rb',\n"
        "   'line' => 12, 'library' => nil, 'build_id' => nil, 'file_offset' => nil,\n"
        "   'address' => nil, 'function_address' => nil, 'inlined' => false,\n"
        "   'approximate' => false},\n"
        "  {'kind' => 'kernel', 'role' => 'syscall', 'name' => 'read', 'owner' => nil,\n"
        "   'method' => nil, 'first_line' => nil, 'path' => nil, 'line' => nil,\n"
        "   'library' => '[kernel]', 'build_id' => 'ab', 'file_offset' => 9007199254740993,\n"
        "   'address' => '0xffffffff81000010', 'function_address' => '0xffffffff81000000',\n"
        "   'inlined' => true, 'approximate' => false}]\n"
        "m = by('sample')\n"
        "same m.map { |x| x['time_ns'] }, [1000, 1001]\n"
        "same m.map { |x| x.values_at('frames', 'samples', 'weight') }, [[s['frames'], 1, 42]] * "
        "2\n";

TEST(json_lines_lose_nothing)
{
	const char *path = fixture_path("all.rprof"), *out = fixture_path("all.jsonl"),
	           *rb = fixture_path("check.rb");
	struct frame frames[2] = {
	        ruby_frame("a;\"b\n\xff\xc3\xa9", 12), {.kind = FRAME_KERNEL,
	                                                       .role = ROLE_SYSCALL,
	                                                       .name = "read",
	                                                       .library = "[kernel]",
	                                                       .build_id = "ab",
	                                                       .file_off = 9007199254740993,
	                                                       .addr = 0xffffffff81000010,
	                                                       .func_addr = 0xffffffff81000000,
	                                                       .flags = FRAME_F_INLINED}};
	char command[700];
	struct reader *r;
	struct fixture f;
	struct buf b;
	FILE *file;

	if (system("ruby -rjson -e '' 2>&1") != 0)
		SKIP("no ruby with json here, which tools/setup installs");
	frames[0].owner = "A";
	frames[0].method = "A#b";
	frames[0].first_line = 10;
	fixture_create(&f, path);
	recording_set_meta(f.rec, "rate_hz", "99");
	recording_set_loss(f.rec, "ring-buffer-full", UINT64_MAX);
	fixture_sample(&f, f.thread, f.cpu, 42, frames, 2);
	fixture_sample(&f, f.thread, f.cpu, 42, frames, 2);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	buf_init(&b, 1 << 20);
	CHECK_EQ(export_jsonl(r, NULL, true, fixture_collect, &b, NULL), 0);
	file = fopen(out, "w");
	fwrite(b.data, 1, b.len, file);
	fclose(file);
	file = fopen(rb, "w");
	fputs(check_rb, file);
	fclose(file);
	snprintf(command, sizeof(command), "ruby %s %s 2>&1", rb, out);
	CHECK_EQ(system(command), 0);
	buf_release(&b);
	reader_free(r);
}

static int full(const char *data, size_t len, void *ctx)
{
	return -ENOSPC;
}

TEST(an_output_that_cannot_be_written_is_an_error)
{
	const char *path = fixture_path("nospace.rprof");
	struct reader_filter cpu = {.trigger = "cpu"};
	struct frame frame = ruby_frame("x", 1);
	struct err err = {0};
	struct reader *r;
	struct fixture f;

	fixture_create(&f, path);
	fixture_sample(&f, f.thread, f.cpu, 42, &frame, 1);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	CHECK_EQ(-export_jsonl(r, NULL, false, full, NULL, &err), ENOSPC);
	CHECK(strstr(err.msg, "could not be written") != NULL);
	err = (struct err){0};
	CHECK_EQ(-export_folded(r, &cpu, &all, false, full, NULL, &err), ENOSPC);
	CHECK(strstr(err.msg, "could not be written") != NULL);
	reader_free(r);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
