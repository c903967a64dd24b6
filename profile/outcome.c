#include "profile/recording.h"

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

static const struct {
	const char *name, *text;
} reasons[] = {
        [REASON_PUSHING] = {"pushing", "a frame had been pushed but not yet entered"},
        [REASON_POPPING] = {"popping", "a frame had been popped but not yet left"},
        [REASON_FIBER_SWITCH] = {"fiber-switch",
                "caught in the middle of a switch between two fibers"},
        [REASON_MISPAIRED] = {"mispaired", "the native and the interpreter's frames do not pair"},
        [REASON_UNPLACED] = {"unplaced", "a C function's frame may stand too far out"},
        [REASON_LATE_NAME] = {"late-name", "a frame's code was freed before it could be named"},
        [REASON_NATIVE_LIMIT] = {"native-limit", "more native frames than the limit"},
        [REASON_INTERP_LIMIT] = {"interp-limit", "more frames of the interpreter than the limit"},
        [REASON_NO_MAPPING] = {"no-mapping", "an address lies in no mapping that was known"},
        [REASON_NO_CFI] = {"no-cfi", "code without unwind information"},
        [REASON_UNREADABLE] = {"unreadable", "a part of the stack could not be read"},
        [REASON_NO_PROGRESS] = {"no-progress", "unwinding did not move on"},
        [REASON_JIT] = {"jit", "code of the JIT could not be crossed"},
        [REASON_BAD_CONTEXT] = {"bad-context", "the interpreter's frames are not consistent"},
        [REASON_NO_TABLE] = {"no-table", "a library's unwind table was not loaded yet"},
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
