/*
 * Makes a recording for the tests of the page, and the page.
 *
 *	generate spec SPEC OUT.rprof OUT.html    a recording as SPEC says
 *	generate large N OUT.rprof OUT.html      N distinct stacks, each of weight 1 ms
 *
 * A line of SPEC is a stack, fields separated by tabs: pid, tid, thread's name, trigger, unit,
 *outcome, reason, weight, then frames, root first: kind, role, name, path, line, library, first
 *line, method, language, each field in one tab column.
 */
#include "profile/flamegraph.h"
#include "profile/recording.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FRAMES = 256 };

static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "generate: %s: %s\n", what, err->msg);
	exit(1);
}

static const char *text_or_null(const char *s)
{
	return *s == '\0' ? NULL : s;
}

static const char *field(char **rest)
{
	char *s = strsep(rest, "\t\n");

	return s == NULL ? "" : s;
}

static void add_line(struct recording *rec, char *line, uint64_t time_ns)
{
	struct recording_process process = {.comm = "ruby", .runtime = "ruby"};
	struct recording_sample sample = {.time_ns = time_ns};
	uint32_t frames[MAX_FRAMES], process_id;
	const char *thread, *trigger;
	size_t nr = 0;
	int tid;

	process.pid = atoi(field(&line));
	process.start_time = (uint64_t)process.pid;
	process.command_line = "ruby app.rb --port 3000";
	process.runtime_description = "ruby 3.1.2p20";
	tid = atoi(field(&line));
	thread = field(&line);
	trigger = field(&line);
	recording_add_process(rec, &process, &process_id);
	recording_add_thread(rec, process_id, tid, "ruby", text_or_null(thread), &sample.thread);
	recording_add_trigger(rec, trigger, field(&line), &sample.trigger);
	sample.outcome = (uint8_t)atoi(field(&line));
	sample.reason = (uint8_t)atoi(field(&line));
	sample.weight = strtoull(field(&line), NULL, 10);
	while (line != NULL && *line != '\0' && nr < MAX_FRAMES) {
		struct frame f = {0};

		f.kind = (uint8_t)atoi(field(&line));
		f.role = (uint8_t)atoi(field(&line));
		f.name = field(&line);
		f.path = text_or_null(field(&line));
		f.line = (uint32_t)atoi(field(&line));
		f.library = text_or_null(field(&line));
		f.first_line = (uint32_t)atoi(field(&line));
		f.method = text_or_null(field(&line));
		f.language = text_or_null(field(&line));
		recording_intern_frame(rec, &f, &frames[nr++]);
	}
	recording_intern_stack(rec, frames, nr, &sample.stack);
	recording_add_sample(rec, &sample);
}

static void add_spec(struct recording *rec, const char *path)
{
	FILE *spec = fopen(path, "re");
	char *line = NULL;
	size_t cap = 0;
	uint64_t time_ns = 1;

	if (spec == NULL) {
		perror(path);
		exit(1);
	}
	while (getline(&line, &cap, spec) > 0)
		add_line(rec, line, time_ns++);
	free(line);
	fclose(spec);
	recording_set_loss(rec, "ring-buffer-full", 12);
}

/* Like a web application's: a common root, 24 levels of calls with few callees each, a leaf that no
 * other stack has. */
static void add_large(struct recording *rec, unsigned long nr_stacks)
{
	struct recording_process process = {.pid = 1, .comm = "puma", .runtime = "ruby"};
	uint32_t process_id, threads[8], trigger;
	uint64_t random = 88172645463325252u;

	recording_add_process(rec, &process, &process_id);
	recording_add_trigger(rec, "cpu", "ns", &trigger);
	for (int i = 0; i < 8; i++)
		recording_add_thread(rec, process_id, 100 + i, "puma worker", NULL, &threads[i]);
	for (unsigned long i = 0; i < nr_stacks; i++) {
		struct recording_sample sample = {
		        .time_ns = i + 1, .trigger = trigger, .weight = 1000000, .outcome = 1};
		uint32_t frames[64];
		uint64_t choice = 1;
		size_t nr = 0;
		char name[64], path[64];

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		for (int depth = 0; depth < 24; depth++) {
			/* The choices of a level are skewed, so that some stacks are hot above and
			 * all differ below. */
			unsigned int pick = random >> (2 * depth) & 3;
			struct frame f = {.kind = FRAME_INTERP, .name = name, .path = path};

			choice = depth < 4 ? 1 : (choice * 4 + (pick == 3 ? 1 : pick)) % 1999;
			snprintf(name, sizeof(name), "App::Layer%d#step_%u", depth,
			        (unsigned int)choice);
			snprintf(path, sizeof(path), "/srv/app/lib/layer%d.rb", depth);
			f.line = 10 + (unsigned int)choice % 7;
			recording_intern_frame(rec, &f, &frames[nr++]);
			if (depth % 3 == 0) {
				struct frame vm = {.kind = FRAME_NATIVE,
				        .role = ROLE_VM,
				        .name = "vm_exec",
				        .library = "/usr/lib/libruby-3.1.so.3.1"};

				recording_intern_frame(rec, &vm, &frames[nr++]);
			}
		}
		struct frame leaf = {.kind = FRAME_INTERP_C, .name = "String#gsub", .line = 0};
		struct frame last = {
		        .kind = FRAME_INTERP, .name = name, .path = "/srv/app/leaf.rb"};

		recording_intern_frame(rec, &leaf, &frames[nr++]);
		snprintf(name, sizeof(name), "Leaf#call_%lu", i);
		last.line = 1;
		recording_intern_frame(rec, &last, &frames[nr++]);
		recording_intern_stack(rec, frames, nr, &sample.stack);
		sample.thread = threads[i % 8];
		recording_add_sample(rec, &sample);
	}
}

int main(int argc, char **argv)
{
	struct flamegraph_options options = {0};
	struct flamegraph *fg;
	struct recording *rec;
	struct reader *reader;
	struct err err = {0};
	FILE *out;

	if (argc != 5)
		return 2;
	unlink(argv[3]);
	if (recording_create(argv[3], &rec, &err) != 0)
		die("recording_create", &err);
	recording_set_meta(rec, "rate_hz", "99");
	recording_set_meta(rec, "duration_ns", "10000000000");
	if (strcmp(argv[1], "large") == 0)
		add_large(rec, strtoul(argv[2], NULL, 10));
	else
		add_spec(rec, argv[2]);
	if (recording_close(rec, &err) != 0)
		die("recording_close", &err);
	if (reader_open(argv[3], &reader, &err) != 0)
		die("reader_open", &err);
	if (flamegraph_new(reader, &options, &fg, &err) != 0)
		die("flamegraph_new", &err);
	out = fopen(argv[4], "we");
	if (out == NULL || flamegraph_write(fg, out, &err) != 0 || fclose(out) != 0)
		die("flamegraph_write", &err);
	flamegraph_free(fg);
	reader_free(reader);
	return 0;
}
