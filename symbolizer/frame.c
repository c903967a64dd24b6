#include "symbolizer/frame.h"

const char *frame_kind_name(enum frame_kind kind)
{
	static const char *const names[] = {
	        [FRAME_INTERP] = "ruby",
	        [FRAME_INTERP_JIT] = "jit",
	        [FRAME_INTERP_C] = "cfunc",
	        [FRAME_NATIVE] = "native",
	        [FRAME_KERNEL] = "kernel",
	        [FRAME_GC] = "gc",
	};

	if (kind >= ARRAY_SIZE(names) || names[kind] == NULL)
		return "unknown";
	return names[kind];
}

const char *frame_role_name(enum frame_role role)
{
	static const char *const names[] = {
	        [ROLE_VM] = "vm",
	        [ROLE_EXT] = "ext",
	        [ROLE_LIB] = "lib",
	        [ROLE_JIT] = "jit",
	        [ROLE_SYSCALL] = "syscall",
	        [ROLE_PROGRAM] = "program",
	};

	return role < ARRAY_SIZE(names) ? names[role] : NULL;
}
