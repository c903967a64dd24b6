/* Recordings for the tests of profile/: a directory of their own and a writer with short names. */
#ifndef TESTS_UNIT_PROFILE_FIXTURE_H
#define TESTS_UNIT_PROFILE_FIXTURE_H

#include "base/buf.h"
#include "profile/reader.h"
#include "profile/recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char fixture_dir[64];

static void fixture_remove(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", fixture_dir);
	if (system(command) != 0)
		fprintf(stderr, "# %s stays behind\n", fixture_dir);
}

static inline const char *fixture_path(const char *name)
{
	static char paths[4][256];
	static int next;
	char *path = paths[next++ % 4];

	if (fixture_dir[0] == '\0') {
		strcpy(fixture_dir, "/tmp/rprof-test-XXXXXX");
		if (mkdtemp(fixture_dir) == NULL)
			abort();
		atexit(fixture_remove);
	}
	snprintf(path, 256, "%s/%s", fixture_dir, name);
	return path;
}

struct fixture {
	struct recording *rec;
	uint32_t process, thread, cpu;
	uint64_t time_ns;
	uint8_t outcome, reason; /* of the samples that follow */
};

static inline void fixture_create(struct fixture *f, const char *path)
{
	struct recording_process p = {.pid = 42,
	        .start_time = 4711,
	        .comm = "ruby",
	        .command_line = "ruby app.rb",
	        .runtime = "ruby",
	        .runtime_description = "ruby 3.1.2p20"};
	struct err err = {0};

	*f = (struct fixture){.time_ns = 1000, .outcome = STACK_EXACT};
	if (recording_create(path, &f->rec, &err) != 0) {
		fprintf(stderr, "# %s\n", err.msg);
		abort();
	}
	recording_add_process(f->rec, &p, &f->process);
	recording_add_thread(f->rec, f->process, 43, "worker", "main", &f->thread);
	recording_add_trigger(f->rec, "cpu", "ns", &f->cpu);
}

/* frames: root first. */
static inline int fixture_sample(struct fixture *f, uint32_t thread, uint32_t trigger,
        uint64_t weight, const struct frame *frames, size_t nr)
{
	uint32_t *ids = calloc(nr + 1, sizeof(*ids)), stack = 0;
	struct recording_sample s;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < nr; i++)
		rc = recording_intern_frame(f->rec, &frames[i], &ids[i]);
	if (rc == 0)
		rc = recording_intern_stack(f->rec, ids, nr, &stack);
	s = (struct recording_sample){.time_ns = f->time_ns++,
	        .thread = thread,
	        .stack = stack,
	        .trigger = trigger,
	        .weight = weight,
	        .outcome = f->outcome,
	        .reason = f->reason};
	if (rc == 0)
		rc = recording_add_sample(f->rec, &s);
	free(ids);
	return rc;
}

static inline struct frame ruby_frame(const char *name, uint32_t line)
{
	return (struct frame){.kind = FRAME_INTERP, .name = name, .path = "/app.rb", .line = line};
}

/* Two blocks of one label that begin on lines 4 and 8, a method made of a third one, and a method
 * whose name nobody shares. */
static inline void fixture_blocks(struct frame frames[4])
{
	for (uint32_t i = 0; i < 3; i++) {
		frames[i] = ruby_frame("block in <main>", 5 + 4 * i);
		frames[i].first_line = 4 + 4 * i;
	}
	frames[2].method = "Shop#GET /hello";
	frames[3] = ruby_frame("Foo#bar", 21);
	frames[3].first_line = 20;
}

/* A stack of two languages: Ruby, and one that no reader of rprof has heard of, with a name of
 * Ruby's. */
static inline void fixture_languages(struct frame frames[4])
{
	frames[0] = ruby_frame("<main>", 1);
	frames[0].language = "ruby";
	for (uint32_t i = 1; i < 4; i++) {
		frames[i] = ruby_frame("<main>", 2);
		frames[i].language = "toy";
	}
	frames[2].kind = FRAME_INTERP_C;
	frames[3].kind = FRAME_INTERP_JIT;
}

static inline struct frame native_frame(enum frame_role role, const char *name, const char *library)
{
	return (struct frame){
	        .kind = FRAME_NATIVE, .role = role, .name = name, .library = library, .addr = 1};
}

static inline struct reader *fixture_open(const char *path)
{
	struct reader *r = NULL;
	struct err err = {0};

	if (reader_open(path, &r, &err) != 0)
		printf("# %s\n", err.msg);
	return r;
}

static inline int fixture_collect(const char *data, size_t len, void *ctx)
{
	return buf_append(ctx, data, len);
}

#endif
