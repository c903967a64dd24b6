#include "profile/report.h"
#include "tests/unit/profile_fixture.h"
#include "tests/unit/tap.h"

static const struct hot_frame *find_hot(
        const struct reader *r, const struct trigger_sum *t, const char *name)
{
	for (size_t i = 0; i < t->nr_frames; i++)
		if (strcmp(reader_function(r, t->frames[i].function).name, name) == 0)
			return &t->frames[i];
	return NULL;
}

TEST(recursion_counts_once_in_total)
{
	const char *path = fixture_path("rec.rprof");
	struct frame frames[4] = {ruby_frame("<main>", 1), ruby_frame("rec", 2),
	        ruby_frame("rec", 3), ruby_frame("rec", 3)};
	struct view view = {.mode = VIEW_DEFAULT};
	struct aggregate a;
	struct reader *r;
	struct fixture f;

	fixture_create(&f, path);
	fixture_sample(&f, f.thread, f.cpu, 10, frames, 4);
	fixture_sample(&f, f.thread, f.cpu, 5, frames, 3);
	fixture_sample(&f, f.thread, f.cpu, 1, frames, 1);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	REQUIRE(aggregate_init(&a, r, NULL, &view, 2, NULL) == 0);
	REQUIRE(a.nr_triggers == 1);
	const struct hot_frame *rec = find_hot(r, &a.triggers[0], "rec"), *root;

	root = find_hot(r, &a.triggers[0], "<main>");
	REQUIRE(rec != NULL && root != NULL);
	CHECK_EQ(rec->total, 15);
	CHECK_EQ(rec->self, 15);
	CHECK_EQ(rec->total_samples, 2);
	CHECK_EQ(root->total, 16);
	CHECK_EQ(root->self, 1);
	CHECK_EQ(a.triggers[0].nr_distinct_stacks, 3);
	REQUIRE(a.triggers[0].nr_stacks == 2);
	CHECK_EQ(a.triggers[0].stacks[0].weight, 10);
	CHECK_EQ(a.triggers[0].stacks[0].nr_functions, 4);
	aggregate_release(&a);
	reader_free(r);
}

/* Two triggers over the same stack, two threads, a loss, names that bite. */
static struct reader *mixed(struct fixture *f, const char *path)
{
	struct frame frames[3] = {ruby_frame("<main>", 1),
	        native_frame(ROLE_VM, "vm_exec", "/lib/libruby.so"),
	        ruby_frame("bad\"\n\x1b[31m\xff;", 2)};
	uint32_t opens, other;

	fixture_create(f, path);
	recording_add_trigger(f->rec, "syscall:openat", "calls", &opens);
	recording_add_thread(f->rec, f->process, 44, "io", NULL, &other);
	fixture_sample(f, f->thread, f->cpu, 3000000, frames, 3);
	fixture_sample(f, other, f->cpu, 1000000, frames, 1);
	fixture_sample(f, other, opens, 1, frames, 3);
	recording_set_loss(f->rec, "ring-buffer-full", 7);
	recording_close(f->rec, NULL);
	return fixture_open(path);
}

TEST(triggers_are_never_added_up)
{
	struct view view = {.mode = VIEW_DEFAULT};
	struct aggregate a;
	struct reader *r;
	struct fixture f;

	REQUIRE((r = mixed(&f, fixture_path("mixed.rprof"))) != NULL);
	REQUIRE(aggregate_init(&a, r, NULL, &view, 9, NULL) == 0);
	REQUIRE(a.nr_triggers == 2);
	CHECK_STR(a.triggers[0].trigger->name, "cpu");
	CHECK_EQ(a.triggers[0].weight, 4000000);
	CHECK_EQ(a.triggers[0].nr_threads, 2);
	CHECK_EQ(a.triggers[0].threads[0].thread->tid, 43);
	CHECK_STR(a.triggers[1].trigger->unit, "calls");
	CHECK_EQ(a.triggers[1].weight, 1);
	CHECK_EQ(a.triggers[1].outcomes[STACK_EXACT], 1);
	CHECK(find_hot(r, &a.triggers[0], "vm_exec") == NULL);
	aggregate_release(&a);
	reader_free(r);
}

TEST(the_text_has_each_unit_and_no_control_characters)
{
	struct report_options o = {.top = 20, .stacks = 5};
	struct view view = {.mode = VIEW_ALL};
	struct aggregate a;
	struct reader *r;
	struct fixture f;
	struct buf b;

	REQUIRE((r = mixed(&f, fixture_path("text.rprof"))) != NULL);
	REQUIRE(aggregate_init(&a, r, NULL, &view, 5, NULL) == 0);
	buf_init(&b, 1 << 20);
	report_text(&b, r, &a, &o);
	CHECK(!b.failed);
	CHECK(strstr(b.data, "cpu: 2 samples, 4.0 ms") != NULL);
	CHECK(strstr(b.data, "syscall:openat: 1 sample, 1 call,") != NULL);
	CHECK(strstr(b.data, "ring-buffer-full") != NULL);
	CHECK(strchr(b.data, '\x1b') == NULL);
	CHECK(strstr(b.data, "75.0 %") != NULL);
	buf_release(&b);
	aggregate_release(&a);
	reader_free(r);
}

TEST(functions_of_one_name_are_shown_with_their_first_lines)
{
	struct report_options o = {.top = 20, .stacks = 5};
	const char *path = fixture_path("blocks.rprof");
	struct view view = {.mode = VIEW_DEFAULT};
	struct frame frames[4];
	struct aggregate a;
	struct reader *r;
	struct fixture f;
	struct buf b;

	fixture_blocks(frames);
	fixture_create(&f, path);
	for (size_t i = 1; i <= 4; i++)
		fixture_sample(&f, f.thread, f.cpu, 1000 * i, frames, i);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	REQUIRE(aggregate_init(&a, r, NULL, &view, 5, NULL) == 0);
	CHECK_EQ(a.triggers[0].nr_frames, 4);
	buf_init(&b, 1 << 20);
	report_text(&b, r, &a, &o);
	/* Once among the frames, and in the stacks. */
	for (int i = 0; i < 2; i++) {
		const char *part = i == 0 ? b.data : strstr(b.data, "Hottest stacks");

		CHECK(strstr(part, "ruby    block in <main>  /app.rb:4\n") != NULL);
		CHECK(strstr(part, "ruby    block in <main>  /app.rb:8\n") != NULL);
		CHECK(strstr(part, "ruby    block in <main> (Shop#GET /hello)  /app.rb\n") != NULL);
		CHECK(strstr(part, "ruby    Foo#bar  /app.rb\n") != NULL);
	}
	buf_reset(&b);
	report_json(&b, r, &a, &o);
	CHECK(strstr(b.data, "\"name\":\"block in <main>\",\"owner\":null,\"method\":\"Shop#GET "
	                     "/hello\",\"path\":\"/app.rb\",\"first_line\":12,") != NULL);
	buf_release(&b);
	aggregate_release(&a);
	reader_free(r);
}

TEST(the_json_is_json)
{
	const char *out = fixture_path("report.json");
	struct report_options o = {.top = 20, .stacks = 5};
	struct view view = {.mode = VIEW_DEFAULT};
	struct aggregate a;
	struct reader *r;
	struct fixture f;
	char command[1024];
	struct buf b;
	FILE *file;

	if (system("ruby -rjson -e '' 2>&1") != 0)
		SKIP("no ruby with json here, which tools/setup installs");
	REQUIRE((r = mixed(&f, fixture_path("json.rprof"))) != NULL);
	REQUIRE(aggregate_init(&a, r, NULL, &view, 5, NULL) == 0);
	buf_init(&b, 1 << 20);
	report_json(&b, r, &a, &o);
	file = fopen(out, "w");
	fwrite(b.data, 1, b.len, file);
	fclose(file);
	snprintf(command, sizeof(command),
	        "ruby -rjson -e 'text = File.read(ARGV[0], encoding: \"utf-8\"); "
	        "d = JSON.parse(text); t = d[\"triggers\"]; exit text.valid_encoding? && "
	        "t.map { |x| x[\"weight\"] } == [4000000, 1] && "
	        "t[0][\"frames\"][0][\"self\"] == 3000000 && t[0][\"outcomes\"][\"exact\"] == 2 && "
	        "t[0][\"stacks\"][0][\"frames\"].size == 2 && "
	        "d[\"losses\"][\"ring-buffer-full\"] == 7' %s 2>&1",
	        out);
	CHECK_EQ(system(command), 0);
	buf_release(&b);
	aggregate_release(&a);
	reader_free(r);
}

TEST(a_stack_that_the_view_hides_is_accounted_for)
{
	const char *path = fixture_path("hidden.rprof");
	struct frame frame = native_frame(ROLE_VM, "timer", "/lib/libruby.so");
	struct view view = {.mode = VIEW_RUBY};
	struct aggregate a;
	struct reader *r;
	struct fixture f;

	fixture_create(&f, path);
	fixture_sample(&f, f.thread, f.cpu, 6, &frame, 1);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	REQUIRE(aggregate_init(&a, r, NULL, &view, 5, NULL) == 0);
	CHECK_EQ(a.triggers[0].weight, 6);
	CHECK_EQ(a.triggers[0].unseen, 6);
	CHECK_EQ(a.triggers[0].nr_frames, 0);
	aggregate_release(&a);
	reader_free(r);
}

/* nr samples of a stack that is cut in library. */
static void add_cut(struct fixture *f, int nr, enum stack_reason reason, const char *library)
{
	struct frame frames[4] = {ruby_frame("<main>", 1),
	        native_frame(ROLE_LIB, "outermost", library),
	        native_frame(ROLE_LIB, "inner", "/lib/inner.so"), ruby_frame("leaf", 2)};

	f->outcome = reason < REASON_NATIVE_LIMIT ? STACK_TRANSIENT : STACK_TRUNCATED;
	f->reason = (uint8_t)reason;
	for (int i = 0; i < nr; i++)
		fixture_sample(f, f->thread, f->cpu, 1, frames, 4);
}

TEST(marks_on_more_than_one_per_cent_are_explained_and_name_the_library)
{
	const char *path = fixture_path("marks.rprof");
	struct report_options o = {.top = 20, .stacks = 0};
	struct view view = {.mode = VIEW_RUBY};
	struct aggregate a;
	struct reader *r;
	struct fixture f;
	struct buf b;

	fixture_create(&f, path);
	add_cut(&f, 3, REASON_NO_CFI, "/usr/lib/libgmp.so.10");
	add_cut(&f, 1, REASON_PUSHING, "/usr/lib/libpush.so");
	add_cut(&f, 2, REASON_NO_TABLE, "/x/liba.so");
	add_cut(&f, 3, REASON_NO_TABLE, "/x/li\x1b[31mb.so");
	f.outcome = STACK_NO_CONTEXT;
	f.reason = REASON_NONE;
	for (int i = 0; i < 2; i++)
		fixture_sample(&f, f.thread, f.cpu, 1, NULL, 0);
	f.outcome = STACK_EXACT;
	for (int i = 0; i < 89; i++)
		fixture_sample(&f, f.thread, f.cpu, 1, NULL, 0);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	REQUIRE(aggregate_init(&a, r, NULL, &view, 5, NULL) == 0);
	CHECK_EQ(a.triggers[0].nr_samples, 100);
	buf_init(&b, 1 << 20);
	report_text(&b, r, &a, &o);
	CHECK(strstr(b.data, "  3.0 %  no-cfi: the outermost native frames of these stacks are "
	                     "missing, because there is no unwind information for code of "
	                     "libgmp.so.10; their Ruby frames") != NULL);
	CHECK(strstr(b.data, "unwind table for li?[31mb.so and others yet") != NULL);
	CHECK(strstr(b.data, "  2.0 %  no-context: these are threads") != NULL);
	/* One per cent is not more than one: the half sentence is enough. */
	CHECK(strstr(b.data, "  1.0 %  pushing: a frame had been pushed") != NULL);
	CHECK(strstr(b.data, "libpush") == NULL);
	CHECK(strchr(b.data, '\x1b') == NULL);
	buf_release(&b);
	aggregate_release(&a);
	reader_free(r);
}

TEST(every_reason_has_a_meaning_of_its_own)
{
	char seen[32][400];
	size_t nr = 0;

	for (int i = 1; i < STACK_NR_REASONS; i++) {
		struct buf b;

		if (strcmp(stack_reason_name((enum stack_reason)i), "unknown") == 0)
			continue;
		buf_init(&b, sizeof(seen[0]));
		stack_meaning(&b, STACK_TRUNCATED, (enum stack_reason)i, NULL);
		CHECK(!b.failed && b.len > 40 && strchr(b.data, '%') == NULL);
		CHECK(strstr(b.data, "newer") == NULL);
		REQUIRE(b.data != NULL);
		for (size_t k = 0; k < nr; k++)
			CHECK(strcmp(seen[k], b.data) != 0);
		snprintf(seen[nr++], sizeof(seen[0]), "%s", b.data);
		buf_release(&b);
	}
	CHECK(nr >= 15);
}

TEST(an_exact_stack_and_an_unknown_mark_are_not_explained_away)
{
	struct buf b;

	buf_init(&b, 1000);
	stack_meaning(&b, STACK_EXACT, REASON_NONE, NULL);
	CHECK_EQ(b.len, 0);
	stack_meaning(&b, STACK_TRUNCATED, (enum stack_reason)200, NULL);
	CHECK(b.data != NULL && strstr(b.data, "newer rprof") != NULL);
	buf_release(&b);
}

TEST(more_libraries_than_are_counted_are_others)
{
	struct stack_cuts cuts = {0};
	char names[20][16];
	struct buf b;

	for (int i = 0; i < 20; i++) {
		snprintf(names[i], sizeof(names[i]), "/l/lib%d.so", i);
		stack_cuts_add(&cuts, names[i], 1);
	}
	stack_cuts_add(&cuts, "/l/lib3.so", 5);
	stack_cuts_add(&cuts, NULL, 9);
	CHECK(cuts.more);
	buf_init(&b, 1000);
	stack_meaning(&b, STACK_TRUNCATED, REASON_NO_CFI, &cuts);
	CHECK(strstr(b.data, "lib3.so and others;") != NULL);
	buf_release(&b);
}

TEST(a_frame_that_calls_itself_is_one_line_that_says_how_often)
{
	const char *path = fixture_path("times.rprof");
	struct frame frames[5] = {ruby_frame("<main>", 1), ruby_frame("rec", 2),
	        ruby_frame("rec", 2), ruby_frame("rec", 2), ruby_frame("del\x7f\x7f\x01", 9)};
	struct report_options o = {.top = 20, .stacks = 5};
	struct view view = {.mode = VIEW_ALL};
	struct aggregate a;
	struct reader *r;
	struct fixture f;
	struct buf b;

	fixture_create(&f, path);
	fixture_sample(&f, f.thread, f.cpu, 10, frames, 5);
	recording_close(f.rec, NULL);
	REQUIRE((r = fixture_open(path)) != NULL);
	REQUIRE(aggregate_init(&a, r, NULL, &view, 5, NULL) == 0);
	buf_init(&b, 1 << 20);
	report_text(&b, r, &a, &o);
	CHECK(strstr(b.data, "rec  (3 times)") != NULL);
	CHECK(strstr(b.data, "del???") != NULL);
	CHECK(strchr(b.data, '\x7f') == NULL);
	buf_release(&b);
	aggregate_release(&a);
	reader_free(r);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
