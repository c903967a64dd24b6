/*
 * Which frames of a stack a reader wants to see. Pure; reports, exports and flame graphs share it.
 */
#ifndef PROFILE_VIEW_H
#define PROFILE_VIEW_H

#include "symbolizer/frame.h"
#include <stdbool.h>

enum view_mode {
	/*
	 * Ruby, C functions, and native frames where they tell something. A native frame of the
	 * interpreter itself (role vm) or of its JIT's code is hidden when a ruby, jit or cfunc
	 * frame stands nearer to the leaf: there it is plumbing. So are the native frames of
	 * libraries (role lib) rootward of the first such frame, and those of the program that are
	 * its entry or have no name: the start of program and thread. What the interpreter does
	 * itself at the leaf stays if it has a name: an address in a stripped library tells
	 * nothing. A stack without any ruby, jit or cfunc frame stays whole.
	 */
	VIEW_DEFAULT = 0,
	VIEW_RUBY, /* ruby, jit and cfunc frames only, of whatever language */
	VIEW_ALL,
};

struct view {
	enum view_mode mode;
	uint32_t kinds; /* bits 1 << enum frame_kind: those to show; 0: all */
};

/* "default", "ruby", "all". */
bool view_mode_parse(const char *name, enum view_mode *mode);
/* "ruby,jit,cfunc": names of frame_kind_name separated by commas; "ruby" is what any interpreter
 * runs. */
bool view_kinds_parse(const char *names, uint32_t *kinds);

/* frames: root first. Writes the indices of the frames to show, root first, to shown[nr]; returns
 * how many. */
size_t view_apply(const struct view *view, const struct frame *frames, size_t nr, uint32_t *shown);

#endif
