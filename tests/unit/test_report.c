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

	if (system("command -v python3 >/dev/null") != 0) {
		printf("# SKIP: no python3\n");
		return;
	}
	REQUIRE((r = mixed(&f, fixture_path("json.rprof"))) != NULL);
	REQUIRE(aggregate_init(&a, r, NULL, &view, 5, NULL) == 0);
	buf_init(&b, 1 << 20);
	report_json(&b, r, &a, &o);
	file = fopen(out, "w");
	fwrite(b.data, 1, b.len, file);
	fclose(file);
	snprintf(command, sizeof(command),
	        "python3 -c 'import json,sys; d=json.load(open(sys.argv[1], encoding=\"utf-8\")); "
	        "t=d[\"triggers\"];"
	        "assert [x[\"weight\"] for x in t]==[4000000,1];"
	        "assert t[0][\"frames\"][0][\"self\"]==3000000 and "
	        "t[0][\"outcomes\"][\"exact\"]==2;"
	        "assert len(t[0][\"stacks\"][0][\"frames\"])==2 and "
	        "d[\"losses\"][\"ring-buffer-full\"]==7' %s",
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

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
