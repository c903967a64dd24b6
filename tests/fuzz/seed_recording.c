/*
 * Seeds of recordings: one as the writer makes it, with frames of all kinds.
 *	seed_recording OUT
 */
#include "tests/unit/profile_fixture.h"

int main(int argc, char **argv)
{
	struct frame frames[8], native = native_frame(ROLE_LIB, "write", "/lib/libc.so.6");
	struct fixture f;
	struct err err;
	uint32_t trigger;

	if (argc != 2)
		return 2;
	fixture_create(&f, argv[1]);
	recording_add_trigger(f.rec, "syscall:openat", "calls", &trigger);
	recording_set_meta(f.rec, "rate_hz", "99");
	recording_set_meta(f.rec, "duration_ns", "10000000000");
	recording_set_loss(f.rec, "ring-buffer-full", 3);
	fixture_blocks(frames);
	frames[4] = native_frame(ROLE_VM, "rb_vm_exec", "libruby.so");
	frames[5] = native_frame(ROLE_EXT, "</script><b>", "x;y\x1b[1m.so");
	frames[6] = native;
	frames[7] =
	        (struct frame){.kind = FRAME_KERNEL, .name = "sys_write", .library = "[kernel]"};
	fixture_sample(&f, f.thread, f.cpu, 10101010, frames, 8);
	fixture_sample(&f, f.thread, f.cpu, 10101010, frames + 2, 4);
	fixture_sample(&f, f.thread, trigger, 1, frames, 5);
	f.outcome = STACK_TRUNCATED;
	f.reason = REASON_NO_CFI;
	fixture_sample(&f, f.thread, f.cpu, 10101010, frames, 3);
	return recording_close(f.rec, &err) != 0;
}
