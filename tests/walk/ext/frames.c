/*
 * An extension with stacks that differ in as little as they can.
 *
 *   Frames.spin(us)                 works for so long
 *   Frames.by_caller(n, us)         the same frames below main but for one return address, by n
 *   Frames.by_frame_pointer(n, us)  the same pc and sp inside, in a frame with alloca() that begins
 *                                   elsewhere and has another caller, by n: the return address
 *                                   that is valid for the other n still stands where it stood
 *   Frames.interrupt(period, us)    from now on, each period (in us) of CPU time, a signal handler
 *                                   works for so long on a stack of its own
 */
#include <ruby.h>

#include <alloca.h>
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

#define ALONE __attribute__((noinline, noclone, noipa))

/* Of two nested frames: where the inner one ends is the same, however large the outer one is. */
enum { ROOM_NARROW = 256, ROOM_WIDE = 1024, ROOM_BOTH = 2048 };

static volatile uint64_t sink;
static volatile long handler_us;

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* Calls nothing for most of the time, so that what its callers left on the stack stays. */
ALONE static void spin_for(long us)
{
	uint64_t end = now_us() + (uint64_t)us;

	while (now_us() < end)
		for (int i = 0; i < 200; i++)
			sink += (uint64_t)i;
}

ALONE static void callee(long us)
{
	spin_for(us);
	sink++;
}

ALONE static void caller(long n, long us)
{
	if (n & 1)
		callee(us);
	else
		callee(us + 1);
	sink++;
}

/* Its frame is of a size that the CFI does not know: the CFA is worked out from rbp. */
ALONE static void inner(size_t size, long us)
{
	volatile char *room = alloca(size);

	room[0] = 1;
	spin_for(us);
	sink += (uint64_t)room[0];
}

ALONE static void narrow(long us)
{
	volatile char *room = alloca(ROOM_NARROW);

	room[0] = 1;
	inner(ROOM_BOTH - ROOM_NARROW, us);
	sink += (uint64_t)room[0];
}

ALONE static void wide(long us)
{
	volatile char *room = alloca(ROOM_WIDE);

	room[0] = 1;
	inner(ROOM_BOTH - ROOM_WIDE, us);
	sink += (uint64_t)room[0];
}

static VALUE frames_spin(VALUE self, VALUE us)
{
	spin_for(NUM2LONG(us));
	return Qnil;
}

static VALUE frames_by_caller(VALUE self, VALUE n, VALUE us)
{
	caller(NUM2LONG(n), NUM2LONG(us));
	return Qnil;
}

static VALUE frames_by_frame_pointer(VALUE self, VALUE n, VALUE us)
{
	void (*volatile outer)(long) = NUM2LONG(n) & 1 ? narrow : wide;

	outer(NUM2LONG(us));
	return Qnil;
}

static void on_signal(int signal)
{
	inner(64 + (sink & 0x3c0), handler_us);
}

static VALUE frames_interrupt(VALUE self, VALUE period, VALUE us)
{
	static char stack[65536];
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
	stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct itimerval timer = {
	        .it_interval.tv_usec = NUM2LONG(period), .it_value.tv_usec = NUM2LONG(period)};

	handler_us = NUM2LONG(us);
	if (sigaltstack(&own, NULL) != 0 || sigaction(SIGPROF, &action, NULL) != 0 ||
	        setitimer(ITIMER_PROF, &timer, NULL) != 0)
		rb_sys_fail("the timer");
	return Qnil;
}

__attribute__((visibility("default"))) void Init_frames(void)
{
	VALUE mod = rb_define_module("Frames");

	rb_define_singleton_method(mod, "spin", frames_spin, 1);
	rb_define_singleton_method(mod, "by_caller", frames_by_caller, 2);
	rb_define_singleton_method(mod, "by_frame_pointer", frames_by_frame_pointer, 2);
	rb_define_singleton_method(mod, "interrupt", frames_interrupt, 2);
}
