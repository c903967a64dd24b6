/*
 * An extension that measures what a profiler takes from the thread that it runs in.
 *
 *   Gap.spin(ms, path)       reads the clock without pause and notes each jump of 0.8 us or more:
 *                            pairs of u64 {CLOCK_MONOTONIC before the jump, ns} in path. Returns
 * how many. Gap.calls(n, pause_ns)   n getppid(2), pause_ns apart, each timed. Returns the ns of
 * each, in order of size; the clock's own cost is in all of them.
 */
#include <ruby.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MAX_GAPS = 1 << 18, GAP_MIN_NS = 800 };

struct gap {
	uint64_t start_ns, length_ns;
};

static struct gap gaps[MAX_GAPS];

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static VALUE gap_spin(VALUE self, VALUE ms, VALUE path)
{
	uint64_t last, end;
	size_t nr = 0;
	FILE *out;

	memset(gaps, 0, sizeof(gaps)); /* no page faults while it counts */
	last = now_ns();
	end = last + NUM2ULL(ms) * 1000000;
	while (last < end) {
		uint64_t now = now_ns();

		if (now - last >= GAP_MIN_NS && nr < MAX_GAPS)
			gaps[nr++] = (struct gap){.start_ns = last, .length_ns = now - last};
		last = now;
	}
	out = fopen(StringValueCStr(path), "we");
	if (out == NULL)
		rb_sys_fail("the file of gaps");
	fwrite(gaps, sizeof(gaps[0]), nr, out);
	if (fclose(out) != 0)
		rb_sys_fail("the file of gaps");
	return SIZET2NUM(nr);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static VALUE gap_calls(VALUE self, VALUE count, VALUE pause)
{
	size_t nr = NUM2SIZET(count);
	uint64_t pause_ns = NUM2ULL(pause), *ns = calloc(nr + 1, sizeof(*ns));
	VALUE result;

	if (ns == NULL)
		rb_raise(rb_eNoMemError, "no memory for the times");
	for (size_t i = 0; i < nr; i++) {
		uint64_t before = now_ns(), after;

		syscall(SYS_getppid);
		after = now_ns();
		ns[i] = after - before;
		while (now_ns() - after < pause_ns)
			;
	}
	qsort(ns, nr, sizeof(*ns), compare_u64);
	result = rb_ary_new_capa((long)nr);
	for (size_t i = 0; i < nr; i++)
		rb_ary_push(result, ULL2NUM(ns[i]));
	free(ns);
	return result;
}

__attribute__((visibility("default"))) void Init_gap(void)
{
	VALUE mod = rb_define_module("Gap");

	rb_define_singleton_method(mod, "spin", gap_spin, 2);
	rb_define_singleton_method(mod, "calls", gap_calls, 2);
}
