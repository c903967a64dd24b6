/*
 * feed FILE SAMPLES STACKS: writes a recording of SAMPLES samples in STACKS distinct stacks of 40
 * frames the way the recorder does, and prints what it needed as JSON. The stacks make a tree as
 * those of a program do: the same roots, ever more leaves.
 */
#include "profile/recording.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { DEPTH = 40, SHARED = 34, NR_FUNCTIONS = 4000, COMMIT_EVERY = 10000, NR_THREADS = 8 };

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* xorshift64: the same samples in each run. */
static uint32_t random_u32(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)(*state >> 32);
}

static uint64_t peak_kb(void)
{
	char line[256];
	uint64_t kb = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "VmHWM: %" SCNu64, &kb) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return kb;
}

static int add_frames(struct recording *rec, uint32_t *frames)
{
	int rc = 0;

	for (uint32_t i = 0; i < NR_FUNCTIONS && rc == 0; i++) {
		char name[64], path[64];
		struct frame frame = {
		        .kind = i % 3 == 0 ? FRAME_NATIVE : FRAME_INTERP,
		        .line = 1 + i % 500,
		        .name = name,
		        .addr = 0x7f0000000000 + i * 64,
		        .func_addr = 0x7f0000000000 + i * 64,
		};

		if (frame.kind == FRAME_NATIVE) {
			snprintf(name, sizeof(name), "rb_function_%u", i);
			frame.role = ROLE_VM;
			frame.library = "/usr/lib/libruby-3.1.so.3.1";
			frame.file_off = i * 64;
		} else {
			snprintf(name, sizeof(name), "Class%u#method_%u", i / 20, i);
			snprintf(path, sizeof(path), "/srv/app/lib/file_%u.rb", i / 40);
			frame.path = path;
			frame.addr = 0;
			frame.func_addr = 0;
		}
		rc = recording_intern_frame(rec, &frame, &frames[i]);
	}
	return rc;
}

/* The stack of number which: what recurs has the same frames. */
static void make_stack(const uint32_t *frames, uint32_t which, uint32_t *stack)
{
	uint64_t outer = 88172645463325252ULL + which % 100, inner = 362436069ULL + which;

	for (int i = 0; i < 8; i++)
		random_u32(&inner);
	for (int i = 0; i < DEPTH; i++)
		stack[i] = frames[random_u32(i < SHARED ? &outer : &inner) % NR_FUNCTIONS];
}

static int feed(struct recording *rec, uint32_t nr_samples, uint32_t nr_stacks, struct err *err)
{
	static uint32_t frames[NR_FUNCTIONS];
	uint32_t process, threads[NR_THREADS], trigger, stack[DEPTH];
	struct recording_process info = {
	        .pid = 1, .comm = "ruby", .command_line = "ruby app.rb", .runtime = "ruby"};
	uint64_t random = 2463534242ULL;
	int rc = recording_add_process(rec, &info, &process);

	for (int i = 0; i < NR_THREADS && rc == 0; i++)
		rc = recording_add_thread(rec, process, i + 1, "ruby", "", &threads[i]);
	if (rc == 0)
		rc = recording_add_trigger(rec, "cpu", "ns", &trigger);
	if (rc == 0)
		rc = add_frames(rec, frames);
	for (uint32_t i = 0; i < nr_samples && rc == 0; i++) {
		struct recording_sample sample = {
		        .time_ns = 1000000000ULL + i * 10101010ULL,
		        .thread = threads[random_u32(&random) % NR_THREADS],
		        .trigger = trigger,
		        .weight = 10101010,
		        .outcome = STACK_EXACT,
		};

		/* Each stack once, then by chance. */
		make_stack(frames, i < nr_stacks ? i : random_u32(&random) % nr_stacks, stack);
		rc = recording_intern_stack(rec, stack, DEPTH, &sample.stack);
		if (rc == 0)
			rc = recording_add_sample(rec, &sample);
		if (rc == 0 && i % COMMIT_EVERY == COMMIT_EVERY - 1)
			rc = recording_commit(rec, err);
	}
	return rc;
}

int main(int argc, char **argv)
{
	struct recording *rec = NULL;
	struct err err = {0};
	uint64_t start_ns = now_ns(), fed_ns, closed_ns;
	struct stat st;
	int rc, close_rc;

	if (argc != 4) {
		fprintf(stderr, "usage: feed FILE SAMPLES STACKS\n");
		return 2;
	}
	rc = recording_create(argv[1], &rec, &err);
	if (rc == 0) {
		uint32_t nr_stacks = (uint32_t)strtoul(argv[3], NULL, 10);

		rc = feed(rec, (uint32_t)strtoul(argv[2], NULL, 10), nr_stacks != 0 ? nr_stacks : 1,
		        &err);
		fed_ns = now_ns();
		close_rc = recording_close(rec, rc == 0 ? &err : NULL);
		closed_ns = now_ns();
		rc = rc != 0 ? rc : close_rc;
	}
	if (rc != 0 || stat(argv[1], &st) != 0) {
		fprintf(stderr, "feed: %s\n", err.msg[0] != '\0' ? err.msg : strerror(-rc));
		return 1;
	}
	printf("{\"feed_ns\":%" PRIu64 ",\"close_ns\":%" PRIu64
	       ",\"bytes\":%lld,\"peak_kb\":%" PRIu64 "}\n",
	        fed_ns - start_ns, closed_ns - fed_ns, (long long)st.st_size, peak_kb());
	return 0;
}
