/*
 * Records of the ring on their way into a recording: samples and captures of any content, of a
 * process that is made up. What comes out can be read, has all samples, and no number in it that is
 * not one of its kind.
 */
#include "tests/fuzz/made_up_process.h"
#include "tests/fuzz/records.h"

#include "profile/reader.h"
#include "record/kept_walk.h"
#include "record/pipeline.h"

#include <unistd.h>

enum { MAX_RECORDS = 128, RATE_HZ = 99 };

static struct library ruby;
static struct dso_cache *dsos; /* for all inputs: reading a library takes long */
static char path[64];

/* As record/kernel.c takes them from the ring. */
static void put_records(struct pipeline *pl, struct feed f)
{
	struct kept_walks *walks;
	const struct rprof_sample *whole;
	size_t whole_sz, sz;

	MUST(kept_walks_new(1, &walks) == 0);
	for (int i = 0; i < MAX_RECORDS && f.n > 0; i++) {
		struct rprof_sample *record = record_read(&f, &sz);

		if (record->record.type == RECORD_CAPTURE) {
			if (sz >= sizeof(struct rprof_capture))
				pipeline_capture(pl, (const struct rprof_capture *)record, sz);
		} else if (kept_walks_expand(walks, record, sz, &whole, &whole_sz) == 0) {
			pipeline_add(pl, whole, whole_sz);
		}
		free(record);
	}
	kept_walks_free(walks);
}

static int check_stack(const struct reader_stack *s, void *ctx)
{
	uint64_t *nr = ctx;

	MUST(s->outcome >= STACK_EXACT && s->outcome <= STACK_NO_CONTEXT);
	/* What is not exact says why. */
	MUST((s->reason != REASON_NONE) ==
	        (s->outcome == STACK_TRANSIENT || s->outcome == STACK_TRUNCATED));
	MUST(s->reason == REASON_NONE || stack_reason_name((enum stack_reason)s->reason) != NULL);
	MUST(stack_reason_is_transient((enum stack_reason)s->reason) ==
	        (s->outcome == STACK_TRANSIENT));
	for (size_t i = 0; i < s->nr_frames; i++)
		MUST(s->frames[i].name != NULL);
	*nr += s->nr_samples;
	return 0;
}

static void check_recording(uint64_t samples)
{
	struct reader *r = NULL;
	uint64_t nr = 0;

	MUST(reader_open(path, &r, NULL) == 0);
	MUST(reader_each_stack(r, NULL, check_stack, &nr, NULL) == 0);
	MUST(nr == samples);
	reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct trigger_options options = {.rate_hz = RATE_HZ};
	struct recording_process about = {.pid = MADE_UP_PID, .comm = "ruby"};
	struct pipeline_stats stats;
	struct recording *rec;
	struct pipeline *pl;
	struct process *p;
	uint32_t id;

	if (dsos == NULL) {
		MUST(dso_cache_new(&dsos) == 0);
		library_open(&ruby, dsos, RUBY_VERSION(3, 1, 0));
		snprintf(path, sizeof(path), "%s/rprof-fuzz-%d",
		        access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
	}
	MUST(recording_create(path, &rec, NULL) == 0);
	MUST(recording_add_process(rec, &about, &id) == 0);
	p = process_made_up(id, &ruby, dsos);
	MUST(pipeline_new(rec, NULL, &options, &pl, NULL) == 0);
	MUST(pipeline_add_process(pl, p, NULL) == 0);
	put_records(pl, (struct feed){data, size});
	pipeline_flush(pl);
	pipeline_stats(pl, &stats);
	pipeline_free(pl);
	process_free(p);
	MUST(recording_close(rec, NULL) == 0);
	check_recording(stats.stored.samples);
	unlink(path);
	return 0;
}
