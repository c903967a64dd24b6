#include "profile/view.h"
#include "tests/unit/profile_fixture.h"
#include "tests/unit/tap.h"

/* The names of what is shown, with blanks between. */
static const char *show(struct view view, const struct frame *frames, size_t nr)
{
	static char out[512];
	uint32_t shown[32];
	size_t n = view_apply(&view, frames, nr, shown);

	out[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		strcat(out, i != 0 ? " " : "");
		strcat(out, frames[shown[i]].name);
	}
	return out;
}

static struct frame named(enum frame_kind kind, enum frame_role role, const char *name)
{
	return (struct frame){.kind = kind, .role = role, .name = name};
}

TEST(plumbing_and_startup_are_folded_and_the_leaf_stays)
{
	const struct frame s[] = {
	        named(FRAME_NATIVE, ROLE_VM, "_start"),
	        named(FRAME_NATIVE, ROLE_LIB, "__libc_start_main"),
	        named(FRAME_NATIVE, ROLE_VM, "vm_exec"),
	        named(FRAME_INTERP, ROLE_NONE, "<main>"),
	        named(FRAME_NATIVE, ROLE_VM, "rb_ary_each"),
	        named(FRAME_INTERP_C, ROLE_NONE, "Array#each"),
	        named(FRAME_NATIVE, ROLE_EXT, "ext_call"),
	        named(FRAME_NATIVE, ROLE_VM, "rb_funcall"),
	        named(FRAME_INTERP, ROLE_NONE, "leaf"),
	        named(FRAME_NATIVE, ROLE_VM, "rb_str_dup"),
	        named(FRAME_NATIVE, ROLE_LIB, "malloc"),
	        named(FRAME_KERNEL, ROLE_NONE, "do_page_fault"),
	};

	CHECK_STR(show((struct view){.mode = VIEW_DEFAULT}, s, ARRAY_SIZE(s)),
	        "<main> Array#each ext_call leaf rb_str_dup malloc do_page_fault");
	CHECK_STR(
	        show((struct view){.mode = VIEW_RUBY}, s, ARRAY_SIZE(s)), "<main> Array#each leaf");
	CHECK_STR(show((struct view){.mode = VIEW_ALL}, s, ARRAY_SIZE(s)),
	        "_start __libc_start_main vm_exec <main> rb_ary_each Array#each ext_call "
	        "rb_funcall leaf "
	        "rb_str_dup malloc do_page_fault");
}

TEST(a_stack_without_ruby_stays_whole)
{
	const struct frame s[] = {
	        named(FRAME_NATIVE, ROLE_LIB, "clone3"),
	        named(FRAME_NATIVE, ROLE_VM, "timer_thread"),
	        named(FRAME_KERNEL, ROLE_SYSCALL, "poll"),
	};

	CHECK_STR(show((struct view){.mode = VIEW_DEFAULT}, s, ARRAY_SIZE(s)),
	        "clone3 timer_thread poll");
	CHECK_STR(show((struct view){.mode = VIEW_RUBY}, s, ARRAY_SIZE(s)), "");
}

TEST(a_program_that_embeds_the_interpreter_keeps_its_frames)
{
	const struct frame s[] = {
	        named(FRAME_NATIVE, ROLE_PROGRAM, "server_main"),
	        named(FRAME_NATIVE, ROLE_VM, "rb_protect"),
	        named(FRAME_INTERP_JIT, ROLE_NONE, "handler"),
	        named(FRAME_GC, ROLE_NONE, "(gc)"),
	        named(FRAME_NATIVE, ROLE_VM, "gc_sweep"),
	};

	CHECK_STR(show((struct view){.mode = VIEW_DEFAULT}, s, ARRAY_SIZE(s)),
	        "server_main handler (gc) gc_sweep");
}

TEST(the_start_of_the_interpreters_own_program_is_left_out)
{
	const struct frame s[] = {
	        named(FRAME_NATIVE, ROLE_PROGRAM, "_start"),
	        named(FRAME_NATIVE, ROLE_PROGRAM, "ruby3.1+0x10b0"),
	        named(FRAME_NATIVE, ROLE_PROGRAM, "main"),
	        named(FRAME_INTERP, ROLE_NONE, "<main>"),
	        named(FRAME_NATIVE, ROLE_PROGRAM, "callback+0x10"),
	};

	CHECK_STR(show((struct view){.mode = VIEW_DEFAULT}, s, ARRAY_SIZE(s)),
	        "<main> callback+0x10");
}

TEST(code_of_the_jit_is_plumbing_below_ruby)
{
	const struct frame s[] = {
	        named(FRAME_NATIVE, ROLE_JIT, "[jit]"),
	        named(FRAME_INTERP_JIT, ROLE_NONE, "a"),
	        named(FRAME_NATIVE, ROLE_JIT, "[jit]"),
	        named(FRAME_INTERP_C, ROLE_NONE, "b"),
	        named(FRAME_INTERP_JIT, ROLE_NONE, "c"),
	        named(FRAME_NATIVE, ROLE_JIT, "[jit]"),
	};

	CHECK_STR(show((struct view){.mode = VIEW_DEFAULT}, s, ARRAY_SIZE(s)), "a b c [jit]");
}

TEST(a_leaf_of_the_vm_without_a_name_is_left_out)
{
	const struct frame s[] = {
	        named(FRAME_INTERP, ROLE_NONE, "<main>"),
	        named(FRAME_INTERP_C, ROLE_NONE, "IO.read"),
	        named(FRAME_NATIVE, ROLE_VM, "libruby-3.1.so.3.1.2+0xf80a0"),
	        named(FRAME_NATIVE, ROLE_VM, "rb_nogvl"),
	        named(FRAME_NATIVE, ROLE_LIB, "libz.so.1+0x4050"),
	};

	CHECK_STR(show((struct view){.mode = VIEW_DEFAULT}, s, ARRAY_SIZE(s)),
	        "<main> IO.read rb_nogvl libz.so.1+0x4050");
}

TEST(kinds_are_chosen_by_name)
{
	const struct frame s[] = {
	        named(FRAME_INTERP, ROLE_NONE, "a"),
	        named(FRAME_INTERP_C, ROLE_NONE, "b"),
	        named(FRAME_KERNEL, ROLE_NONE, "c"),
	};
	struct view view = {.mode = VIEW_ALL};

	CHECK(view_kinds_parse("kernel,ruby", &view.kinds));
	CHECK_STR(show(view, s, ARRAY_SIZE(s)), "a c");
	CHECK(!view_kinds_parse("rub", &view.kinds));
	CHECK(!view_kinds_parse("ruby,", &view.kinds));
	CHECK(!view_kinds_parse("", &view.kinds));
	CHECK(!view_mode_parse("nothing", &view.mode));
}

int main(int argc, char **argv)
{
	return tap_run(argc, argv);
}
