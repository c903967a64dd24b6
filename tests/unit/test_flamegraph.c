/* What is written; tests/browser tries what the page makes of it. */
#include "profile/flame_tree.h"
#include "profile/flamegraph.h"
#include "tests/unit/profile_fixture.h"
#include "tests/unit/tap.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/rprof-flamegraph-XXXXXX";

/* A recording with one sample for each outcome: a start-up frame, Ruby, plumbing, a method of the
 * given name. */
static struct reader *make_reader(const char *name, size_t nr_samples)
{
	const struct recording_process process = {.pid = 7, .comm = name, .command_line = name};
	const struct frame frames[] = {
	        {.kind = FRAME_NATIVE, .role = ROLE_LIB, .name = "start", .library = "libc.so.6"},
	        {.kind = FRAME_INTERP, .name = "<main>", .path = "a.rb", .line = 1},
	        {.kind = FRAME_NATIVE, .role = ROLE_VM, .name = "vm_exec"},
	        {.kind = FRAME_INTERP, .name = name, .path = name, .line = 2},
	};
	uint32_t ids[ARRAY_SIZE(frames)], process_id;
	struct recording_sample sample = {.weight = 5};
	struct recording *rec;
	struct reader *reader = NULL;

	snprintf(path, sizeof(path), "/tmp/rprof-flamegraph-XXXXXX");
	close(mkstemp(path));
	unlink(path);
	if (recording_create(path, &rec, NULL) != 0)
		return NULL;
	recording_add_process(rec, &process, &process_id);
	recording_add_thread(rec, process_id, 7, name, name, &sample.thread);
	recording_add_trigger(rec, "cpu", "ns", &sample.trigger);
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++)
		recording_intern_frame(rec, &frames[i], &ids[i]);
	recording_intern_stack(rec, ids, ARRAY_SIZE(ids), &sample.stack);
	for (size_t i = 0; i < nr_samples; i++) {
		sample.time_ns = i + 1;
		sample.outcome = i == 0 ? STACK_EXACT : STACK_TRUNCATED;
		sample.reason = i == 0 ? REASON_NONE : i == 1 ? REASON_NO_CFI : REASON_INTERP_LIMIT;
		if (i == 3) {
			sample.outcome = STACK_TRANSIENT;
			sample.reason = REASON_LINE;
		}
		recording_add_sample(rec, &sample);
	}
	if (recording_close(rec, NULL) != 0 || reader_open(path, &reader, NULL) != 0)
		return NULL;
	unlink(path);
	return reader;
}

TEST(a_name_cannot_leave_the_script_element_that_holds_the_data)
{
	struct reader *reader = make_reader("</script><img onerror=x><!-- \xff\"\\", 1);
	const struct flamegraph_options options = {0};
	struct flamegraph *fg = NULL;
	char *html = NULL, *data, *end;
	size_t sz;
	FILE *out = open_memstream(&html, &sz);

	REQUIRE(reader != NULL && out != NULL);
	REQUIRE(flamegraph_new(reader, &options, &fg, NULL) == 0);
	CHECK_EQ(flamegraph_write(fg, out, NULL), 0);
	fclose(out);
	data = strstr(html, "id=\"profile\">");
	REQUIRE(data != NULL);
	end = strstr(data, "</script>");
	REQUIRE(end != NULL);
	CHECK(memchr(data, '<', (size_t)(end - data)) == NULL);
	CHECK(end[-1] == '}');
	CHECK(strstr(html, "<img") == NULL);
	CHECK(strstr(html, "{{") == NULL);
	free(html);
	flamegraph_free(fg);
	reader_free(reader);
}

TEST(a_node_says_which_rule_would_fold_it)
{
	struct reader *reader = make_reader("A#b", 1);
	const enum flame_fold want[] = {FOLD_STARTUP, FOLD_NONE, FOLD_VM, FOLD_NONE};
	struct flame_tree tree;

	REQUIRE(reader != NULL);
	REQUIRE(flame_tree_init(&tree, reader, NULL) == 0);
	REQUIRE(tree.nr_nodes == ARRAY_SIZE(want) + 1);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		CHECK_EQ(tree.nodes[tree.order[i]].fold, want[i]);
	flame_tree_release(&tree);
	reader_free(reader);
}

TEST(a_stack_that_is_not_exact_has_one_node_more_at_the_end_where_it_was_cut)
{
	/* The last one's line alone is not exact: it ends where the exact one does. */
	struct reader *reader = make_reader("A#b", 4);
	struct flame_tree tree;
	size_t nr_at_root = 0, nr_at_leaf = 0;

	REQUIRE(reader != NULL);
	REQUIRE(flame_tree_init(&tree, reader, NULL) == 0);
	/* One path for the exact stack and for that whose native part was cut, another below the
	 * mark at the root. */
	CHECK_EQ(tree.nr_nodes, 1 + (4 + 1) + (1 + 4));
	CHECK_EQ(tree.nr_stacks, 1);
	for (size_t i = 1; i < tree.nr_nodes; i++) {
		const struct flame_node *n = &tree.nodes[i];

		if (tree.functions[tree.frames[n->frame].function].kind != FLAME_MARK)
			continue;
		nr_at_root += n->parent == 0;
		nr_at_leaf += n->first_child == 0;
	}
	CHECK_EQ(nr_at_root, 1);
	CHECK_EQ(nr_at_leaf, 1);
	flame_tree_release(&tree);
	reader_free(reader);
}

/* Callees at two addresses each: two stacks of the recording, one node. */
TEST(a_function_with_many_callees_has_each_once)
{
	const struct recording_process process = {.pid = 7, .comm = "c", .command_line = "c"};
	struct recording_sample sample = {.weight = 5, .outcome = STACK_EXACT};
	struct frame caller = {.kind = FRAME_INTERP, .name = "<main>", .path = "a.rb"},
	             callee = caller;
	enum { NR_CALLEES = 40 };
	struct reader *reader = NULL;
	struct recording *rec;
	struct flame_tree tree;
	uint32_t ids[2], process_id;
	char name[32];

	snprintf(path, sizeof(path), "/tmp/rprof-flamegraph-XXXXXX");
	close(mkstemp(path));
	unlink(path);
	REQUIRE(recording_create(path, &rec, NULL) == 0);
	recording_add_process(rec, &process, &process_id);
	recording_add_thread(rec, process_id, 7, "c", NULL, &sample.thread);
	recording_add_trigger(rec, "cpu", "ns", &sample.trigger);
	recording_intern_frame(rec, &caller, &ids[0]);
	callee.name = name;
	for (uint64_t addr = 1; addr <= 2; addr++) {
		for (int i = 0; i < NR_CALLEES; i++) {
			snprintf(name, sizeof(name), "callee %d", i);
			callee.addr = addr;
			recording_intern_frame(rec, &callee, &ids[1]);
			recording_intern_stack(rec, ids, ARRAY_SIZE(ids), &sample.stack);
			recording_add_sample(rec, &sample);
		}
	}
	REQUIRE(recording_close(rec, NULL) == 0 && reader_open(path, &reader, NULL) == 0);
	unlink(path);
	REQUIRE(flame_tree_init(&tree, reader, NULL) == 0);
	CHECK_EQ(tree.nr_stacks, 2 * NR_CALLEES);
	CHECK_EQ(tree.nr_nodes, 1 + 1 + NR_CALLEES);
	CHECK_EQ(tree.nr_weights, NR_CALLEES);
	for (size_t i = 0; i < tree.nr_weights; i++)
		CHECK_EQ(tree.weights[i].nr_samples, 2);
	flame_tree_release(&tree);
	reader_free(reader);
}

TEST(functions_that_share_a_name_are_boxes_of_their_own)
{
	static const char *const want[] = {"block in <main> app.rb:4", "block in <main> app.rb:8",
	        "block in <main> (Shop#GET /hello)", "Foo#bar"};
	struct frame frames[4];
	struct flame_tree tree;
	struct reader *reader;
	struct fixture f;

	fixture_blocks(frames);
	fixture_create(&f, fixture_path("blocks.rprof"));
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		fixture_sample(&f, f.thread, f.cpu, 1, &frames[i], 1);
		frames[i].line++; /* another line of it is the same box to the page */
		fixture_sample(&f, f.thread, f.cpu, 1, &frames[i], 1);
	}
	recording_close(f.rec, NULL);
	REQUIRE((reader = fixture_open(fixture_path("blocks.rprof"))) != NULL);
	REQUIRE(flame_tree_init(&tree, reader, NULL) == 0);
	REQUIRE(tree.nr_functions == ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		CHECK_STR(tree.strings[tree.functions[i].name], want[i]);
	CHECK_EQ(tree.nr_frames, 2 * ARRAY_SIZE(want));
	flame_tree_release(&tree);
	reader_free(reader);
}

TEST(no_samples_unknown_triggers_and_unknown_threads_are_refused)
{
	struct reader *reader = make_reader("A#b", 0);
	struct flamegraph_options options = {0};
	struct flamegraph *fg = NULL;
	struct err err = {0};

	REQUIRE(reader != NULL);
	CHECK_EQ(-flamegraph_new(reader, &options, &fg, &err), ENODATA);
	reader_free(reader);
	reader = make_reader("A#b", 1);
	REQUIRE(reader != NULL);
	options.trigger = "off-cpu";
	CHECK_EQ(-flamegraph_new(reader, &options, &fg, &err), EINVAL);
	CHECK(strstr(err.msg, "'cpu'") != NULL);
	options = (struct flamegraph_options){.tid = 8};
	CHECK_EQ(-flamegraph_new(reader, &options, &fg, &err), EINVAL);
	CHECK(fg == NULL);
	reader_free(reader);
}

/* One thread, one trigger: each sample has the frames, an outcome and a reason. */
static struct reader *reader_of(
        const struct frame *frames, size_t nr, size_t nr_outcomes, const uint8_t (*outcomes)[2])
{
	const struct recording_process process = {.pid = 7, .comm = "c", .command_line = "c"};
	struct recording_sample sample = {.weight = 5};
	struct reader *reader = NULL;
	struct recording *rec;
	uint32_t ids[8], process_id;

	snprintf(path, sizeof(path), "/tmp/rprof-flamegraph-XXXXXX");
	close(mkstemp(path));
	unlink(path);
	if (nr > ARRAY_SIZE(ids) || recording_create(path, &rec, NULL) != 0)
		return NULL;
	recording_add_process(rec, &process, &process_id);
	recording_add_thread(rec, process_id, 7, "c", "c", &sample.thread);
	recording_add_trigger(rec, "cpu", "ns", &sample.trigger);
	for (size_t i = 0; i < nr_outcomes; i++) {
		/* Another address each time: a stack of its own in the recording. */
		for (size_t k = 0; k < nr; k++) {
			struct frame f = frames[k];

			f.addr += f.kind == FRAME_NATIVE ? i : 0;
			recording_intern_frame(rec, &f, &ids[k]);
		}
		recording_intern_stack(rec, ids, nr, &sample.stack);
		sample.time_ns = i + 1;
		sample.outcome = outcomes[i][0];
		sample.reason = outcomes[i][1];
		recording_add_sample(rec, &sample);
	}
	if (recording_close(rec, NULL) != 0 || reader_open(path, &reader, NULL) != 0)
		return NULL;
	unlink(path);
	return reader;
}

static const struct frame two_frames[] = {
        {.kind = FRAME_INTERP, .name = "<main>", .path = "a.rb", .line = 1},
        {.kind = FRAME_NATIVE, .role = ROLE_EXT, .name = "fast", .library = "x.so", .addr = 16},
};

TEST(stacks_that_differ_in_addresses_alone_are_one_with_all_their_weight)
{
	static const uint8_t exact[3][2] = {{STACK_EXACT}, {STACK_EXACT}, {STACK_EXACT}};
	struct reader *reader = reader_of(two_frames, 2, 3, exact);
	struct flame_tree tree;

	REQUIRE(reader != NULL);
	REQUIRE(flame_tree_init(&tree, reader, NULL) == 0);
	CHECK_EQ(tree.nr_nodes, 3);
	REQUIRE(tree.nr_weights == 1);
	CHECK_EQ(tree.weights[0].weight, 15);
	CHECK_EQ(tree.weights[0].nr_samples, 3);
	flame_tree_release(&tree);
	reader_free(reader);
}

/* A mark for each outcome and reason that is not exact, and none for what is whole. */
TEST(each_stack_that_is_not_exact_is_marked)
{
	static const uint8_t outcomes[][2] = {{STACK_EXACT, REASON_NONE},
	        {STACK_NO_CONTEXT, REASON_NONE}, {STACK_TRANSIENT, REASON_LINE},
	        {STACK_TRANSIENT, REASON_PUSHING}, {STACK_TRANSIENT, REASON_UNPLACED},
	        {STACK_TRUNCATED, REASON_NO_CFI}};
	static const char *const marks[] = {
	        "(transient: pushing)", "(transient: unplaced)", "(truncated: no CFI)"};
	struct reader *reader = reader_of(two_frames, 2, ARRAY_SIZE(outcomes), outcomes);
	struct flame_tree tree;
	size_t nr = 0;

	REQUIRE(reader != NULL);
	REQUIRE(flame_tree_init(&tree, reader, NULL) == 0);
	for (size_t i = 0; i < tree.nr_functions; i++) {
		const struct flame_function *f = &tree.functions[i];
		bool found = false;

		if (f->kind != FLAME_MARK)
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(marks); k++)
			found |= strcmp(tree.strings[f->name], marks[k]) == 0;
		if (!found)
			TAP_FAIL("there is a mark %s", tree.strings[f->name]);
		nr++;
	}
	CHECK_EQ(nr, ARRAY_SIZE(marks));
	CHECK_EQ(tree.nr_nodes, 1 + 2 + ARRAY_SIZE(marks));
	flame_tree_release(&tree);
	reader_free(reader);
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
