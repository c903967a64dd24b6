/* What outcomes and reasons of stacks are called, and what they mean for a reader. */
#include "profile/recording.h"

#include "base/buf.h"

#include <string.h>

const char *stack_outcome_name(enum stack_outcome outcome)
{
	static const char *const names[] = {
	        [STACK_EXACT] = "exact",
	        [STACK_TRANSIENT] = "transient",
	        [STACK_TRUNCATED] = "truncated",
	        [STACK_NO_CONTEXT] = "no-context",
	};

	if (outcome >= ARRAY_SIZE(names) || names[outcome] == NULL)
		return "unknown";
	return names[outcome];
}

#define OUTER_NATIVE "the outermost native frames of these stacks are missing, because "
#define INTERP_WHOLE "; their Ruby frames are not affected"

/* In a meaning, %s is the code that walks ended in. */
static const struct {
	const char *name, *text, *meaning;
} reasons[] = {
        [REASON_PUSHING] = {"pushing", "a frame had been pushed but not yet entered",
                "these stacks were caught in the middle of a call: their innermost Ruby frame "
                "is being called and has not begun to run; its callers are right"},
        [REASON_POPPING] = {"popping", "a frame had been popped but not yet left",
                "these stacks were caught in the middle of a return: the frame that returns "
                "is not shown any more, and its last moment counts as its caller's"},
        [REASON_FIBER_SWITCH] = {"fiber-switch",
                "caught in the middle of a switch between two fibers",
                "these stacks were caught in a switch of fibers: they show the Ruby frames of the "
                "one, and of the native "
                "frames only the innermost, which may be the other's"},
        [REASON_MISPAIRED] = {"mispaired", "the native and the interpreter's frames do not pair",
                "native and Ruby frames could not be put in order: these stacks show the Ruby "
                "frames, and of the native ones the innermost"},
        [REASON_UNPLACED] = {"unplaced", "a C function's frame may stand too far out",
                "no frame of these stacks is missing, but a C function called from Ruby may "
                "stand further out among the native frames than it is"},
        [REASON_LATE_NAME] = {"late-name", "a frame's code was freed before it could be named",
                "a frame of these stacks has no name or a part of it, because its code was gone "
                "before it was read; no frame is missing, and the other names are right"},
        [REASON_LINE] = {"line", "the line of a frame may be another one of its code",
                "all frames of these stacks are right, but the line of one is not known or may be "
                "another one of the same method, since code of a JIT does not note each line"},
        [REASON_NATIVE_LIMIT] = {"native-limit", "more native frames than the limit",
                OUTER_NATIVE "the stacks are deeper than rprof follows them" INTERP_WHOLE},
        [REASON_INTERP_LIMIT] = {"interp-limit", "more frames of the interpreter than the limit",
                "the outermost Ruby frames of these stacks are missing, because the stacks are "
                "deeper than rprof follows them: what called them lacks their time in its "
                "total"},
        [REASON_NO_MAPPING] = {"no-mapping", "an address lies in no mapping that was known",
                OUTER_NATIVE "they were called by code that had only just been mapped, or an "
                             "address on the stack was none of code" INTERP_WHOLE},
        [REASON_NO_CFI] = {"no-cfi", "code without unwind information",
                OUTER_NATIVE "there is no unwind information for code of %s" INTERP_WHOLE},
        [REASON_UNREADABLE] = {"unreadable", "a part of the stack could not be read",
                "outer frames of these stacks are missing, because memory could not be read: it "
                "was paged out, or the process was just exiting"},
        [REASON_NO_PROGRESS] = {"no-progress", "unwinding did not move on",
                OUTER_NATIVE "the unwind information of %s led nowhere" INTERP_WHOLE},
        [REASON_JIT] = {"jit", "code of the JIT could not be crossed",
                OUTER_NATIVE "the caller of the JIT's code was not found" INTERP_WHOLE},
        [REASON_BAD_CONTEXT] = {"bad-context", "the interpreter's frames are not consistent",
                "Ruby frames of these stacks are missing, because the interpreter's account of "
                "them made no sense at that moment; their native frames are right"},
        [REASON_NO_TABLE] = {"no-table", "a library's unwind table was not loaded yet",
                OUTER_NATIVE "there was no unwind table for %s yet, or it has none" INTERP_WHOLE},
        [REASON_GC_PLACE] = {"gc-place",
                "the garbage collector's frame may stand too far in or out",
                "no frame of these stacks is missing, but the garbage collector's frame may stand "
                "too far in or out among the native ones"},
        [REASON_SIGNAL_STACK] = {"signal-stack",
                "a signal handler's own stack could not be followed to the thread's",
                "these stacks were caught in a signal handler with a stack of its own, behind "
                "which the thread's was not found: they show the Ruby frames, and of the native "
                "ones only the handler's"},
        [REASON_EXITING] = {"exiting", "the thread was ending and had given up its memory",
                "these are the last moments of threads that had given up their memory: only the "
                "kernel's frames are left"},
};

const char *stack_reason_name(enum stack_reason reason)
{
	if (reason == REASON_NONE)
		return NULL;
	if (reason >= ARRAY_SIZE(reasons) || reasons[reason].name == NULL)
		return "unknown";
	return reasons[reason].name;
}

const char *stack_reason_text(enum stack_reason reason)
{
	if (reason == REASON_NONE)
		return "";
	if (reason >= ARRAY_SIZE(reasons) || reasons[reason].text == NULL)
		return "a reason that this version does not know";
	return reasons[reason].text;
}

void stack_cuts_add(struct stack_cuts *c, const char *library, uint64_t count)
{
	size_t i = 0;

	if (library == NULL)
		return;
	while (i < c->nr && strcmp(c->library[i], library) != 0)
		i++;
	if (i == ARRAY_SIZE(c->library)) {
		c->more = true;
		return;
	}
	if (i == c->nr) {
		c->library[i] = library;
		c->nr++;
	}
	c->count[i] += count;
}

/* "libgmp.so.10", "libgmp.so.10 and others" */
static void put_cuts(struct buf *b, const struct stack_cuts *c)
{
	const char *library;
	size_t most = 0;

	if (c == NULL || c->nr == 0) {
		buf_puts(b, "some library");
		return;
	}
	for (size_t i = 1; i < c->nr; i++)
		if (c->count[i] > c->count[most])
			most = i;
	library = strrchr(c->library[most], '/');
	library = library != NULL ? library + 1 : c->library[most];
	/* A name of the target's file: nothing that a terminal would obey. */
	for (; *library != '\0'; library++)
		buf_append(
		        b, (unsigned char)*library < 0x20 || *library == 0x7f ? "?" : library, 1);
	if (c->nr > 1 || c->more)
		buf_puts(b, " and others");
}

void stack_meaning(struct buf *b, enum stack_outcome outcome, enum stack_reason reason,
        const struct stack_cuts *cuts)
{
	const char *text = "", *place;

	if (outcome == STACK_NO_CONTEXT)
		text = "these are threads that run no Ruby code at that moment; their native "
		       "frames are all there";
	else if (outcome != STACK_EXACT && reason != REASON_NONE)
		text = reason < ARRAY_SIZE(reasons) && reasons[reason].meaning != NULL
		               ? reasons[reason].meaning
		               : "a newer rprof can say what this means";
	place = strstr(text, "%s");
	if (place == NULL) {
		buf_puts(b, text);
		return;
	}
	buf_append(b, text, (size_t)(place - text));
	put_cuts(b, cuts);
	buf_puts(b, place + 2);
}

bool stack_reason_is_transient(enum stack_reason reason)
{
	switch (reason) {
	case REASON_PUSHING:
	case REASON_POPPING:
	case REASON_FIBER_SWITCH:
	case REASON_MISPAIRED:
	case REASON_UNPLACED:
	case REASON_LATE_NAME:
	case REASON_LINE:
	case REASON_SIGNAL_STACK:
	case REASON_GC_PLACE:
		return true;
	default:
		return false;
	}
}
