/*
 * A seed from a Ruby process that stands still: all that is read of it when it is attached to and
 *the frames of its threads are named, and these frames as questions. seed_ruby PID OUT
 */
#include "tests/fuzz/world.h"

#include "runtimes/ruby/ruby_names.h"
#include "runtimes/ruby/ruby_runtime.h"

enum { MAX_FRAMES = 256, MAX_THREADS = 8, MAX_TRACE = 1 << 22, MAX_NAMED = 24 };

/* One bit for each byte would do: what was read, and what stood there. */
struct trace {
	const struct target *real;
	struct {
		uint64_t addr;
		uint8_t byte;
	} * v;
	size_t nr;
};

static int traced_read(const struct target *t, uint64_t addr, void *out, size_t n)
{
	struct trace *trace = t->ctx;
	int rc = target_read(trace->real, addr, out, n);

	for (size_t i = 0; rc == 0 && i < n && trace->nr < MAX_TRACE; i++) {
		trace->v[trace->nr].addr = addr + i;
		trace->v[trace->nr++].byte = ((uint8_t *)out)[i];
	}
	return rc;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

static void pad(FILE *out, uint64_t size)
{
	fwrite("\0\0\0\0\0\0\0", 1, -size & 7, out);
}

/* Sorted, and what touches is one piece. */
static uint64_t put_pieces(struct trace *t, FILE *out)
{
	long begin = ftell(out);

	qsort(t->v, t->nr, sizeof(*t->v), by_address);
	for (size_t i = 0; i < t->nr;) {
		struct capture_piece piece = {.addr = t->v[i].addr};
		size_t end = i;

		while (end < t->nr && t->v[end].addr - piece.addr <= piece.size) {
			piece.size = t->v[end].addr - piece.addr + 1;
			end++;
		}
		fwrite(&piece, sizeof(piece), 1, out);
		for (; i < end; i++)
			if (i + 1 == end || t->v[i].addr != t->v[i + 1].addr)
				fwrite(&t->v[i].byte, 1, 1, out);
		pad(out, piece.size);
	}
	return (uint64_t)(ftell(out) - begin);
}

/* A capture of the frame's code with what it takes to name it; the rest is read below. */
static void put_capture(
        struct runtime *rt, struct trace *t, unsigned int kind, uint64_t object, FILE *out)
{
	struct world_capture q = {.kind = WORLD_CAPTURE,
	        .object_kind = (uint8_t)kind,
	        .object = object,
	        .time_ns = 1,
	        .gc_gen = 8};
	struct rprof_capture c = {.object = object, .kind = kind, .time_ns = 1, .gc_gen = 8};
	size_t before = t->nr;
	struct trace own = {.v = t->v + before};
	long at = ftell(out);

	ruby_captured(rt, &c, sizeof(c));
	own.nr = t->nr - before;
	fwrite(&q, sizeof(q), 1, out);
	q.size = (uint16_t)put_pieces(&own, out);
	fseek(out, at, SEEK_SET);
	fwrite(&q, sizeof(q), 1, out);
	fseek(out, 0, SEEK_END);
	t->nr = before;
}

static void put_frames(struct runtime *rt, struct trace *t, FILE *out)
{
	uint64_t threads[MAX_THREADS], ec;
	struct interp_frame frames[MAX_FRAMES];
	struct interp_moment when = {1, 8, 0};
	struct interp_info info;
	size_t nr = ruby_threads_read(rt, threads, MAX_THREADS), named = 0;
	char name[64];

	for (size_t i = 0; i < nr; i++) {
		int nr_frames = ruby_thread_ec(rt, threads[i], &ec) == 0
		                        ? ruby_frames_read(rt, ec, frames, MAX_FRAMES)
		                        : 0;

		ruby_runtime.thread_name(rt, ec, name, sizeof(name));
		for (int k = 0; k < nr_frames && named < MAX_NAMED; k++, named++) {
			struct world_frame q = {.kind = WORLD_FRAME,
			        .leaf = k == 0,
			        .time_ns = 1,
			        .gc_gen = 8,
			        .frame = frames[k]};

			ruby_resolve(rt, &frames[k], k == 0, &when, &info);
			if (frames[k].code != 0 && named % 2 == 0)
				put_capture(rt, t, RUBY_CAPTURE_CODE, frames[k].code, out);
			if (frames[k].method != 0 && named % 3 == 0)
				put_capture(rt, t, RUBY_CAPTURE_METHOD, frames[k].method, out);
			fwrite(&q, sizeof(q), 1, out);
		}
	}
}

static void put_seed(struct runtime *rt, struct trace *t, const char *path)
{
	FILE *out = fopen(path, "w"), *questions = tmpfile();
	struct world_head head = {
	        .release = rt->l->since,
	        .base = rt->bias,
	        .ids_addr = rt->objects.ids_addr,
	        .classpath_id = rt->objects.classpath_id,
	        .attached_id = rt->objects.attached_id,
	        .objspace_addr = rt->proc.objspace_addr,
	};
	int c;

	if (out == NULL || questions == NULL) {
		perror(path);
		exit(1);
	}
	(void)ruby_thread_ec(rt, rt->main_thread, &head.context);
	put_frames(rt, t, questions);
	fwrite(&head, sizeof(head), 1, out);
	head.memory_sz = put_pieces(t, out);
	rewind(questions);
	while ((c = getc(questions)) != EOF)
		putc(c, out);
	rewind(out);
	fwrite(&head, sizeof(head), 1, out);
	fclose(questions);
	fclose(out);
}

int main(int argc, char **argv)
{
	struct target real, traced;
	struct trace trace = {.real = &real};
	struct dso_cache *dsos;
	struct maps maps = {0};
	struct runtime *rt;
	struct err err = {0};

	if (argc != 3)
		return 2;
	trace.v = calloc(MAX_TRACE, sizeof(*trace.v));
	if (trace.v == NULL || target_open(&real, atoi(argv[1]), &err) != 0 ||
	        maps_read(&maps, real.pid, &err) != 0 || dso_cache_new(&dsos) != 0)
		goto out;
	traced = real;
	traced.read = traced_read;
	traced.ctx = &trace;
	if (ruby_attach(&traced, &maps, dsos, &rt, &err) != 0)
		goto out;
	put_seed(rt, &trace, argv[2]);
	return 0;
out:
	fprintf(stderr, "seed_ruby: %s\n", err.msg);
	return 1;
}
