#include "symbolizer/frame.h"

#include <string.h>

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

bool frame_is_interp(const struct frame *f)
{
	return f->kind == FRAME_INTERP || f->kind == FRAME_INTERP_JIT || f->kind == FRAME_INTERP_C;
}

const char *frame_other_language(const struct frame *f)
{
	if (f->language == NULL || (!frame_is_interp(f) && f->kind != FRAME_GC))
		return NULL;
	return strcmp(f->language, frame_kind_name(FRAME_INTERP)) == 0 ? NULL : f->language;
}

const char *frame_shown_kind(const struct frame *f)
{
	const char *language = f->kind == FRAME_INTERP ? frame_other_language(f) : NULL;

	return language != NULL ? language : frame_kind_name((enum frame_kind)f->kind);
}

bool frame_language_is_valid(const char *language)
{
	size_t len = strlen(language);

	if (len == 0 || len > LANGUAGE_MAX ||
	        strspn(language, "abcdefghijklmnopqrstuvwxyz0123456789_") != len)
		return false;
	for (int kind = FRAME_INTERP_JIT; kind <= FRAME_GC; kind++)
		if (strcmp(language, frame_kind_name((enum frame_kind)kind)) == 0)
			return false;
	return strcmp(language, "unknown") != 0;
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
