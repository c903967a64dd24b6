#include "profile/view.h"

#include <string.h>

bool view_mode_parse(const char *name, enum view_mode *mode)
{
	static const char *const names[] = {"default", "ruby", "all"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(name, names[i]) == 0) {
			*mode = (enum view_mode)i;
			return true;
		}
	}
	return false;
}

bool view_kinds_parse(const char *names, uint32_t *kinds)
{
	uint32_t mask = 0;

	for (;;) {
		size_t len = strcspn(names, ",");
		uint32_t bit = 0;

		for (int kind = FRAME_INTERP; kind <= FRAME_GC; kind++) {
			const char *name = frame_kind_name((enum frame_kind)kind);

			if (strlen(name) == len && strncmp(names, name, len) == 0)
				bit = 1u << kind;
		}
		if (bit == 0)
			return false;
		mask |= bit;
		if (names[len] == '\0')
			break;
		names += len + 1;
	}
	*kinds = mask;
	return true;
}

/* Where a program begins, and code that has no name. */
static bool is_anonymous(const struct frame *f)
{
	return f->name == NULL || strcmp(f->name, "_start") == 0 || strcmp(f->name, "main") == 0 ||
	       strstr(f->name, "+0x") != NULL;
}

/* Natives that stand rootward of an interpreter frame (plumbing), or of all of them (start). */
static bool is_noise(const struct frame *f, bool plumbing, bool start)
{
	switch (f->role) {
	case ROLE_VM:
		/* Above the innermost interpreter frame it says what that spends its time with, if
		 * it has a name: an address in a stripped library tells nothing. */
		return plumbing || is_anonymous(f);
	case ROLE_JIT:
		return plumbing;
	case ROLE_LIB:
		return start;
	case ROLE_PROGRAM:
		return start && is_anonymous(f);
	default:
		return false;
	}
}

size_t view_apply(const struct view *view, const struct frame *frames, size_t nr, uint32_t *shown)
{
	size_t first = nr, last = 0, nr_shown = 0;

	for (size_t i = 0; i < nr; i++) {
		if (frame_is_interp(&frames[i])) {
			first = MIN(first, i);
			last = i;
		}
	}
	for (size_t i = 0; i < nr; i++) {
		const struct frame *f = &frames[i];
		bool show = true;

		if (view->mode == VIEW_RUBY)
			show = frame_is_interp(f);
		else if (view->mode == VIEW_DEFAULT && first < nr && f->kind == FRAME_NATIVE)
			show = !is_noise(f, i < last, i < first);
		if (view->kinds != 0 && (f->kind >= 32 || (view->kinds & 1u << f->kind) == 0))
			show = false;
		if (show)
			shown[nr_shown++] = (uint32_t)i;
	}
	return nr_shown;
}
