/*
 * Seeds of records: what a thread's samples look like on the ring, whole and as differences.
 *	seed_records DIR
 * The addresses are those of the process that fuzz_pipeline.c makes up.
 */
#include "tests/fuzz/records.h"
#include "tests/fuzz/made_up.h"

#include "runtimes/ruby/ruby_names.h"

static FILE *out;

static void put(const void *record, size_t size)
{
	uint16_t sz = (uint16_t)size;

	fwrite(&sz, 2, 1, out);
	fwrite(&sz, 2, 1, out);
	fwrite(record, size, 1, out);
}

struct sample {
	struct rprof_sample head;
	uint64_t words[64];
};

static struct sample sample_new(uint32_t seq)
{
	struct sample s = {.head = {.record = {.type = RECORD_SAMPLE},
	                           .time_ns = 1000000ULL * seq,
	                           .tgid = MADE_UP_PID,
	                           .tid = MADE_UP_PID + 1,
	                           .trigger = TRIGGER_CPU,
	                           .flags = SAMPLE_F_KEPT,
	                           .native_outcome = WALK_ROOT,
	                           .interp_outcome = WALK_ROOT,
	                           .tag = MADE_UP_TAG,
	                           .keep_seq = seq,
	                           .context = MADE_UP_CONTEXT,
	                           .gc_gen = 8,
	                           .comm = "ruby"}};

	return s;
}

static void sample_put(struct sample *s, const uint64_t *natives, uint16_t nr_native,
        const struct interp_frame *frames, uint16_t nr_interp)
{
	s->head.nr_native = nr_native;
	s->head.nr_interp = nr_interp;
	memcpy(s->words, natives, nr_native * sizeof(*natives));
	memcpy(s->words + nr_native, frames, nr_interp * sizeof(*frames));
	s->head.record.size = (uint32_t)(sizeof(s->head) + nr_native * sizeof(*natives) +
	                                 nr_interp * sizeof(*frames));
	put(s, s->head.record.size);
}

static void put_run(bool unsent)
{
	const uint64_t natives[] = {MADE_UP_LOOP | NATIVE_INTERRUPTED, MADE_UP_ENTRY, MADE_UP_SITE,
	        MADE_UP_LOOP, MADE_UP_ENTRY, MADE_UP_FILE};
	const struct interp_frame frames[] = {
	        {.pc = MADE_UP_CODE + 8,
	                .code = MADE_UP_ISEQ,
	                .method = MADE_UP_METHOD,
	                .flags = 0x22220021},
	        {.method = MADE_UP_METHOD, .flags = 0x55550081},
	        {.pc = MADE_UP_CODE + 16, .code = MADE_UP_ISEQ, .flags = 0x77770021},
	};
	struct sample s = sample_new(1);

	if (unsent)
		s.head.flags |= SAMPLE_F_UNSENT;
	sample_put(&s, natives, 6, frames, 3);
	s = sample_new(2);
	s.head.base_native = 5;
	s.head.base_interp = 2;
	sample_put(&s, natives, 1, frames, 1);
	s = sample_new(3);
	s.head.base_native = 6;
	s.head.base_interp = 3;
	s.head.flags |= SAMPLE_F_IN_GC;
	s.head.trigger = TRIGGER_SYSCALL;
	sample_put(&s, natives, 1, frames, 0);
	s = sample_new(4);
	s.head.native_outcome = WALK_NO_CFI;
	s.head.flags |= SAMPLE_F_OFF_STACK;
	sample_put(&s, natives, 3, frames, 2);
}

/* A capture of the code: what fuzz_pipeline.c's layout makes of it is the method "work", on line 7.
 */
static void put_capture(void)
{
	const struct ruby_layout *l = ruby_layout_find(MADE_UP_RELEASE);
	struct {
		struct rprof_capture head;
		struct capture_piece at_iseq;
		uint64_t iseq[5];
		struct capture_piece at_body;
		uint8_t body[RUBY_BODY_WORDS * 8];
		struct capture_piece at_string;
		uint64_t string[5];
	} c = {
	        .head = {.record = {RECORD_CAPTURE, sizeof(c)},
	                .tgid = MADE_UP_PID,
	                .tag = MADE_UP_TAG,
	                .object = MADE_UP_ISEQ,
	                .kind = RUBY_CAPTURE_CODE,
	                .gc_gen = 8},
	        .at_iseq = {MADE_UP_ISEQ, sizeof(c.iseq)},
	        .iseq = {RUBY_T_IMEMO | imemo_iseq << 12},
	        .at_body = {MADE_UP_BODY, sizeof(c.body)},
	        .at_string = {MADE_UP_STRING, sizeof(c.string)},
	        .string = {RUBY_T_STRING, 0, 4},
	};
	uint64_t code = MADE_UP_CODE, string = MADE_UP_STRING;
	uint32_t type = ISEQ_TYPE_METHOD, size = 16, line = 7;

	c.iseq[l->iseq.body / 8] = MADE_UP_BODY;
	memcpy(c.body + l->iseq.type, &type, 4);
	memcpy(c.body + l->iseq.iseq_size, &size, 4);
	memcpy(c.body + l->iseq.iseq_encoded, &code, 8);
	memcpy(c.body + l->iseq.label, &string, 8);
	memcpy(c.body + l->iseq.pathobj, &string, 8);
	memcpy(c.body + l->iseq.first_lineno, &line, 4);
	memcpy((char *)c.string + l->string.embed, "work", 4);
	put(&c, sizeof(c));
}

static void open_seed(const char *dir, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	out = fopen(path, "w");
	if (out == NULL) {
		perror(path);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	open_seed(argv[1], "run");
	put_run(false);
	fclose(out);
	open_seed(argv[1], "unsent");
	put_run(true);
	put_capture();
	put_run(false);
	fclose(out);
	return 0;
}
